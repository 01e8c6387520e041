"""Models on this machine: their files, how they are run in this process, and servers that are started for them."""
