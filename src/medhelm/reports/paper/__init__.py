"""Tables and figures of the MedHELM paper, rendered."""
