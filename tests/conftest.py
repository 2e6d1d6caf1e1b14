"""What all tests need."""

from __future__ import annotations

import signal

from hypothesis import settings

# A busy machine is no fault of the code under test.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

# A shell ignores SIGINT for what it starts in the background, and nohup SIGHUP; the programs that
# the tests start would inherit that, and rightly ignore the signals that the tests send them.
for number, handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, handler)
