"""Pages for owners and readers of studies."""
