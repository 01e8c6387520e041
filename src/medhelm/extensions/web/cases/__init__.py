"""Cases: searches for instances, and one instance with everything known about it."""
