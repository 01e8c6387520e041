"""Reports with the tables and figures of the MedHELM paper, made from stores or from published results."""
