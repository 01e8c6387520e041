"""Pages: one module each, from a `PageRequest` to a template and its values."""
