"""A realistic report.json, made from a seed: two regions, two racks, one minute of traffic."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

Report = dict[str, Any]
REGIONS = {"us-east": "use1-r01", "eu-west": "euw1-r01"}
WINDOW_S = 60
SLICE_S = 5
LOST_S, BACK_S = 24.2, 38.9
LOST_REPLICA = "use1-r01-4"


@pytest.fixture(scope="session")
def sample() -> Callable[..., Report]:
    """Return the generator: `sample(verdict="no-go", healthy_nodes=18, seed=1)`."""
    return sample_report


def sample_report(*, verdict: str = "go", healthy_nodes: int = 18, seed: int = 1) -> Report:
    """Return a report; a no-go loses a replica under load and takes its cache along."""
    rng = random.Random(seed)  # noqa: S311  not for secrets
    lost = verdict == "no-go"
    racks = [_rack(region, rack, healthy_nodes, rng) for region, rack in REGIONS.items()]
    replicas = sum(int(rack["replicas"]) for rack in racks)
    load = _load(rng, racks, lost=lost)
    return {
        "k3fleet": "0.1.0",
        "fleet": "launch-demo",
        "verdict": verdict,
        "started_at": "2026-11-29T19:04:11+00:00",
        "command": ["k3fleet", "rehearse", "fleets/demo.yaml", "--users", "24"],
        "steps": _steps(),
        "real": [
            "etcd 3.7.3, kube-apiserver, controller-manager and scheduler 1.36.2",
            "pulumi up of platform and serving, twice",
            "Dynamo 1.6.1 frontends, KV router, Kubernetes discovery",
            "Envoy 1.40.0 with the rendered file",
            "Locust 2.47.0, streamed answers",
        ],
        "mocked": [
            "GPUs: dynamo.mocker answers with the timing of a profile",
            "nodes: KWOK, 36 of them",
            "LeaderWorkerSet controller: a stand-in for replicas = 1",
        ],
        "plan": {
            "regions": [{"name": name, "racks": []} for name in REGIONS],
            "totals": {"racks": 2, "replicas": replicas, "gpus": 144},
        },
        "packing": {"status": "ok", "problems": [], "racks": racks},
        "release": {"id": "vllm-tp8-dcp8-1a2b3c4d", "engine": "vllm", "dynamo": "1.6.1"},
        "router": {"mode": "kv", "session_affinity": "soft", "migration_limit": 3},
        "traffic": {
            "profile": "interactive_agent", "users": 24, "duration_s": WINDOW_S, "token_scale": 16,
            "time_scale": 60, "seed": seed,
        },
        "load": load,
        "gates": _gates(load, lost=lost),
        "events": _events(racks, lost=lost),
        "machine": {"cores": 2, "memory_gib": 23.4, "peak_memory_gib": 6.3},
    }  # fmt: skip


def _steps() -> list[Report]:
    seconds = {
        "tools": 0.4, "cluster": 14.8, "provision": 31.2, "packing": 2.1, "engines": 36.4,
        "traffic": 63.0, "judge": 1.2, "clean-up": 4.6,
    }  # fmt: skip
    return [
        {"name": name, "seconds": took, "status": "ok", "detail": f"{name} done"}
        for name, took in seconds.items()
    ]


def _rack(region: str, rack: str, healthy_nodes: int, rng: random.Random) -> Report:
    names = [f"{rack}-n{index:02d}" for index in range(1, 19)]
    sick = set(rng.sample(names, 18 - healthy_nodes))
    replicas = min(9, healthy_nodes // 2)
    seats = [name for name in names if name not in sick]
    order = [(slot, role) for slot in range(replicas) for role in ("leader", "worker")]
    rng.shuffle(order)
    placed = dict(zip(seats, order, strict=False))
    nodes = []
    for name in names:
        slot, role = placed.get(name, (None, None))
        replica = None if slot is None else f"{rack}-{slot}"
        pod = None if replica is None else f"{replica}-0{'' if role == 'leader' else '-1'}"
        nodes.append(
            {
                "name": name,
                "healthy": name not in sick,
                "replica": replica,
                "role": role,
                "pod": pod,
            }
        )
    return {"region": region, "id": rack, "nodes": nodes, "replicas": replicas}


def _load(rng: random.Random, racks: list[Report], *, lost: bool) -> Report:
    timeline = [
        _slice(region, start, rng, lost=lost and region == "us-east")
        for start in range(0, WINDOW_S, SLICE_S)
        for region in REGIONS
    ]
    replicas = [_replica(rack, slot, rng) for rack in racks for slot in range(rack["replicas"])]
    requests = sum(part["requests"] for part in timeline)
    weights: dict[str, float] = defaultdict(float)
    for replica in replicas:
        weights[replica["region"]] += replica["share"]
    for replica in replicas:
        of_region = sum(p["requests"] for p in timeline if p["region"] == replica["region"])
        replica["share"] /= weights[replica["region"]]
        replica["requests"] = round(replica["share"] * of_region)
    errors = sum(part["errors"] for part in timeline)
    return {
        "window_s": WINDOW_S,
        "requests": requests,
        "errors": errors,
        "error_rate": errors / requests,
        "errors_by_class": {"stream_cut": errors} if errors else {},
        "requests_per_s": requests / WINDOW_S,
        "prompt_tokens_per_s": sum(part["prompt_tokens"] for part in timeline) / WINDOW_S,
        "output_tokens_per_s": sum(part["output_tokens"] for part in timeline) / WINDOW_S,
        "hit": _hit(timeline),
        **_latencies(rng),
        "regions": [
            {
                "name": region,
                "requests": sum(p["requests"] for p in timeline if p["region"] == region),
                "errors": sum(p["errors"] for p in timeline if p["region"] == region),
                "hit": _hit([p for p in timeline if p["region"] == region]),
                "ttft_ms": {"p50": 60.0, "p95": 208.0, "p99": 371.0},
            }
            for region in REGIONS
        ],
        "replicas": replicas,
        "timeline": timeline,
        "generator": {
            "cpu_share": 0.31, "machine_cpu_share": 0.78, "lag_p50_ms": 1.9, "lag_p99_ms": 22.4,
            "users": 24, "sessions_started": 62, "limited_by_machine": False,
        },
    }  # fmt: skip


def _latencies(rng: random.Random) -> Report:
    return {
        "ttft_ms": {"p50": 61.2, "p95": 214.0, "p99": 388.5},
        "e2e_ms": {"p50": 1210.0, "p95": 3902.0, "p99": 5105.0},
        "tpot_ms": {"p50": 9.4, "p95": 12.2, "p99": 17.9},
        "gap_ms": {"p50": 9.1, "p99": 31.5, "histogram": _gaps(rng)},
        "ttft_by_context": [
            {"bucket": bucket, "n": n, "p50": p50, "p95": p50 * rng.uniform(2.2, 3.4)}
            for bucket, n, p50 in (
                ("0-1k", 96, 38.0),
                ("1-2k", 155, 47.0),
                ("2-4k", 188, 63.0),
                ("4-8k", 121, 92.0),
                ("8-16k", 44, 151.0),
            )
        ],
        "ttft_by_turn": [
            {"bucket": bucket, "n": n, "p50": p50, "p95": p50 * rng.uniform(2.0, 3.0)}
            for bucket, n, p50 in (
                ("1", 62, 142.0),
                ("2", 61, 74.0),
                ("3-5", 170, 58.0),
                ("6-10", 190, 55.0),
                ("11-20", 99, 61.0),
                ("21+", 22, 70.0),
            )
        ],
    }


def _slice(region: str, start: int, rng: random.Random, *, lost: bool) -> Report:
    warm = 1 - math.exp(-(start + 3) / 9)
    cold = lost and LOST_S - SLICE_S <= start <= BACK_S + 4
    requests = rng.randint(22, 31) - (8 if cold else 0)
    prompt = requests * rng.randint(3_000, 3_900)
    attainable = round(prompt * (0.50 + 0.44 * warm) * rng.uniform(0.985, 1.0))
    achieved = round(attainable * (rng.uniform(0.66, 0.8) if cold else rng.uniform(0.965, 0.995)))
    return {
        "t_s": start, "region": region, "requests": requests,
        "errors": 5 if cold and start == 20 else 0, "prompt_tokens": prompt,
        "cached_tokens": achieved, "attainable_tokens": attainable,
        "output_tokens": requests * rng.randint(90, 130),
        "ttft_p95_ms": rng.uniform(150, 230) * (2.1 if cold else 1.0),
    }  # fmt: skip


def _replica(rack: Report, slot: int, rng: random.Random) -> Report:
    prompt = rng.randint(80_000, 140_000)
    hit = rng.uniform(0.85, 0.93)
    return {
        "name": f"{rack['id']}-{slot}", "region": rack["region"], "requests": 0,
        "share": rng.uniform(0.75, 1.2), "prompt_tokens": prompt,
        "cached_tokens": round(prompt * hit), "hit": hit, "registered": True,
    }  # fmt: skip


def _hit(timeline: list[Report]) -> Report:
    prompt = sum(part["prompt_tokens"] for part in timeline)
    cached = sum(part["cached_tokens"] for part in timeline)
    attainable = sum(part["attainable_tokens"] for part in timeline)
    return {
        "achieved": cached / prompt, "attainable": attainable / prompt,
        "ratio": cached / attainable, "reported_share": 1.0,
    }  # fmt: skip


def _gaps(rng: random.Random) -> Report:
    bounds = [round(0.5 * 1.1**step, 3) for step in range(20, 66)]
    shape = [21_000 * math.exp(-((math.log(bound / 9.3) / 0.33) ** 2)) for bound in bounds]
    return {"le_ms": bounds, "count": [round((n + 3) * rng.uniform(0.9, 1.1)) for n in shape]}


def _gates(load: Report, *, lost: bool) -> list[Report]:
    hit = load["hit"]["ratio"]
    rows = [
        ("replicas-registered", "Every replica registered", "slo", ">=", 1.0, 1.0,
         "A replica that the router does not know is paid for and serves nobody."),
        ("replicas-served", "Every replica served", "slo", ">=", 1.0, 1.0,
         "A replica that registers and then answers nothing looks healthy and is not."),
        ("cache-hit-ratio", "Achieved ÷ attainable cache hit", "slo", ">=", 0.95, hit,
         "Every prefix token that is computed again costs a replica prefill time."),
        ("error-rate", "Failed requests", "slo", "<=", 0.005, load["error_rate"],
         "An agent that loses one call in 200 loses most long sessions."),
        ("generator-lag", "Generator lag, 99th percentile (ms)", "validity", "<=", 100.0, 22.4,
         "A generator that sends late measures itself."),
        ("generator-cpu", "Generator CPU (cores)", "validity", "<=", 0.8, 0.31,
         "Above this the time stamps of the generator wait for its own work."),
        ("cached-reported", "Requests with cached tokens reported", "validity", ">=", 0.95, 1.0,
         "A request without a report is not a miss; too few reports make no hit rate."),
        ("enough-requests", "Requests", "validity", ">=", 50.0, load["requests"],
         "A handful of requests says nothing about rates and percentiles."),
    ]  # fmt: skip
    gates = []
    for identity, title, kind, op, limit, value, why in rows:
        passed = value >= limit if op == ">=" else value <= limit
        gates.append(
            {
                "id": identity, "title": title, "kind": kind, "op": op, "limit": limit,
                "value": value, "status": "pass" if passed else "fail", "why": why,
            }
        )  # fmt: skip
    assert lost == any(gate["status"] == "fail" for gate in gates)
    return gates


def _events(racks: list[Report], *, lost: bool) -> list[Report]:
    ready = [
        {"t_s": 0.0, "region": rack["region"], "replica": f"{rack['id']}-0", "what": "ready",
         "detail": "answers chats"}
        for rack in racks
    ]  # fmt: skip
    if not lost:
        return ready
    return [
        *ready,
        {"t_s": LOST_S, "region": "us-east", "replica": LOST_REPLICA, "what": "lost",
         "detail": "process ended by signal 9"},
        {"t_s": BACK_S, "region": "us-east", "replica": LOST_REPLICA, "what": "recovered",
         "detail": "ready again after 14.7 s, cache empty"},
    ]  # fmt: skip
