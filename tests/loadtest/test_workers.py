"""Claims about the workers of one test: they play one load, and one that is lost is not missed."""

from __future__ import annotations

import signal
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from load_processes import QUIET, LoadProcesses, logging_gateway

from loadtest.play.arrival_times import arrivals
from loadtest.play.search import Found
from loadtest.results.records import (
    GENERATOR_FILE,
    REQUESTS_FILE,
    Record,
    read_generator,
    read_records,
)
from loadtest.results.search_file import read_search
from loadtest.results.workers_file import read_workers
from loadtest.settings import PLAYED_FILE, LoadSettings, read_settings, write_settings
from loadtest.traffic.profiles import load_profile

SEARCH = {
    "start": 2, "most": 16, "settle_s": 1, "measure_s": 3, "least_requests": 3,
    "ttft_p95_ms": 60_000, "error_rate": 0.02, "lag_p99_ms": 5_000,
}  # fmt: skip


@pytest.fixture
def load(gateway: str, tokenizer_dir: Path, tmp_path: Path) -> Iterator[LoadProcesses]:
    """Start processes against the gateway double; none outlives its test."""
    processes = LoadProcesses(tmp_path, gateway, tokenizer_dir)
    yield processes
    processes.end()


def play(load: LoadProcesses, workers: int, **changes: Any) -> list[Record]:
    """Play one load to its end, and give what all workers wrote."""
    load.write(**changes)
    master = load.headless(workers)
    others = load.workers(workers)
    assert load.wait(master) == 0, load.said()
    assert [load.wait(worker) for worker in others] == [0] * workers, load.said()
    paths = sorted(load.results.glob(f"worker-*/{REQUESTS_FILE}"))
    assert len(paths) == workers
    return [record for path in paths for record in read_records(path)]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_open_loop_is_the_same_load_whatever_the_number_of_workers(
    load: LoadProcesses, workers: int
) -> None:
    """Each arrival is made once, at its time, by one of them."""
    load_changes = {"users": None, "sessions_per_minute": 120.0, "duration_s": 6, "run_id": "same"}
    records = play(load, workers, **load_changes)
    due_s = {f"same-{number}": due for number, due in enumerate(_due_before(load, 5.0))}
    first: dict[str, Record] = {}
    for record in records:
        if record.parent is None and record.session in due_s:
            known = first.setdefault(record.session, record)
            first[record.session] = min(known, record, key=lambda item: item.sent_s)
    assert first.keys() == due_s.keys()
    # Their first call has a gap of its own after the arrival; none may come before it was due.
    for session, record in first.items():
        assert record.due_s is not None
        assert record.sent_s >= record.due_s >= due_s[session] - 0.001
    assert {len(set(part)) for part in _sessions(load)} <= {len(part) for part in _sessions(load)}
    assert sum(len(part) for part in _sessions(load)) == len(set().union(*_sessions(load)))


def _due_before(load: LoadProcesses, end_s: float) -> list[float]:
    settings = LoadSettings.model_validate_json(load.settings.read_bytes())
    found = []
    for due_s in arrivals(settings, load_profile(settings.traffic).arrivals):
        if due_s > end_s:
            return found
        found.append(due_s)
    raise AssertionError("arrivals end by themselves only with stages")


def _sessions(load: LoadProcesses) -> list[set[str]]:
    return [
        {record.session for record in read_records(path)}
        for path in sorted(load.results.glob(f"worker-*/{REQUESTS_FILE}"))
    ]


def test_sessions_are_byte_identical_on_one_two_and_four_workers(
    tokenizer_dir: Path, tmp_path: Path
) -> None:
    """A figure that changes with the number of workers must be the fleet's, not the load's."""
    seen: list[dict[str, set[str]]] = []
    for workers in (1, 2, 4):
        folder = tmp_path / str(workers)
        folder.mkdir()
        log = folder / "bodies"
        with logging_gateway(tokenizer_dir, log) as url:
            load = LoadProcesses(folder, url, tokenizer_dir)
            try:
                play(load, workers, run_id="same", duration_s=4)
            finally:
                load.end()
        bodies: defaultdict[str, set[str]] = defaultdict(set)
        for line in log.read_text().splitlines():
            session, digest = line.split()
            bodies[session].add(digest)
        del bodies["-"]  # calibration
        seen.append(dict(bodies))
    for others in seen[1:]:
        common = seen[0].keys() & others.keys()
        assert len(common) >= 4
        for session in common:  # one run was cut earlier than the other, nothing else
            small, large = sorted((seen[0][session], others[session]), key=len)
            assert small <= large
            assert small


