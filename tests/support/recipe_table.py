"""Compare our rendering with the public Dynamo recipes for Kimi K3 on GB300.

Reads both sides into flat settings (`env NCCL_DEBUG`, `flag --max-num-seqs`), and writes
what differs, with its reason, as docs/recipes.md. To write that file again:

    python tests/support/recipe_table.py docs/recipes.md
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml
from recipe_settings import Settings, graph_settings, pod_settings

from fleet.load import load_fleet
from infra.options import Layer
from infra.render import KubeObject, render_region

ROOT = Path(__file__).parents[2]
RECIPES = ROOT.parent / "shared" / "data" / "k3-recipes"
REASONS = ROOT / "tests" / "cases" / "recipe_reasons.yaml"

ABSENT = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A public recipe and the preset that is made after it."""

    recipe: str
    preset: str
    # What a component is called in the table -> its name there, and its type here.
    parts: Mapping[str, tuple[str, str]]

    @property
    def engine(self) -> str:
        """The engine of both."""
        return self.recipe.partition("/")[0]


PAIRS = (
    Pair(
        recipe="vllm/agg-gb300-agentic",
        preset="vllm-tp8",
        parts={"agg": ("VllmDecodeWorker", "worker")},
    ),
    Pair(
        recipe="vllm/agg-gb300-agentic-dspark",
        preset="vllm-tp8-dspark",
        parts={"dspark": ("VllmDecodeWorker", "worker")},
    ),
    Pair(
        recipe="vllm/disagg-gb300-agentic",
        preset="vllm-pd-1p2d",
        parts={"prefill": ("PrefillWorker", "prefill"), "decode": ("DecodeWorker", "decode")},
    ),
    Pair(
        recipe="sglang/agg-gb300-agentic",
        preset="sglang-tp8-dcp8-dspark",
        parts={"agg": ("SglangWorker", "worker")},
    ),
    Pair(
        recipe="sglang/disagg-gb300-agentic",
        preset="sglang-pd-2p1d-dspark",
        parts={"prefill": ("PrefillWorker", "prefill"), "decode": ("DecodeWorker", "decode")},
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One setting, equal or not, of one or more components."""

    chapter: str  # an engine, or "frontend"
    setting: str
    theirs: str
    ours: str
    where: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Say whether the two sides are unlike."""
        return self.theirs != self.ours


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why settings that match a pattern differ."""

    patterns: tuple[str, ...]
    why: str
    only: tuple[str, ...]  # chapters or components; empty: everywhere

    def matching(self, row: Row) -> list[str]:
        """Give the patterns that fit a row; none when this is not its reason."""
        if self.only and not {row.chapter, *row.where} & set(self.only):
            return []
        return [item for item in self.patterns if fnmatchcase(row.setting, item)]


def compare() -> list[Row]:
    """Compare every pair, and merge what is the same in several components."""
    merged: dict[tuple[str, str, str, str], list[str]] = {}
    for pair in PAIRS:
        for chapter, label, theirs, ours in _sides(pair):
            for setting in sorted(theirs.keys() | ours.keys()):
                values = theirs.get(setting, ABSENT), ours.get(setting, ABSENT)
                merged.setdefault((chapter, setting, *values), []).append(label)
    rows = [
        Row(chapter=chapter, setting=setting, theirs=theirs, ours=ours, where=tuple(where))
        for (chapter, setting, theirs, ours), where in merged.items()
    ]
    return sorted(rows, key=lambda row: (row.chapter != "vllm", row.chapter, row.setting))


def _sides(pair: Pair) -> Iterator[tuple[str, str, Settings, Settings]]:
    """Give chapter, label and both sides' settings of each component."""
    text = (RECIPES / f"{pair.recipe}.yaml").read_text()
    theirs = [item for item in yaml.load_all(text, Loader=yaml.CSafeLoader) if item]
    ours = _rendered(pair.preset)
    graphs = [item for item in ours if item["kind"] == "DynamoGraphDeployment"]
    for label, (name, kind) in pair.parts.items():
        graph = next(item for item in graphs if item["spec"]["components"][0]["type"] == kind)
        component = graph["spec"]["components"][0]["name"]
        yield (
            pair.engine,
            label,
            graph_settings(theirs, _graph(theirs), name),
            graph_settings(ours, graph, component),
        )
    deployment = next(
        item
        for item in ours
        if item["kind"] == "Deployment" and item["metadata"]["name"].startswith("frontend-")
    )
    frontend = pod_settings(deployment["spec"]["template"])
    frontend["object replicas"] = str(deployment["spec"].get("replicas", "autoscaled"))
    recipe = graph_settings(theirs, _graph(theirs), "Frontend")
    label = f"{pair.engine} {'/'.join(pair.parts)}"
    yield "frontend", label, {k: v for k, v in recipe.items() if k != "object type"}, frontend


def _graph(objects: list[KubeObject]) -> KubeObject:
    return next(item for item in objects if item["kind"] == "DynamoGraphDeployment")


def _rendered(preset: str) -> list[KubeObject]:
    """Render three replicas of a preset for Dynamo's operator."""
    fleet = {
        "apiVersion": "k3fleet/v1",
        "name": "demo",
        "release": preset,
        "backend": "dgd",
        "regions": [{"name": "us-east", "racks": [{"id": "use1-r01", "healthy_nodes": 6}]}],
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "fleet.yaml")
        path.write_text(yaml.safe_dump(fleet), encoding="utf-8")
        loaded = load_fleet(path)
    layers: tuple[Layer, ...] = ("platform", "serving")
    return [item for layer in layers for item in render_region(loaded, "us-east", layer)]


def read_reasons() -> list[Reason]:
    """Read the reasons, in the order in which they are tried."""
    loaded: list[dict[str, Any]] = yaml.safe_load(REASONS.read_text(encoding="utf-8"))
    return [
        Reason(patterns=tuple(item["settings"]), why=item["why"], only=tuple(item.get("only", ())))
        for item in loaded
    ]


def reason_of(row: Row, reasons: list[Reason]) -> Reason | None:
    """Find the first reason that fits a row."""
    return next((reason for reason in reasons if reason.matching(row)), None)


_HEAD = """\
# Our rendering beside the public recipes

Generated by `python tests/support/recipe_table.py docs/recipes.md`; a test holds it to the code.

Dynamo publishes Kimi K3 recipes for GB300 (as read in August 2026). Each is compared with the
preset made after it, rendered for backend `dgd`, rack `use1-r01`. An empty cell means: not set.

| recipe | preset | components |
|---|---|---|
"""
_COLUMNS = """\
| setting | where | recipe | ours | why |
|---|---|---|---|---|
"""
_TITLES = {
    "vllm": "vLLM workers",
    "sglang": "SGLang workers",
    "frontend": "Frontends (theirs: a component of the graph; ours: a Deployment)",
}


def document(rows: list[Row], reasons: list[Reason]) -> str:
    """Write the whole page; a difference without a reason says so."""
    parts = [_HEAD]
    parts += [f"| {pair.recipe} | {pair.preset} | {', '.join(pair.parts)} |\n" for pair in PAIRS]
    for chapter, title in _TITLES.items():
        own = [row for row in rows if row.chapter == chapter]
        labels = {label for row in own for label in row.where}
        parts.append(f"\n## {title}\n\n{_COLUMNS}")
        for row in own:
            if row.differs:
                parts.append(_line(row, labels, reason_of(row, reasons)))
        same = ", ".join(
            _code(f"{row.setting}={row.ours}") + _in(row, labels) for row in own if not row.differs
        )
        parts.append(f"\nThe same on both sides: {same}.\n")
    return "".join(parts)


def _line(row: Row, labels: set[str], reason: Reason | None) -> str:
    where = "all" if set(row.where) == labels else ", ".join(row.where)
    why = reason.why if reason else "**no reason given**"
    cells = _code(row.setting), where, _code(row.theirs), _code(row.ours), why
    return f"| {' | '.join(cells)} |\n"


def _in(row: Row, labels: set[str]) -> str:
    return "" if set(row.where) == labels else f" ({', '.join(row.where)})"


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|") if text else ""


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(document(compare(), read_reasons()), encoding="utf-8")
