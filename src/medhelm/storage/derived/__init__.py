"""Files made from the runs of a store: they save time, and can be deleted at any time."""
