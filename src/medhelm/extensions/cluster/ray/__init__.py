"""Models and neural metrics on a Ray cluster: `medhelm run --cluster`."""
