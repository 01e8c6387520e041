"""Batch APIs of services: requests submitted together, at half the price."""
