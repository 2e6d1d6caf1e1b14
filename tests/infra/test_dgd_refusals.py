"""What Dynamo's operator could not run, refused before it is rendered."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from fleet.errors import ConfigError
from fleet.load import Fleet
from fleet.release import Release
from infra.render import KubeObject, render_region

MakeFleet = Callable[..., Fleet]
IMAGE = f"registry.example/engine:1.0@sha256:{'0' * 64}"


def serving(fleet: Fleet) -> list[KubeObject]:
    return render_region(fleet, "us-east", "serving")


def refusal(fleet: Fleet, **changes: Any) -> str:
    with pytest.raises(ConfigError) as found:
        serving(dataclasses.replace(fleet, release=fleet.release.model_copy(update=changes)))
    return str(found.value)


@pytest.fixture(scope="session")
def operated(make_fleet: MakeFleet) -> Fleet:
    """A fleet for the operator."""
    return make_fleet({"use1-r01": 2}, backend="dgd")


def test_a_version_that_the_operator_cannot_read_is_refused(operated: Fleet) -> None:
    """It decides by it which flags and variables a worker gets."""
    dynamo = operated.release.dynamo.model_copy(update={"version": "1.6"})
    assert "Write for example 1.6.1" in refusal(operated, dynamo=dynamo)


@pytest.mark.parametrize("word", ["--host=$(POD_IP)", "--name=it's", "--when=a;b"])
def test_a_word_that_its_shell_would_change_is_refused(operated: Fleet, word: str) -> None:
    """On Grove the second rank's command is one line for `sh`, quoted only in part."""
    assert "does not survive the shell" in refusal(operated, args=(word,))


def test_a_variable_that_would_stay_unfilled_is_refused(operated: Fleet) -> None:
    """The engine would listen on an address called `$(POD_IP)`."""
    text = refusal(operated, env={"A_URL": "http://$(POD_IP):80"})
    assert "sorts behind it" in text


def test_a_house_engine_is_refused(operated: Fleet) -> None:
    """The operator starts three engines, and guesses when it is told none of them."""
    custom = {"command": ["serve"], "registers": "dynamo"}
    data = operated.release.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    data["engine"] = {"kind": "custom", "image": IMAGE, "version": "1", "custom": custom}
    data["args"], data["env"] = [], {}
    fleet = dataclasses.replace(operated, release=Release.model_validate(data))
    with pytest.raises(ConfigError, match=r"knows no house engines\. Write backend: lws"):
        serving(fleet)


def test_a_gang_scheduler_that_the_operator_does_not_use_is_refused(make_fleet: MakeFleet) -> None:
    """Its labels would be read by nobody."""
    with pytest.raises(ConfigError, match="gang: volcano is not possible with backend dgd"):
        serving(make_fleet(backend="dgd", scheduling={"gang": "volcano", "queue": "q"}))
