"""What is done for every region at once ends for every region at once."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from lab.interrupts import Interrupted, interruptible
from lab.parallel import for_each


def test_results_keep_the_order_of_the_items():
    """The caller pairs them with its regions."""
    assert for_each([3, 1, 2], lambda n: n * 10, cancel=lambda: None) == (30, 10, 20)


def test_one_failure_cancels_the_others_and_is_raised():
    """A region that waits for a dead control plane must not hold the message back."""
    ended = threading.Event()

    def work(name: str) -> None:
        if name == "bad":
            raise ValueError(name)
        assert ended.wait(timeout=30)

    with pytest.raises(ValueError, match="bad"):
        for_each(["good", "bad"], work, cancel=ended.set)
    assert ended.is_set()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_interrupts_once_and_handlers_come_back(number: signal.Signals):
    """A second Ctrl-C during clean-up must not leave half of it undone."""
    before = signal.getsignal(number)
    with pytest.raises(Interrupted) as caught, interruptible():
        try:
            os.kill(os.getpid(), number)
            signal.pause()
        finally:
            os.kill(os.getpid(), number)  # ignored: clean-up runs
    assert caught.value.exit_code == 128 + number
    assert signal.getsignal(number) == before
