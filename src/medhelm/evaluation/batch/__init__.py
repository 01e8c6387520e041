"""Send the requests of an evaluation through batch APIs."""
