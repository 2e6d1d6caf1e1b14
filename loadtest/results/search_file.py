"""Keep what a search found, with every trial that led to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from fleet.errors import LoadError
from loadtest.play.search import Figures, Found, Trial

SEARCH_FILE = "search.json"


def write_search(folder: Path, trials: Sequence[Trial], found: Found) -> None:
    """Write what the search found, and every trial that led to it."""
    document = {"found": asdict(found), "trials": [asdict(trial) for trial in trials]}
    path = folder / SEARCH_FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")
    except OSError as error:
        raise LoadError(f"{path}: {error.strerror}. Give a folder with space.") from error


def read_search(folder: Path) -> tuple[list[Trial], Found]:
    """Read search.json; raises LoadError where there is none."""
    path = folder / SEARCH_FILE
    try:
        document: dict[str, Any] = orjson.loads(path.read_bytes())
        return [_trial(item) for item in document["trials"]], Found(**document["found"])
    except OSError as error:
        raise LoadError(f"{path}: {error.strerror}. The search did not come to its end.") from error
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise LoadError(f"{path}: not readable ({error}). Run the search again.") from error


def _trial(item: dict[str, Any]) -> Trial:
    figures = item["figures"]
    return Trial(**item | {"figures": None if figures is None else Figures(**figures)})
