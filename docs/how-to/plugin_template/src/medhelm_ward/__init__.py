"""Plug-ins for MedHELM."""
