"""The formats of reports: text tables, CSV, Markdown, LaTeX and JSON."""
