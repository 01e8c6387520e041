"""Tools of the project's own documents: generated reference pages, recorded command output, man pages; and wheels with hashes."""
