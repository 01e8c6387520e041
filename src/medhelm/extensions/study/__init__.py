"""Blinded ratings by clinicians: plan a study, rate it, and bring the ratings into the results."""
