"""Tests, in the folders of what they test; helpers are in `support`."""
