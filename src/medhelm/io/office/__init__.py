"""Workbooks and Word documents."""
