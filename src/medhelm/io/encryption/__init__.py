"""Encryption at rest: keys, encrypted files, and the folders whose files are encrypted."""
