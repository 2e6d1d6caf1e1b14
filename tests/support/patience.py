"""Wait for what comes in its own time; a deadline only ends what hangs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 120.0  # far above what an idle machine takes
PAUSE_S = 0.05

Found = TypeVar("Found")


def wait_until(
    look: Callable[[], Found],
    otherwise: str,
    patience_s: float = PATIENCE_S,
    pause_s: float = PAUSE_S,
) -> Found:
    """Look until something true is found, and give it; `otherwise` says what did not come."""
    deadline = time.monotonic() + patience_s
    while not (found := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{otherwise}, after {patience_s:.0f} s")
        time.sleep(pause_s)
    return found
