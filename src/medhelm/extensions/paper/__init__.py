"""The tables and figures of the paper, and its filter of references."""
