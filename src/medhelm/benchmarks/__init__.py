"""Benchmarks: their definitions, their data, and the instances that come of both."""
