"""What the load test is for, proved on a lab: it sees routing, launches and bad days."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import psutil
import pytest
from cli_runs import Here
from load_lab import POLL_S, Loaded, LoadLab, compared, lab_up
from patience import wait_until

from loadtest.client.taxonomy import error_classes
from loadtest.results.records import Record
from loadtest.traffic.profiles import load_profile
from loadtest.traffic.ramp import StepHit, cumulative_hit, planned_hits
from loadtest.traffic.scale import Scale, Seeds

pytestmark = pytest.mark.lab

# No migration: what a lost replica costs has to be seen by the client.
FLEET = """\
apiVersion: k3fleet/v1
name: proofs
release: vllm-tp8-dcp8
router: {mode: random, migration_limit: 0}
frontends: {replicas: 1}
regions:
  - name: here
    racks:
      - {id: r01, healthy_nodes: 12}
"""
ROUTERS = {  # in this order: the lab comes up with the first, and the last stays
    "random": {"mode": "random"},
    "round-robin": {"mode": "round-robin"},
    "kv": {"mode": "kv", "session_affinity": "off"},
    "affinity": {"mode": "kv", "session_affinity": "soft"},
}
# Two cores carry the fleet too, so nothing is asked of the generator; and of a load of seconds on
# caches that start empty nothing that is about a whole launch.
GATES = {
    "gates": "extends: rehearsal\nwithout: [generator-lag, generator-cpu]\n",
    "drained": "extends: drained\nwithout: [generator-lag, generator-cpu, hit, skew, goodput, "
    "tokens-per-gpu, ttft-16-32k, ttft-32-64k, ttft-64-128k, ttft-128-256k, tpot]\n",
}
LOAD = ("--users", "10", "--seed", "7", "--duration")
# Lengths ÷ 4 only, so that a block is small beside a prompt; pauses hardly any.
LONG = ("--seed", "7", "--token-scale", "4", "--time-scale", "1000", "--duration", "30s")
BLOCK = 128
CLIMB = {1: 0.57, 5: 0.87, 10: 0.92, 20: 0.95}
"""Cumulative hit rate by step of sessions that start with 24.5K tokens, of which 14K are shared and
warm, and grow by 1.78K a step: worked out by hand for a launch, and what `MEAN_SESSION` is."""
NEAR = 0.02
"""Half a block of each prompt is lost, 1 % of the first; and the chat's frame has tokens too."""
MEAN_SESSION = """\
extends: interactive_agent
name: mean_session
harness_variants: 1
resumed:
subagents:
private_prompt_tokens: {median: 10500, sigma: 0, max: 10500}
single_turn_share: 1.0
first_turn_steps: {median: 20, sigma: 0, max: 20}
tool_tokens: {median: 1730, sigma: 0, max: 1730}
output_tokens: {median: 50, sigma: 0, max: 50}
cancel_share: 0.0
"""
ATTAINABLE_APART = 0.01
"""Of twins: the same prompts, but a first one may find that the session which sends the same shared
prefix has not been answered yet, and that is a matter of milliseconds."""
Until = Callable[[Callable[[], bool], subprocess.Popen[str]], None]


@pytest.fixture(scope="module")
def lab(shared: Here) -> Iterator[LoadLab]:
    """Bring up one region of six replicas."""
    for name, text in GATES.items():
        (shared.folder / f"{name}.yaml").write_text(text)
    found = lab_up(shared, FLEET)
    yield found
    assert shared.run("lab", "down", str(found.fleet)).code == 0


@pytest.fixture(scope="module")
def loads(lab: LoadLab) -> Mapping[str, Loaded]:
    """Send the same sessions through each router; the caches know nothing of the run before."""
    found = {}
    for number, (name, router) in enumerate(ROUTERS.items()):
        if number:
            lab.route_by({**router, "migration_limit": 0})
        found[name] = lab.load(name, *LOAD, "20s")
    return found


def sums(records: Iterable[Record]) -> tuple[float, float]:
    """Give attainable and achieved hit rate."""
    good = [record for record in records if record.cached_tokens is not None]
    prompt = sum(record.prompt_tokens or 0 for record in good)
    attainable = sum(record.attainable_tokens for record in good)
    return attainable / prompt, sum(record.cached_tokens or 0 for record in good) / prompt


def test_routers_differ_in_what_they_achieve_of_the_same(loads: Mapping[str, Loaded]) -> None:
    """The steps that all four sent have one ceiling; they are first steps, so none is at it yet."""
    twins = set.intersection(*(set(loaded.records) for loaded in loads.values()))
    assert len(twins) >= 40
    found = {name: sums(loaded.records[step] for step in twins) for name, loaded in loads.items()}
    ceilings = [attainable for attainable, _ in found.values()]
    assert max(ceilings) - min(ceilings) <= ATTAINABLE_APART, found
    ratio = {name: achieved / attainable for name, (attainable, achieved) in found.items()}
    assert loads["affinity"].load["hit"]["ratio"] >= 0.95
    assert ratio["kv"] < ratio["affinity"], found
    assert max(ratio["round-robin"], ratio["random"]) < ratio["affinity"] - 0.1, found


