"""Deletion of single instances, keyed hashes in place of names, and the places of exports."""
