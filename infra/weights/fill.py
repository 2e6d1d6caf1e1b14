"""Bring what releases need from the source into the regions' buckets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from fleet.weights.needs import WeightSet
from infra.weights.file_copy import CheckBy, Place
from infra.weights.places import Places
from infra.weights.run import Job, Watch, run_all
from infra.weights.source import Known, MakeTokenizer
from infra.weights.sync import Left, RevisionSync, sync_region
from infra.weights.work import Limits, Pace, Work

Needed = Mapping[WeightSet, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLeft:
    """A revision at the source, of which nobody has made the manifest."""

    weights: WeightSet
    files: int
    unread_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """One run that fills regions."""

    places: Places
    needed: Needed
    regions: tuple[str, ...]
    check_by: CheckBy = "reading"
    make_tokenizer: MakeTokenizer | None = None

    def plan(self) -> tuple[Mapping[WeightSet, Known | SourceLeft], Mapping[str, list[Left]]]:
        """Say what is at the source and what each region lacks; changes nothing."""
        source: dict[WeightSet, Known | SourceLeft] = {}
        left: dict[str, list[Left]] = {name: [] for name in self.regions}
        for weights in self.needed:
            one = self.places.source_of(weights)
            held, manifest = one.files(), one.manifest()
            if manifest is None:
                unread = sum(held[name].bytes for name in one.unnoted(held))
                source[weights] = SourceLeft(weights=weights, files=len(held), unread_bytes=unread)
                continue
            known = Known(manifest=manifest, held=held)
            source[weights] = known
            for name in self.regions:
                work = self._work(1)
                with work.running():
                    left[name].append(self._revision(name, weights, known, work).left())
        return source, left

    def know(self, watch: Watch) -> Mapping[WeightSet, Known]:
        """Know every revision at the source, by reading it where nobody has."""
        work = self._work(1)
        job = Job(
            work=work,
            do=lambda: {
                weights: self.places.source_of(weights).know(work, self.make_tokenizer)
                for weights in self.needed
            },
        )
        return run_all({"source": job}, watch, self.places.say)["source"]

    def run(self, watch: Watch) -> Mapping[WeightSet, Known]:
        """Fill the regions, all at once."""
        known = self.know(watch)
        pace = self._pace()
        jobs = {}
        for name in self.regions:
            work = Work(self.places.limits.shared_by(len(self.regions)), pace)
            jobs[name] = Job(work=work, do=partial(self._fill, name, known, work))
        run_all(jobs, watch, self.places.say)
        return known

    def _fill(self, region: str, known: Mapping[WeightSet, Known], work: Work) -> None:
        lock = self.places.lock(self.places.region(region))
        revisions = [self._revision(region, weights, one, work) for weights, one in known.items()]
        sync_region(lock, revisions)

    def _revision(self, region: str, weights: WeightSet, known: Known, work: Work) -> RevisionSync:
        target = self.places.region(region)
        place = Place(
            source=self.places.source(),
            target=target,
            revision=weights.revision,
            keeper=self.places.keeper(region, target, weights.revision),
            work=work,
            check_by=self.check_by,
        )
        return RevisionSync(
            weights=weights,
            known=known,
            place=place,
            pinned=self.places.pinned(weights),
            say=self.places.say,
        )

    def _pace(self) -> Pace:
        return Pace(self.places.limits.bytes_per_s, self.places.time.clock)

    def _work(self, regions: int) -> Work:
        limits: Limits = self.places.limits.shared_by(regions)
        return Work(limits, self._pace())
