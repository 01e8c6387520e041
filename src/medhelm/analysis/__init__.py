"""Numbers from numbers: no files, no network, no models; usable from a notebook."""
