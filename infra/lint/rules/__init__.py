"""The rules of the linter, one file per subject."""
