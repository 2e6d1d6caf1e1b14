"""Write the agent's own log lines: to stderr, which its starter keeps in a file."""

from __future__ import annotations

import sys


def log(line: str) -> None:
    """Write one line."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
