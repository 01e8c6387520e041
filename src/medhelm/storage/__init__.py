"""The store on disk: runs, prompts, batches, releases."""
