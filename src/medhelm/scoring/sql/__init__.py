"""Execute SQL that a model wrote, in a locked-down process."""
