"""Judge, compare and size runs."""
