"""Models on this machine: their files, inference in this process, and local servers."""
