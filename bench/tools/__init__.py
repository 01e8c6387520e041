"""Programs that cells and workloads start as processes of their own."""
