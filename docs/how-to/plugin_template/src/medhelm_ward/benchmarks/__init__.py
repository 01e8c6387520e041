"""One folder per benchmark."""
