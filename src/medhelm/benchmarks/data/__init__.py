"""Read a benchmark's data files into instances."""
