"""Conditions under which runs were measured: which runs may share a column, and how to include the others."""
