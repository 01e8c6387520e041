"""Read sample files of lm-evaluation-harness."""
