"""Stores that the tests of weights share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from s3_servers import CREDENTIALS, Proxy, proxy
from weights_forks import Forks, forks
from weights_site import Site

MakeSite = Callable[..., Site]


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boto3 finds these, and never those of whoever runs the tests."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Botocore's pauses before it asks again: up to 20 s each, in which nothing happens."""
    pause = "botocore.retries.standard.ExponentialBackoff.delay_amount"
    monkeypatch.setattr(pause, lambda *_: 0.001)


@pytest.fixture(scope="package")
def sync_forks() -> Iterator[Forks]:
    """Syncs in processes of their own, which may be killed."""
    with forks() as found:
        yield found


@pytest.fixture
def make_site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeSite]:
    """Make a fleet with empty buckets in a store, behind a proxy that counts and breaks."""
    opened: list[Any] = []

    def make(kind: str = "moto", *, through_us: bool = False, **more: Any) -> Site:
        url: str = request.getfixturevalue(f"{kind}_url")
        around = proxy(url)
        opened.append(around)
        store: Proxy = around.__enter__()
        target = store.url.replace("127.0.0.1", "localhost") if through_us else ""
        site = Site(folder=tmp_path, kind=kind, url=url, ask=store.url, target_ask=target, **more)
        site.proxy = store
        site.make_buckets()
        return site

    yield make
    for around in opened:
        around.__exit__(None, None, None)
