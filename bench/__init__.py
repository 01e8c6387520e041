"""Measure speed and memory of whole processes: medhelm and other harnesses."""
