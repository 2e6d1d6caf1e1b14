"""Make errors that nobody foresaw end a start like any other failure, instead of leaving it idle.

Locust only logs what a listener raises, and would then wait for a test that never begins.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from fleet.errors import FleetError, LoadError


@contextmanager
def told(what: str) -> Iterator[None]:
    """Turn any error within into a FleetError; the traceback, which a bug keeps, goes to stderr."""
    try:
        yield
    except FleetError:
        raise
    except Exception as error:
        traceback.print_exc()
        raise LoadError(
            f"{what}: {type(error).__name__}, which is a mistake of k3fleet. "
            "Report it with the traceback above, or in the log of the generator."
        ) from error
