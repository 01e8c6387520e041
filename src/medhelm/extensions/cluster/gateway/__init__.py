"""The gateway: one process that owns the cache, keys, budget and egress policy for others, and the others' side."""
