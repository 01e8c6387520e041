"""General statistics: means, bootstrap, correlation, distributions."""
