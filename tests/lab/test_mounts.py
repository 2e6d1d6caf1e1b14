"""What pods mount follows the API server, by a watch."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab_fakes import FakeApi
from lightkube.resources.core_v1 import ConfigMap
from patience import wait_until

from lab.api import typed
from lab.mounts import Mounts
from lab.volumes import Volume


def config_map(**data: str) -> ConfigMap:
    return typed(ConfigMap, {"metadata": {"name": "c"}, "data": data})


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def mounts(api: FakeApi) -> Iterator[Mounts]:
    """Watch ConfigMaps while a test runs."""
    found = Mounts(api, "k3")  # type: ignore[arg-type]
    stop = threading.Event()
    thread = threading.Thread(target=found.follow, args=("ConfigMap", stop))
    thread.start()
    assert api.watched.wait(30)
    yield found
    stop.set()
    api.events.put(None)
    thread.join(timeout=30)
    assert not thread.is_alive()


def volume(folder: Path, **changes: Any) -> Volume:
    return Volume(kind="ConfigMap", name="c", folder=folder, **changes)


def test_a_change_is_seen_without_a_restart(api: FakeApi, mounts: Mounts, tmp_path: Path) -> None:
    """The weights of `traffic drain`, and the gateway's keys, change while Envoy runs."""
    api.create(config_map(a="1"))
    assert mounts.set_up(volume(tmp_path))
    api.tell("MODIFIED", config_map(a="2", b="3"))
    wait_until((tmp_path / "b").exists, "the change is not seen")
    assert (tmp_path / "a").read_text() == "2"


def test_an_optional_one_may_come_later_and_go(
    api: FakeApi, mounts: Mounts, tmp_path: Path
) -> None:
    """A region that was never drained has none; a pod that must have it waits."""
    must, may = tmp_path / "must", tmp_path / "may"
    assert not mounts.set_up(volume(must))
    assert mounts.set_up(volume(may, optional=True))
    api.tell("ADDED", config_map(a="1"))
    wait_until(lambda: (must / "a").exists() and (may / "a").exists(), "what came late is not seen")
    api.tell("DELETED", config_map())
    wait_until(lambda: not (may / "a").exists(), "the deletion is not seen")
    assert (must / "a").read_text() == "1"  # a kubelet leaves it until the pod ends


def test_what_changed_while_nobody_watched_is_caught_up(
    api: FakeApi, mounts: Mounts, tmp_path: Path
) -> None:
    """An API server that was away tells of no deletion."""
    api.create(config_map(a="1"))
    mounts.set_up(volume(tmp_path, optional=True))
    api.objects.clear()
    api.events.put(None)  # the watch ends, and begins again
    wait_until(lambda: not (tmp_path / "a").exists(), "the deletion is not seen")


def test_a_pod_that_ended_is_left_alone(api: FakeApi, mounts: Mounts, tmp_path: Path) -> None:
    """Its folder may be looked at, or be gone."""
    api.create(config_map(a="1"))
    old, new = volume(tmp_path / "old"), volume(tmp_path / "new")
    mounts.set_up(old)
    mounts.set_up(new)
    mounts.tear_down([old])
    api.tell("MODIFIED", config_map(a="2"))
    wait_until(lambda: (new.folder / "a").read_text() == "2", "the change is not seen")
    assert (old.folder / "a").read_text() == "1"
