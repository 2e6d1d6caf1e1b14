"""Turn numbers and verdicts into the words that people read.

One place for both the page and the terminal, so that the two never disagree.
A missing number is a dash: a zero would be a claim.
"""

from __future__ import annotations

import re

from loadtest.report.document import Gate, LoadReport

MISSING = "—"
_WORDS = re.compile(r"[a-z0-9]+")
VERDICT_WORD = {"go": "Go", "no-go": "No-go", "invalid": "Invalid", "unknown": "No verdict"}
OPERATOR = {
    ">=": "≥", "ge": "≥", "<=": "≤", "le": "≤", ">": ">", "gt": ">", "<": "<", "lt": "<",
    "==": "=", "eq": "=",
}  # fmt: skip


def number(value: float | None, unit: str = "") -> str:
    """Return three significant digits, thousands grouped: 1234.5 -> "1,234"."""
    if value is None:
        return MISSING
    size = abs(value)
    if value == int(value) or size >= 100:
        text = f"{value:,.0f}"
    elif size >= 10:
        text = f"{value:.1f}"
    elif size >= 1:
        text = f"{value:.2f}"
    else:
        text = f"{value:.3g}"
    return f"{text} {unit}".rstrip()


def percent(share: float | None) -> str:
    """Return a share of one as percent: 0.9412 -> "94.1 %", 0.00514 -> "0.51 %"."""
    if share is None:
        return MISSING
    return f"{share * 100:.2f} %" if 0 < abs(share) < 0.01 else f"{share * 100:.1f} %"


def ratio(value: float | None) -> str:
    """Return a ratio with the three decimals that a limit of 0.95 asks for."""
    return MISSING if value is None else f"{value:.3f}"


def milliseconds(value: float | None) -> str:
    """Return a latency in the unit a reader expects: ms below ten seconds, else s."""
    if value is not None and value >= 10_000:
        return number(value / 1000, "s")
    return number(value, "ms")


def seconds(value: float | None) -> str:
    """Return a time as "12.3 s", "2 min 5 s" or "1 h 2 min"."""
    if value is None:
        return MISSING
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def moment(iso: str) -> str:
    """Return an ISO time as people write it: "2026-11-29 19:04:11 UTC"."""
    return iso.replace("T", " ", 1).replace("+00:00", " UTC").replace("Z", " UTC")


def limit(gate: Gate) -> str:
    """Return the bound of a gate as a reader says it: "≥ 0.95"."""
    return f"{OPERATOR.get(gate.op, gate.op)} {gate_number(gate.limit)}".strip()


def gate_number(value: float | None) -> str:
    """Return a gate's number with four significant digits: it must not round onto its limit."""
    if value is None:
        return MISSING
    return f"{value:,.0f}" if value == int(value) else f"{value:,.4g}"


def gate_title(gate: Gate) -> str:
    """Return what a gate is called, by its id when it has no title."""
    return gate.title or gate.id or "unnamed gate"


def gates_about(report: LoadReport, *words: str) -> tuple[Gate, ...]:
    """Return the gates whose id has one of `words` as a whole word: `error-rate` is about error."""
    return tuple(
        gate for gate in report.gates if not set(words).isdisjoint(_WORDS.findall(gate.id.lower()))
    )


def verdict_reason(report: LoadReport) -> str:
    """Return the one sentence under the verdict: what decided it."""
    failed = [gate for gate in report.gates if gate.status == "fail"]
    failed.sort(key=lambda gate: (gate.kind == "validity") != (report.verdict == "invalid"))
    if failed:
        reasons = "; ".join(_miss(gate) for gate in failed)
        count = sum(gate.status == "skip" for gate in report.gates)
        unmeasured = f" {count} could not be measured." if count else ""
        return f"{len(failed)} of {len(report.gates)} gates failed: {reasons}.{unmeasured}"
    if report.verdict == "go":
        return f"All {len(report.gates)} gates passed."
    skipped = [gate_title(gate) for gate in report.gates if gate.status == "skip"]
    if skipped:
        return f"The fleet was not judged, these could not be measured: {'; '.join(skipped)}."
    return "The fleet was not judged."


def _miss(gate: Gate) -> str:
    return f"{gate_title(gate)} is {gate_number(gate.value)}, the limit is {limit(gate)}"


def judged_part(report: LoadReport) -> str:
    """Name the part of the run that the figures are of."""
    judged = [stage for stage in report.stages if stage.judged]
    if not judged:
        return "Whole run"
    names = ", ".join(stage.name for stage in judged)
    span = f"{seconds(judged[0].from_s)} to {seconds(judged[-1].to_s)} of {seconds(report.run_s)}"
    return f"Judged part ({names}, {span})"


def window_sentence(report: LoadReport) -> str:
    """Say which part of the run is judged, where it is not all of it."""
    if not any(stage.judged for stage in report.stages):
        return ""
    return f"{judged_part(report)}: gates and figures are of it, plots over time of the whole run."


def conditions(report: LoadReport) -> str:
    """Say what a verdict is not about: parts that were mocked, traffic that was made smaller."""
    found = []
    if report.mocked:
        names = ", ".join(text.partition(":")[0] for text in report.mocked[:3])
        more = f" and {len(report.mocked) - 3} more" if len(report.mocked) > 3 else ""
        found.append(f"mocked are {names}{more}")
    for key, word in (("token_scale", "lengths"), ("time_scale", "pauses")):
        scale = report.traffic.get(key, "1")
        if scale.replace(".", "", 1).isdecimal() and float(scale) != 1:
            found.append(f"{word} were divided by {float(scale):g}")
    return f"Not of the real load: {'; '.join(found)}." if found else ""


def hit_sentence(report: LoadReport) -> str:
    """Return the headline figure in words, or what is missing for it."""
    hit = report.load.hit
    if hit.achieved is None or hit.attainable is None:
        return "No cache figures: no request reported its cached tokens."
    return (
        f"The engines reused {percent(hit.achieved)} of the prompt tokens; "
        f"the traffic sent allowed {percent(hit.attainable)}."
    )


def machine_note(report: LoadReport) -> str:
    """Return the warning that the machine was the limit, or nothing."""
    generator = report.load.generator
    if not generator.limited_by_machine:
        return ""
    cores = number(report.machine.cores)
    return (
        "This machine, not the fleet, was the limit. "
        f"All {cores} cores were {percent(generator.machine_cpu_share)} busy and the generator "
        f"sent {milliseconds(generator.lag_p99_ms)} late at p99. Read the latencies as upper "
        "bounds and the throughput as a lower bound. Use fewer users, a larger token scale "
        "or a larger machine."
    )
