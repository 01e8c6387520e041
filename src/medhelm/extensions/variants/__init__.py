"""One question asked many ways: repeats, prompts and perturbations, and the reports about them."""
