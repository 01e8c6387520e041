"""The results of a store as a website: served on this machine (`server`) or written as static files (`export`)."""
