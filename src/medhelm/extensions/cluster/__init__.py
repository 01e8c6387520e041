"""Evaluations on several processes and machines."""
