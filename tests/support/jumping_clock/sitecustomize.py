"""Set the time of day of a process while it runs, as an administrator or NTP would.

Python imports this by itself from PYTHONPATH. CLOCK_JUMP: seconds to jump, and the file whose
appearance lets it jump.
"""

from __future__ import annotations

import os
import time

_SECONDS, _, _FILE = os.environ["CLOCK_JUMP"].partition(" ")
_time = time.time


def _jumping() -> float:
    return _time() + (float(_SECONDS) if os.path.exists(_FILE) else 0.0)  # noqa: PTH110 - no pathlib here yet


time.time = _jumping
