"""Judge whether a rack may serve. What nobody has seen is unknown, and never well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from fleet.errors import EXIT_GO, EXIT_INVALID, EXIT_NO_GO
from fleet.hardware import Hardware
from fleet.racks.floors import Floor, Floors
from fleet.racks.report import Disk, Imex, NodeReport
from fleet.racks.seen import NodeSeen, RackSeen
from fleet.racks.versions import at_least, dra_at_least
from fleet.racks.wording import named

Verdict = Literal["ok", "wrong", "unknown"]
EXIT_CODES: Mapping[Verdict, int] = {"ok": EXIT_GO, "wrong": EXIT_NO_GO, "unknown": EXIT_INVALID}
# What nvidia-smi calls a fabric that is up.
_FABRIC_UP = ("completed", "success")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that has to hold, and what was found."""

    name: str
    verdict: Verdict
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What was collected beside the node objects."""

    reports: Mapping[str, NodeReport] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)  # node -> why it has no report
    dra: Mapping[str, str] = field(default_factory=dict)  # node -> version of the DRA driver


def preflight(
    rack: RackSeen, hardware: Hardware, floors: Floors, evidence: Evidence
) -> tuple[Check, ...]:
    """Check one rack."""
    if not rack.nodes:
        return (Check(name="nodes", verdict="wrong", says="no node carries its label"),)
    subject = _Subject(rack=rack, hardware=hardware, floors=floors, evidence=evidence)
    return tuple(check(subject) for check in _CHECKS)


def worst(checks: Iterable[Check]) -> Verdict:
    """Give the verdict over checks: wrong before unknown before ok; nothing checked is unknown."""
    found = {check.verdict for check in checks}
    if "wrong" in found:
        return "wrong"
    return "unknown" if "unknown" in found or not found else "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    rack: RackSeen
    hardware: Hardware
    floors: Floors
    evidence: Evidence

    def reported(self) -> Iterator[tuple[NodeSeen, NodeReport | None]]:
        for node in self.rack.nodes:
            yield node, self.evidence.reports.get(node.name)


def _nodes(s: _Subject) -> Check:
    count, wanted = len(s.rack.nodes), s.hardware.nodes_per_rack
    absent = [node.name for node in s.rack.nodes if not node.ready]
    if count != wanted:
        return _wrong("nodes", f"{count} nodes, a rack has {wanted}")
    if absent:
        return _wrong("nodes", f"not Ready: {named(absent)}")
    return _ok("nodes", f"{count} nodes")


def _clique(s: _Subject) -> Check:
    without = [node.name for node in s.rack.nodes if not node.clique]
    if without:
        return _wrong("clique", f"no clique on {named(without)}")
    domains = {node.domain for node in s.rack.nodes}
    if len(domains) > 1:
        return _wrong("clique", f"{len(domains)} NVLink fabrics: {named(sorted(domains))}")
    cliques = Counter(node.clique for node in s.rack.nodes)
    if len(cliques) > 1:
        parts = (f"{count} nodes in {name}" for name, count in sorted(cliques.items()))
        return _wrong("clique", f"one fabric, {len(cliques)} cliques: {named(list(parts))}")
    return _ok("clique", next(iter(cliques)))


def _arch(s: _Subject) -> Check:
    wanted = s.hardware.arch
    others = [f"{node.name} is {node.arch or '?'}" for node in s.rack.nodes if node.arch != wanted]
    return _wrong("arch", named(others)) if others else _ok("arch", wanted)


def _gpus(s: _Subject) -> Check:
    wanted = s.hardware.gpus_per_node
    short = [
        f"{node.name} has {seen} of {wanted}"
        for node, report in s.reported()
        if (
            seen := min(node.gpus, wanted if report is None or report.gpus is None else report.gpus)
        )
        != wanted
    ]
    return _wrong("gpus", named(short)) if short else _ok("gpus", f"{wanted} on each node")


def _driver(s: _Subject) -> Check:
    found = {
        node.name: (report.driver if report and report.driver else node.driver)
        for node, report in s.reported()
    }
    return _version("driver", found, s.floors.driver, at_least)


def _kernel(s: _Subject) -> Check:
    found = {node.name: report.kernel if report else node.kernel for node, report in s.reported()}
    return _version("kernel", found, s.floors.kernel, at_least)


def _dra(s: _Subject) -> Check:
    found = {node.name: s.evidence.dra.get(node.name, "") for node in s.rack.nodes}
    without = [name for name, version in found.items() if not version]
    if without and len(without) < len(found):
        return _wrong("dra driver", f"no kubelet plugin of it on {named(without)}")
    return _version("dra driver", found, s.floors.dra_driver, dra_at_least)


def _imex(s: _Subject) -> Check:
    def fault(report: NodeReport) -> str | None:
        return None if report.imex is None else _imex_fault(report.imex)

    return _each("imex", s, fault, "masked")


def _nvme(s: _Subject) -> Check:
    def fault(report: NodeReport) -> str | None:
        return None if report.disk is None else _disk_fault(report.disk)

    return _each("nvme", s, fault, "RAID0")


def _fabric(s: _Subject) -> Check:
    """Compare what nvidia-smi says, where it can be asked; the label alone may be old."""
    wrong, told = [], 0
    for node, report in s.reported():
        if report is None or report.fabric is None:
            continue
        told += 1
        fabric = report.fabric
        if (fabric.state.casefold(), fabric.status.casefold()) != _FABRIC_UP:
            wrong.append(f"{node.name}: {fabric.state or '?'}, {fabric.status or '?'}")
        elif node.clique and f"{fabric.cluster}.{fabric.clique}" != node.clique:
            wrong.append(f"{node.name}: {fabric.cluster}.{fabric.clique}, its label {node.clique}")
    if wrong:
        return _wrong("fabric", named(wrong))
    return _ok("fabric", f"{told} nodes asked" if told else "nvidia-smi not asked: by label only")


def _reports(s: _Subject) -> Check:
    why = s.evidence.missing
    without = [
        f"{node.name}: {why[node.name]}" if node.name in why else node.name
        for node, report in s.reported()
        if report is None
    ]
    count = len(s.rack.nodes)
    if without:
        return _unknown("reports", f"{len(without)} of {count} missing: {named(without)}")
    return _ok("reports", f"{count} nodes")


_CHECKS: tuple[Callable[[_Subject], Check], ...] = (
    *(_nodes, _clique, _arch, _gpus, _driver, _kernel, _imex, _nvme, _dra, _fabric, _reports),
)


def _imex_fault(imex: Imex) -> str | None:
    if imex.running:
        return "the host's nvidia-imex runs"
    if imex.state == "unknown":
        return None
    if imex.state in ("enabled", "disabled"):
        return f"the host's nvidia-imex is {imex.state}, not masked"
    return ""


def _disk_fault(disk: Disk) -> str:
    if disk.kind == "raid0" and disk.members:
        return ""
    kind = {"raid0": "a RAID0 without NVMe", "raid": "another RAID", "nvme": "one NVMe disk"}
    return f"{disk.path} lies on {disk.device}, {kind.get(disk.kind, 'no NVMe')}"


def _each(name: str, s: _Subject, fault: Callable[[NodeReport], str | None], good: str) -> Check:
    """Judge something that only reports tell; None: the report does not."""
    wrong, silent = [], []
    for node, report in s.reported():
        said = None if report is None else fault(report)
        if said is None:
            silent.append(node.name)
        elif said:
            wrong.append(f"{node.name}: {said}")
    if wrong:
        return _wrong(name, named(wrong))
    return _unknown(name, f"not told by {named(silent)}") if silent else _ok(name, good)


def _version(
    name: str,
    found: Mapping[str, str],
    floor: Floor,
    reaches: Callable[[str, str], bool | None],
) -> Check:
    judged = {node: reaches(version, floor.at_least) for node, version in found.items()}
    old = [f"{node} has {found[node]}" for node, good in judged.items() if good is False]
    if old:
        return _wrong(name, f"older than {floor.at_least}: {named(old)}")
    silent = [node for node, good in judged.items() if good is None]
    if silent:
        return _unknown(name, f"not told by {named(silent)}")
    versions = sorted(set(found.values()))
    if len(versions) > 1:
        return _wrong(name, f"the nodes of a rack differ: {named(versions)}")
    return _ok(name, versions[0])


def _ok(name: str, says: str) -> Check:
    return Check(name=name, verdict="ok", says=says)


def _wrong(name: str, says: str) -> Check:
    return Check(name=name, verdict="wrong", says=says)


def _unknown(name: str, says: str) -> Check:
    return Check(name=name, verdict="unknown", says=says)
