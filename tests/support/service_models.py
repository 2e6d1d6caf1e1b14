"""Read AWS's service models once per process: every session of botocore would read them again."""

from __future__ import annotations

import functools
from unittest import mock

import botocore.loaders
import botocore.session

SHARED = functools.cache(botocore.loaders.create_loader)


def share() -> None:
    """Give all sessions from now on the loader, and what it has read, of their data path."""
    mock.patch.object(botocore.session, "create_loader", SHARED).start()
