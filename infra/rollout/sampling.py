"""Look at the regions of a rollout every few seconds while it is driven, and keep the figures.

They are for the report only: nothing is decided by them, and what goes wrong here stops nothing.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from fleet.errors import ApplyError
from fleet.rollout.counters import Counts, lifetime
from fleet.rollout.figures import MOST_FIGURES, Figures, counted, thinned
from infra.rollout import metrics
from infra.rollout.cluster import Cluster
from infra.rollout.machine import TIME, now_s
from infra.rollout.standings import SERVES, standings

EVERY_S = 5.0
# A look at 1,800 replicas takes seconds: it gets this share of one thread at most.
BUSY_SHARE = 0.1
LAST_LOOK_S = 5.0  # what is under way at the end is waited for so long
SUFFIX = ".figures"


def figures_file(record: Path) -> Path:
    """Say where the figures of a rollout are: beside its record."""
    return record.with_suffix(SUFFIX)


def read_figures(path: Path) -> tuple[Figures, ...]:
    """Read what was kept; a line that is damaged, or cut by a kill, is left out."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except (FileNotFoundError, IsADirectoryError):
        return ()
    found = []
    for line in lines:
        try:
            found.append(Figures.model_validate_json(line))
        except ValidationError:
            continue
    return tuple(found)


@dataclass
class Sampler:
    """The looks of one driver, and the file that they go to."""

    path: Path
    regions: Mapping[str, Cluster]
    new: str  # release
    most: int = MOST_FIGURES
    _kept: list[Figures] = field(init=False)
    _before: dict[str, tuple[float, dict[str, Counts]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._kept = list(read_figures(self.path))
        self._write()

    def look(self, clock: Callable[[], float]) -> None:
        """Look at every region; one that is away is left out, and its next figure is longer."""
        for name, region in self.regions.items():
            try:
                found = self._figures(name, region, clock)
            except (ApplyError, ValidationError):  # what it counted makes no sense
                continue
            if found is not None:
                self._keep(found)

    def _figures(self, name: str, region: Cluster, clock: Callable[[], float]) -> Figures | None:
        stands = standings([region])
        serving = [release for release, how in stands.values() if how == SERVES]
        pages = {at.url: metrics.counts(at) for at in region.frontends()}
        counts = {url: found for url, found in pages.items() if found is not None}
        at_s = clock()
        before = self._before.get(name)
        self._before[name] = (at_s, counts or (before[1] if before else {}))
        if before is None:
            return None
        since = [found.since(before[1].get(url, Counts())) for url, found in counts.items()]
        return Figures.model_validate(
            {
                "region": name,
                "from_s": before[0],
                "to_s": at_s,
                "serving": len(serving),
                "updated": serving.count(self.new),
                "replicas": len(stands),
                **counted(lifetime(since) if since else None),
            }
        )

    def _keep(self, figures: Figures) -> None:
        self._kept.append(figures)
        if len(self._kept) > self.most:
            self._kept = list(thinned(self._kept, self.most // 2))
            self._write()
        else:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(_line(figures))

    def _write(self) -> None:
        """Write all of them, so that a kill leaves the old file or the new one."""
        draft = self.path.with_suffix(f"{SUFFIX}.draft")
        with draft.open("w", encoding="utf-8") as file:
            file.writelines(map(_line, self._kept))
        draft.replace(self.path)


@contextmanager
def sampled(
    path: Path, regions: Mapping[str, Cluster], new: str, say: Callable[[str], None]
) -> Iterator[None]:
    """Keep looking while the block runs."""
    stop = threading.Event()

    def run() -> None:
        try:
            sampler = Sampler(path, regions, new)
            took_s = 0.0
            while True:
                began_s = TIME.clock()
                sampler.look(now_s)
                took_s = TIME.clock() - began_s
                if stop.wait(max(EVERY_S, took_s / BUSY_SHARE)):
                    return
        except OSError as error:
            say(f"{path}: figures for the report cannot be kept: {error.strerror}.")

    thread = threading.Thread(target=run, daemon=True, name="figures of a rollout")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(LAST_LOOK_S)


def _line(figures: Figures) -> str:
    return json.dumps(figures.model_dump(mode="json", exclude_none=True)) + "\n"
