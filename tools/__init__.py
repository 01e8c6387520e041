"""Tools of the project: generated reference pages, recorded output, man pages, and wheels with hashes."""
