"""Encrypted stores."""
