"""Runs and results of other tools, and stores in other places."""
