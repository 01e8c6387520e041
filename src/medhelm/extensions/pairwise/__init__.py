"""Judges that compare two completions with each other, in both orders."""
