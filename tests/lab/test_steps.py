"""Every step leaves a line and a time, also when it fails."""

from __future__ import annotations

import itertools

import pytest

from lab.steps import Steps


class Silent:
    """Progress that nobody looks at."""

    def step(self, name: str) -> None: ...

    def update(self, text: str) -> None: ...

    def note(self, text: str) -> None: ...

    def done(self, name: str, seconds: float, status: str, detail: str) -> None: ...


def test_a_failed_step_is_recorded_with_its_reason():
    """The report of a broken run says where it broke."""
    clock = itertools.count(step=2.0)
    steps = Steps(progress=Silent(), clock=lambda: float(next(clock)))
    with steps.step("good") as step:
        step.detail = "all well"
    with pytest.raises(ValueError, match="first"), steps.step("bad"):
        raise ValueError("first line\nsecond line")
    steps.skip("later", "not reached")
    found = [(r.name, r.seconds, r.status, r.detail) for r in steps.results]
    assert found == [
        ("good", 2.0, "ok", "all well"),
        ("bad", 2.0, "failed", "first line"),
        ("later", 0.0, "skipped", "not reached"),
    ]
