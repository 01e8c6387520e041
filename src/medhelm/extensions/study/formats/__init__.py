"""Files for raters who work without the site, one module a format."""
