"""What Pulumi answers is not what it should be: said in a line, and nothing is touched."""

from __future__ import annotations

import json

import pytest
from provision_place import Place

SPOILT = {"deployment": {"resources": [{"urn": "urn:pulumi:s::p", "protect": True}]}}


@pytest.mark.parametrize(
    "words",
    [
        ("destroy", "--yes", "--allow-delete", "Namespace/k3"),
        ("destroy", "--yes", "--layer", "platform"),
        ("refresh",),
    ],
    ids=" ".join,
)
def test_a_spoilt_state_stops_a_command(place: Place, words: tuple[str, ...]) -> None:
    """Somebody has merged two versions of it, or edited it by hand."""
    place.brought_up()
    place.pulumi.answer({"export": {"prints": json.dumps(SPOILT)}})
    assert place.run(*words) == 7, place.err
    assert "its state is spoilt: deployment" in place.err
    assert place.pulumi.asked("up", "destroy", "refresh", "unprotect") == []


def test_spoilt_outputs_stop_a_command(place: Place) -> None:
    """They say which cluster a stack is of, and what its replicas run."""
    place.brought_up()
    place.pulumi.answer({"output": place.outputs(releases=["a"])})
    for words in (("up", "--yes"), ("destroy", "--yes"), ("refresh",)):
        assert place.run(*words) == 3, place.err
        assert "us-east: output releases: " in place.err
    assert place.pulumi.asked("preview", "up", "destroy", "refresh") == []
