"""Runs of a store: selection, lists, scores, remarks, encryption and removal."""
