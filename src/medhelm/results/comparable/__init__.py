"""Conditions under which runs were measured: which runs may share a column, and what brings in the others."""
