"""What all tests need."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings
from s3_servers import s3_server

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

# Whoever runs the tests may be at work in a cloud, behind a proxy. No test may see that, let alone
# touch it; botocore and moto look at it when they are imported, before any fixture is there.
CALLERS = ("AWS_", "AZURE_", "ARM_", "GOOGLE_", "OCI_", "NB_", "PULUMI_", "KUBECONFIG")
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
for name in [*os.environ]:
    if name.startswith(CALLERS) or name.upper() in PROXIES:
        del os.environ[name]
for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
    os.environ[name] = os.devnull


@pytest.fixture(scope="session")
def moto_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A store of objects; its import takes seconds, and each test has a prefix of its own."""
    with s3_server("moto", tmp_path_factory.mktemp("moto")) as url:
        yield url


@pytest.fixture(scope="session")
def ministack_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Another one, as a second opinion."""
    with s3_server("ministack", tmp_path_factory.mktemp("ministack")) as url:
        yield url
