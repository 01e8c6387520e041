"""What is on disk: the store and its run folders."""