def test_the_report_says_so(loads: Mapping[str, Loaded]) -> None:
    """Verdict, failed gate, and what the router gave away; servers count the same hits as we."""
    verdicts = {name: loaded.report["verdict"] for name, loaded in loads.items()}
    assert (verdicts["affinity"], verdicts["random"]) == ("go", "no-go")
    gates = {gate["id"]: gate["status"] for gate in loads["random"].report["gates"]}
    assert [name for name, status in gates.items() if status == "fail"] == ["cache-hit-ratio"]
    regret = {n: loaded.load["locality"]["router"]["regret"] for n, loaded in loads.items()}
    assert regret["affinity"] >= 0.97
    assert regret["random"] < regret["affinity"] - 0.1
    for name, loaded in loads.items():
        assert loaded.load["server"]["pages_read"] == 1, name
        assert loaded.load["server"]["worst_points"] <= 2.0, name


@pytest.mark.parametrize("name", ["round-robin", "random"])
def test_comparing_finds_which_router_is_better(loads: Mapping[str, Loaded], name: str) -> None:
    """Both ways round: the sign is right, and the difference is more than noise."""
    there = compared(loads["affinity"], loads[name])
    back = compared(loads[name], loads["affinity"])
    for figure in ("achieved ÷ attainable cache hit", "cache hit, token-weighted", "TTFT p50, ms"):
        assert (there[figure], back[figure]) == ("worse", "better"), figure


def climb(steps: Iterable[StepHit]) -> list[float | None]:
    """Give the cumulative hit rate at the steps of the arithmetic."""
    known = list(steps)
    return [cumulative_hit(known, last) for last in CLIMB]


def climbs(records: Iterable[Record]) -> tuple[list[float | None], list[float | None]]:
    """Give what was attainable and what was achieved, step by step."""
    kept = list(records)
    return (
        climb(StepHit(r.turn, r.prompt_tokens or 0, r.attainable_tokens) for r in kept),
        climb(StepHit(r.turn, r.prompt_tokens or 0, r.cached_tokens or 0) for r in kept),
    )


@pytest.mark.usefixtures("loads")
def test_sessions_of_mean_length_climb_as_a_launch_is_worked_out(lab: LoadLab) -> None:
    """Each replica computes the shared prefix once; sessions after that climb by the figures."""
    (lab.here.folder / "mean.yaml").write_text(MEAN_SESSION)
    traffic = f"profile:{lab.here.folder / 'mean.yaml'}"
    found = lab.load("mean", *LONG, "--users", "3", "--traffic", traffic).records
    warm = [name for (name, turn), r in found.items() if turn == 1 and r.cached_tokens]
    whole = [name for name in warm if (name, max(CLIMB)) in found]
    assert whole, found.keys()
    steps = [record for (name, _), record in found.items() if name in whole]
    attainable, achieved = climbs(steps)
    assert attainable == pytest.approx(list(CLIMB.values()), abs=NEAR), achieved
    assert achieved == pytest.approx(list(CLIMB.values()), abs=NEAR), attainable


