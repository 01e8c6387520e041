"""Blinded ratings by clinicians: plan a study, rate in a browser or a workbook, and bring the ratings into the results."""
