"""Open a cluster through a kubeconfig: what is wrong with the file is told without its tokens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

import httpx2
import yaml
from lightkube import Client, KubeConfig, SingleConfig
from lightkube.core.exceptions import ConfigError as KubeconfigError

from fleet.errors import ConfigError
from infra.redaction import Redactor

DENIED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
REQUEST_S = 10.0  # an API server that takes longer is not well
_SHOWN_CHARACTERS = 300
# What lightkube raises for a file of another shape, an address that is none, or a certificate.
FAULTS = (
    *(KubeconfigError, yaml.YAMLError, httpx2.InvalidURL, OSError),
    *(ValueError, KeyError, TypeError, AttributeError, RecursionError),
)
# The same of an answer: a login page instead of an API server, an `exec` that prints no token.
NO_ANSWER = (KubeconfigError, ValueError, KeyError, TypeError, AttributeError)
_EXEC = "client.authentication.k8s.io/"


def open_client(
    region: str, kubeconfig: Path, context: str | None, namespace: str = "default"
) -> Client:
    """Make a client that waits for no request for ever; raise ConfigError for a wrong file."""
    config = read_config(region, kubeconfig, context)
    with _reading(region, kubeconfig):
        timeout = httpx2.Timeout(REQUEST_S)
        return Client(config=config, namespace=namespace, timeout=timeout, trust_env=False)


def read_config(region: str, kubeconfig: Path, context: str | None) -> SingleConfig:
    """Read one context of a kubeconfig; raise ConfigError for a wrong file."""
    with _reading(region, kubeconfig):
        config = KubeConfig.from_file(kubeconfig).get(context)
        if config is None:  # without a context it raises instead
            raise KubeconfigError("no context")
        _understand_exec(config)
        return config


@contextmanager
def _reading(region: str, kubeconfig: Path) -> Iterator[None]:
    try:
        yield
    except FAULTS as error:
        raise ConfigError(
            f"{region}: {kubeconfig}: {told(error)}. Name a context of it as the region's "
            "`context`, or give another --kubeconfig."
        ) from error


def told(error: Exception) -> str:
    """Say what went wrong on the way to an API server, without what it was sent."""
    if isinstance(error, httpx2.LocalProtocolError):  # quotes the header, and so the token
        return "the token cannot be sent: it holds a newline or the like"
    if isinstance(error, yaml.YAMLError):  # quotes the line, which may hold one too
        return "it is no YAML"
    what = " ".join(str(error).split())
    if not isinstance(error, KubeconfigError | httpx2.HTTPError | OSError):
        what = f"{type(error).__name__}: {what}"
    return Redactor().text(what)[:_SHOWN_CHARACTERS].rstrip(".")


def _understand_exec(config: SingleConfig) -> None:
    """Let a credentials command of version v1 pass: what it prints is read as that of v1beta1."""
    command = config.user and config.user.exec
    if command and command.apiVersion == f"{_EXEC}v1":
        command.apiVersion = f"{_EXEC}v1beta1"