def planned(
    loaded: Loaded, place: Callable[[Record], str | None]
) -> Iterator[tuple[Record, StepHit]]:
    """Say from the outlines alone what could be had where a prompt came to.

    A shared prefix is there once a prompt that starts with it was answered there. While the first
    one is still computed nobody can say how much of it another may share: those are left out.
    """
    profile, scale = load_profile("cold_launch"), Scale(tokens=4, time=1)
    plan = {}
    for number in {name.partition(".")[0] for name, _ in loaded.records}:
        for call, found in planned_hits(profile, scale, Seeds(seed=7, salt=""), int(number)):
            plan[f"{number}.{call.agent}".removesuffix("."), call.turn] = call, found
    answered: dict[object, tuple[float, float]] = {}
    for step, record in loaded.records.items():
        key = (place(record), plan[step][0].prefix)
        span = (record.sent_s, record.sent_s + record.e2e_s)
        answered[key] = min(span, answered.get(key, span), key=lambda times: times[1])
    for step, record in loaded.records.items():
        call, found = plan[step]
        began_s, ended_s = answered[place(record), call.prefix]
        known = found.cold > 0 or ended_s <= record.sent_s
        if record.cached_tokens is not None and (known or record.sent_s <= began_s):
            hit = found.warm if known else 0
            yield record, StepHit(call.turn, call.prompt_tokens, hit // BLOCK * BLOCK)


@pytest.mark.usefixtures("loads")
def test_a_cold_launch_climbs_as_its_outlines_say(lab: LoadLab) -> None:
    """Nothing is warm: the first of each harness version, and of each replica, computes it all."""
    loaded = lab.load("cold", *LONG, "--users", "6", "--traffic", "cold_launch")
    anywhere = list(planned(loaded, lambda record: record.region))
    attainable, _ = climbs(record for record, _ in anywhere)
    assert attainable == pytest.approx(climb(step for _, step in anywhere), abs=NEAR)
    there = list(planned(loaded, lambda record: record.worker))
    _, achieved = climbs(record for record, _ in there)
    assert achieved == pytest.approx(climb(step for _, step in there), abs=NEAR)
    assert len(anywhere) > 50


@pytest.fixture
def routed(lab: LoadLab, loads: Mapping[str, Loaded]) -> Iterator[LoadLab]:
    """Give the lab with affinity, and have all replicas in routing again afterwards."""
    del loads  # the last router stays
    leaders = {pod.name: pod for pod in lab.cluster.engines() if pod.leader}
    yield lab
    for pod in lab.cluster.engines():
        if pod.leader and not pod.routed:
            lab.cluster.route(pod, on=True)
    wait_until(
        lambda: lab.cluster.in_routing() == lab.cluster.workers().keys() == leaders.keys(),
        "a replica did not come back",
        pause_s=POLL_S,
    )


def busiest(lab: LoadLab, name: str) -> str:
    """Give the leader that has answered most of a load so far."""
    lines = (lab.here.folder / name / "requests.jsonl").read_text().splitlines()[:-1]
    served = [json.loads(line)["worker"] for line in lines]
    workers = {worker: pod for pod, worker in lab.cluster.workers().items()}
    return workers[max(workers, key=served.count)]


def test_draining_a_replica_costs_its_sessions_one_prefill(routed: LoadLab, until: Until) -> None:
    """The leader leaves routing as in a rollout: nothing fails, and the rest keeps its prefixes."""
    words = routed.words("drained", *LOAD, "30s", gates="drained")
    process = routed.here.start(*words)
    until(lambda: routed.sent("drained") > 80, process)
    name = busiest(routed, "drained")
    worker = routed.cluster.workers()[name]
    [leader] = [pod for pod in routed.cluster.engines() if pod.name == name]
    routed.cluster.route(leader, on=False)
    until(lambda: name not in routed.cluster.in_routing(), process)
    before = routed.sent("drained")
    until(lambda: routed.sent("drained") > before + 40, process)
    after = routed.sent("drained")
    loaded = routed.ended("drained", routed.here.end(process))
    assert loaded.report["verdict"] == "go", loaded.report["gates"]
    assert loaded.load["errors"] == 0
    assert loaded.load["hit"]["ratio"] >= 0.90
    told = list(loaded.records.values())
    moment_s = max(record.sent_s + record.e2e_s for record in told[:after])
    late = [record for record in told if record.sent_s > moment_s]
    assert late
    assert worker not in {record.worker for record in late}


def test_a_killed_engine_is_told_by_class_and_the_run_is_judged(
    routed: LoadLab, until: Until
) -> None:
    """Nothing moves a request of a dead replica elsewhere here, so clients see what it costs."""
    process = routed.here.start(*routed.words("killed", *LOAD, "25s"))
    until(lambda: routed.sent("killed") > 80, process)
    name = busiest(routed, "killed")
    [victim] = [
        engine
        for engine in routed.here.processes("dynamo.mocker")
        if engine.environ()["POD_NAME"] == name
    ]
    victim.kill()
    loaded = routed.ended("killed", routed.here.end(process))
    assert loaded.report["verdict"] in {"go", "no-go"}, loaded.report["gates"]
    failed = [record.error for record in loaded.records.values() if record.error]
    assert set(failed) <= error_classes().keys()
    assert sum(loaded.load["errors_by_class"].values()) == loaded.load["errors"] == len(failed)
    assert loaded.load["server"]["worst_points"] <= 2.0


def test_an_interrupted_load_is_judged_and_leaves_no_process(routed: LoadLab, until: Until) -> None:
    """Ctrl-C is how a load ends that has shown enough."""
    process = routed.here.start(*routed.words("cut", *LOAD, "10m"))
    until(lambda: routed.sent("cut") > 60, process)
    process.send_signal(signal.SIGINT)
    loaded = routed.ended("cut", routed.here.end(process))
    # So short a load is mostly first steps: what it is judged to be is not the claim.
    assert loaded.code == {"go": 0, "no-go": 1, "invalid": 2}[loaded.report["verdict"]]
    assert "Interrupted" in " ".join(loaded.report["notes"])
    assert loaded.load["requests"] == len(loaded.records) > 60
    assert {"report.html", "report.json", "junit.xml"} <= {p.name for p in loaded.folder.iterdir()}
    assert of_load(routed.here, loaded.folder) == []


def of_load(here: Here, folder: Path) -> list[psutil.Process]:
    """Find processes that were told of a load's folder."""
    return [p for p in here.processes() if str(folder) in " ".join(p.cmdline())]
