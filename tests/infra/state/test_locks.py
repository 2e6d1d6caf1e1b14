"""Lock files that no Pulumi wrote: cut short, or made to look like another's."""

from __future__ import annotations

import pytest

from fleet.errors import ApplyError
from infra.state.store import Lock


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}", "[" * 9000, '{"pid": "x"}', '{"pid": Infinity}', '{"pid": true}'),
        *('{"pid": -1}', '{"pid": 0}', '{"pid": 1.5}', '{"pid": 99999999999999999999}'),
    ],
)
def test_a_lock_of_no_process_is_told_by_its_place(text: str) -> None:
    """Whether a process with such a number lives cannot be asked."""
    with pytest.raises(ApplyError, match=r"locks/1\.json: this lock cannot be read"):
        Lock.read("locks/1.json", text)
