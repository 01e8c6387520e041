"""Limits on money, requests in flight and open files."""
