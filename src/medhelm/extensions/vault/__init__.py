"""Encryption at rest: what encrypts the files of stores."""
