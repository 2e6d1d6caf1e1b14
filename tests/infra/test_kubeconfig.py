"""Kubeconfigs as they come: cut short, of another shape, with tokens that must not be shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from fake_cluster import FakeCluster, fake_cluster

from fleet.errors import ApplyError, ClusterError, ConfigError
from infra.provision.cluster import ClusterLook
from infra.provision.ground import kubeconfig_with
from infra.rollout.cluster import Cluster


def write(folder: Path, user: object = None, **cluster: object) -> ClusterLook:
    content = {
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1", **cluster}}],
        "users": [{"name": "u", "user": user or {}}],
    }
    (folder / "config").write_text(yaml.safe_dump(content))
    return ClusterLook(region="us-east", kubeconfig=folder / "config", context="here")


@pytest.fixture
def served() -> Iterator[FakeCluster]:
    with fake_cluster() as cluster:
        yield cluster


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"hello", b"\0", b"\xff\xfe", b"[" * 5000, b"contexts: []", b"a: [planted"],
    ids=["empty", "list", "text", "nul", "binary", "deep", "no context", "cut short"],
)
def test_a_file_that_is_no_kubeconfig_is_its_owners_to_correct(
    tmp_path: Path, content: bytes
) -> None:
    """With a context it is looked into before, without one it is opened as it is."""
    file = tmp_path / "config"
    file.write_bytes(content)
    look = ClusterLook(region="us-east", kubeconfig=file, context=None)
    with pytest.raises(ConfigError, match="give another --kubeconfig") as caught:
        look.uid()
    assert "planted" not in str(caught.value)
    try:
        assert kubeconfig_with((file,), "here") is None
    except ConfigError as error:
        assert "cannot be read as a kubeconfig" in str(error)


@pytest.mark.parametrize(
    "cluster",
    [{"server": "http://[::bad"}, {"server": 7}, {"certificate-authority-data": "aGVsbG8="}],
    ids=["address", "number", "certificate"],
)
def test_an_entry_that_leads_nowhere_is_a_mistake_in_the_file(
    tmp_path: Path, cluster: dict[str, object]
) -> None:
    """It is not an API server that is away: waiting would not help."""
    with pytest.raises(ConfigError, match="give another --kubeconfig"):
        write(tmp_path, **cluster).uid()


def test_a_token_is_not_shown_when_it_cannot_be_sent(tmp_path: Path, served: FakeCluster) -> None:
    """The library's message quotes the whole header; a newline at a token's end is common."""
    look = write(tmp_path, {"token": "planted\ntoken"}, server=served.url)
    with pytest.raises(ClusterError, match="holds a newline") as caught:
        look.uid()
    assert "planted" not in str(caught.value)
    rollout = Cluster(region="us-east", kubeconfig=look.kubeconfig, context="here", namespace="k3")
    with pytest.raises(ApplyError, match="holds a newline") as told:
        rollout.owner()
    assert "planted" not in str(told.value)


def command(folder: Path, version: str, prints: object) -> dict[str, Any]:
    program = folder / "login"
    program.write_text(f"#!/bin/sh\ncat <<'EOF'\n{json.dumps(prints)}\nEOF\n")
    program.chmod(0o755)
    return {
        "exec": {"apiVersion": f"client.authentication.k8s.io/{version}", "command": str(program)}
    }


@pytest.mark.parametrize("version", ["v1beta1", "v1"])
def test_a_credentials_command_of_today_is_understood(
    tmp_path: Path, served: FakeCluster, version: str
) -> None:
    """Version v1 is what Kubernetes asks for since 1.22; the client knows older ones only."""
    user = command(tmp_path, version, {"status": {"token": "t"}})
    assert write(tmp_path, user, server=served.url).uid() == "uid-of-kube-system"


@pytest.mark.parametrize("prints", [{}, [], {"status": {"clientKeyData": "planted"}}])
def test_a_credentials_command_without_a_token_is_no_bug_of_ours(
    tmp_path: Path, served: FakeCluster, prints: object
) -> None:
    """Somebody's login has run out, or it prints certificates."""
    look = write(tmp_path, command(tmp_path, "v1beta1", prints), server=served.url)
    with pytest.raises(ClusterError, match="nobody can log in") as caught:
        look.uid()
    assert "planted" not in str(caught.value)
