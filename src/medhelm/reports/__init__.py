"""Numbers in, tables out."""