def test_a_killed_worker_is_written_down_and_the_others_play_on(load: LoadProcesses) -> None:
    """What it wrote is there, and the run cannot be taken for a whole one."""
    load.write(duration_s=14)
    master = load.headless(2)
    victim, other = load.workers(2)
    load.until(lambda: load.lines("worker-0") > 3 and load.lines("worker-1") > 3, "traffic")
    victim.send_signal(signal.SIGKILL)
    assert load.wait(master) == 0, load.said()
    assert load.wait(other) == 0, load.said()
    workers = read_workers(load.results)
    assert workers is not None
    lost = [worker for worker in workers.workers.values() if worker.lost_s is not None]
    assert len(lost) == 1
    assert workers.faults == [f"{lost[0].folder} was lost after {lost[0].lost_s:.0f} s"]
    assert list(read_records(load.results / lost[0].folder / REQUESTS_FILE))
    assert not (load.results / lost[0].folder / GENERATOR_FILE).exists()
    kept = next(worker for worker in workers.workers.values() if worker.lost_s is None)
    generator = read_generator(load.results / kept.folder / GENERATOR_FILE)
    assert generator.duration_s >= 14
    assert generator.users == 4  # it took over the agents of the lost one


def test_a_worker_that_joins_late_plays_a_part_and_shares_the_clock(load: LoadProcesses) -> None:
    """Its times are since the start of the run, and its sessions are nobody else's."""
    load.write(duration_s=600, users=None, sessions_per_minute=240.0)
    load.master()
    load.worker()
    load.until(lambda: len(load.get()["workers"]) == 1, "a worker")
    load.until(lambda: load.post("/swarm", user_count="1", spawn_rate="1",
                                 sessions_per_minute="240")["success"], "a start")  # fmt: skip
    load.until(lambda: load.lines("worker-0") > 3, "traffic")
    load.worker()
    load.until(lambda: load.lines("worker-1") > 3, "traffic of the second worker")
    load.post("/stop")
    load.until(
        lambda: all((load.results / f"worker-{n}" / GENERATOR_FILE).exists() for n in (0, 1)),
        "the end of both",
    )
    first, second = _sessions(load)
    assert first.isdisjoint(second)
    late = next(iter(read_records(load.results / "worker-1" / REQUESTS_FILE)))
    workers = read_workers(load.results)
    assert workers is not None
    joined_s = sorted(worker.joined_s for worker in workers.workers.values())
    assert joined_s[0] == 0.0
    assert late.sent_s > joined_s[1] > 0.5
    assert (workers.faults, workers.ended_s is not None) == ([], True)


def test_workers_of_a_lost_master_end_and_keep_what_they_wrote(load: LoadProcesses) -> None:
    """The next master finds workers that belong to nobody, and lets them go."""
    load.write(duration_s=600)
    master = load.headless(1)
    worker = load.worker()
    load.until(lambda: load.lines("worker-0") > 3, "traffic")
    master.send_signal(signal.SIGKILL)
    master.wait()
    load.master()
    assert load.wait(worker) == 0, load.said()
    workers = read_workers(load.results)
    assert workers is not None
    assert workers.faults == ["the master was lost before the end"]
    assert read_generator(load.results / "worker-0" / GENERATOR_FILE).duration_s > 0
    assert load.lines("worker-0") > 3


def test_a_second_start_keeps_the_results_of_the_first(load: LoadProcesses) -> None:
    """Somebody who presses start again has not asked for the first run to be deleted."""
    load.write(duration_s=600)
    load.settings = write_settings(read_settings(load.settings))  # where a rehearsal has it
    before = load.settings.read_bytes()
    load.start("--web-port", str(load.page), "--stop-timeout", "8")
    for run in range(2):
        load.until(lambda: load.post("/swarm", user_count="2", spawn_rate="2")["success"], "start")
        if run:
            load.until((load.results / "earlier-1").exists, "the first run set aside")
        load.until(lambda: load.lines(".") > 3, f"traffic of run {run}")
        load.post("/stop")
        load.until((load.results / GENERATOR_FILE).exists, f"the end of run {run}")
    first, second = (
        {record.session for record in read_records(load.results / part / REQUESTS_FILE)}
        for part in ("earlier-1", ".")
    )
    assert first
    assert first.isdisjoint(second)
    assert read_generator(load.results / "earlier-1" / GENERATOR_FILE).sessions_started >= 2
    assert load.settings.read_bytes() == before
    played = read_settings(load.results / PLAYED_FILE)
    assert (played.users, played.run_id) == (2, next(iter(second)).rpartition("-")[0])


def test_a_worker_that_cannot_play_ends_the_start_with_its_reason(load: LoadProcesses) -> None:
    """The exit code is that of the reason, and says so before any load."""
    load.write(tokenizer_dir="/none")
    master = load.headless(1)
    load.worker()
    assert load.wait(master) == 3
    assert "worker-0: /none/tokenizer.json: No such file or directory" in load.said()
    assert "Traceback" not in load.said()


