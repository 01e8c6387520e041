"""Formats of results: fields, tables as text, Markdown and LaTeX, and charts."""
