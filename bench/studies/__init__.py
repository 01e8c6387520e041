"""Studies that are run by hand, one at a time."""