def test_stages_are_played_by_all_workers_and_stamped(load: LoadProcesses) -> None:
    """Which stage a request belongs to is decided by when it was sent."""
    stages = [
        {"name": "warm-up", "duration_s": 3, "users": {"start": 2, "end": 2}},
        {"name": "soak", "duration_s": 4, "users": {"start": 6, "end": 6}},
    ]
    records = play(load, 2, users=None, stages=stages)
    assert {record.stage for record in records} == {"warm-up", "soak"}
    for record in records:
        assert (record.sent_s < 3) == (record.stage == "warm-up") or abs(record.sent_s - 3) < 0.2
    generators = [
        read_generator(path) for path in sorted(load.results.glob(f"worker-*/{GENERATOR_FILE}"))
    ]
    assert sum(generator.users for generator in generators) == 6
    assert min(generator.duration_s for generator in generators) >= 7


def test_a_clock_that_is_set_changes_nothing(load: LoadProcesses) -> None:
    """Forward on the workers, where Locust would miss its master; back on the master."""
    stages = [
        {"name": "first", "duration_s": 8, "users": {"start": 2, "end": 2}},
        {"name": "second", "duration_s": 6, "users": {"start": 6, "end": 6}},
    ]
    load.write(users=None, stages=stages)
    load.let_jump(-7200)
    master = load.headless(2)
    load.let_jump(7200)
    workers = load.workers(2)
    load.until(lambda: load.lines("worker-0") and load.lines("worker-1"), "traffic")
    load.jump()
    assert load.wait(master) == 0, load.said()
    assert [load.wait(worker) for worker in workers] == [0, 0], load.said()
    found = read_workers(load.results)
    assert found is not None
    assert found.faults == []
    generators = [
        read_generator(path) for path in sorted(load.results.glob(f"worker-*/{GENERATOR_FILE}"))
    ]
    assert sum(generator.users for generator in generators) == 6
    assert all(14 <= generator.duration_s < 60 for generator in generators)
    paths = sorted(load.results.glob(f"worker-*/{REQUESTS_FILE}"))
    records = [record for path in paths for record in read_records(path)]
    assert {record.stage for record in records} == {"first", "second"}
    assert all(0 <= record.sent_s < 60 and record.e2e_s < 60 for record in records)


def test_the_search_finds_what_a_fleet_serves_and_ends_the_run(
    load: LoadProcesses, gateway: str
) -> None:
    """The gateway double serves five connections; each agent keeps one."""
    load.write(users=None, search=SEARCH, targets={"us": f"{gateway}/full"}, time_scale=600)
    process = load.start("--headless", *QUIET)
    assert load.wait(process) == 0, load.said()
    trials, found = read_search(load.results)
    assert found == Found(users=5, settled=True, why="6 users are too many.")
    outcomes = {(trial.users, trial.outcome) for trial in trials}
    assert {(4, "inside"), (8, "outside"), (5, "inside"), (6, "outside")} <= outcomes
    stages = {record.stage for record in read_records(load.results / REQUESTS_FILE)}
    assert "search-1-2" in stages
    assert "search-1-2-settle" in stages


def test_the_search_uses_all_workers_and_is_seen_on_the_page(
    load: LoadProcesses, gateway: str
) -> None:
    """The master decides; its workers measure."""
    search = SEARCH | {"most": 2, "start": 2}
    load.write(users=None, search=search, targets={"us": f"{gateway}/full"}, time_scale=600)
    load.master("--autostart", "--expect-workers", "2")
    load.workers(2)
    rows = load.until(
        lambda: [row for row in load.rows("search") if row["trial"] == "result"], "a result"
    )
    assert (rows[0]["users"], rows[0]["outcome"]) == (2, "found")
    assert load.get("/k3fleet/state.json")["found"]["users"] == 2
    load.until(lambda: load.get()["state"] == "stopped", "the end")
    assert all(load.lines(f"worker-{number}") for number in (0, 1))


@pytest.mark.parametrize("workers", [0, 1])
def test_a_start_that_fails_is_said_on_the_page_and_the_next_may_work(
    load: LoadProcesses, gateway: str, workers: int
) -> None:
    """A fleet that is not up yet is no reason to start the generator anew."""
    load.write(duration_s=600, targets={"us": "http://127.0.0.1:1"})
    if workers:
        load.master()
        load.worker()
        load.until(lambda: len(load.get()["workers"]) == 1, "a worker")
    else:
        load.start("--web-port", str(load.page), *QUIET)
    load.until(lambda: load.post("/swarm", user_count="2", spawn_rate="2")["success"], "a start")
    rows = load.until(lambda: load.rows("generator-health"), "a row")
    assert rows[0]["process"] == "last start"
    assert "targets.us: http://127.0.0.1:1: connect" in rows[0]["state"]
    load.until(lambda: load.get()["state"] in {"stopped", "ready"}, "the end of the start")
    load.write(duration_s=600, targets={"us": f"{gateway}/ok"})
    load.until(lambda: load.post("/swarm", user_count="2", spawn_rate="2")["success"], "a start")
    load.until(lambda: load.lines("worker-0" if workers else ".") > 3, "traffic")
    load.until(lambda: load.rows("prefix-cache"), "figures")
    assert load.rows("generator-health")[0]["process"] == "all"
