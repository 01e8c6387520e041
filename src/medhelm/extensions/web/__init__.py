"""Pages and a JSON API that show the results of a store."""
