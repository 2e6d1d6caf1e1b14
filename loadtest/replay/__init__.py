"""Read recorded sessions: one reader per file format, all giving the same recording."""
