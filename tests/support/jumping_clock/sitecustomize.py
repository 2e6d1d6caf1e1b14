"""Set the time of day of a process while it runs, as an administrator or NTP would.

Python imports this by itself from PYTHONPATH. CLOCK_JUMP: seconds to wait, and seconds to jump.
"""

from __future__ import annotations

import os
import time

_AFTER_S, _JUMP_S = (float(part) for part in os.environ["CLOCK_JUMP"].split())
_time, _monotonic, _BEGAN_S = time.time, time.monotonic, time.monotonic()


def _jumping() -> float:
    jumped = _monotonic() - _BEGAN_S > _AFTER_S
    return _time() + (_JUMP_S if jumped else 0.0)


time.time = _jumping
