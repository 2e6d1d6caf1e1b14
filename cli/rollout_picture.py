"""Draw a rollout: racks and their slots, coloured by release and state; plain text elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cli.plain import plain
from fleet.rollout.state import State

OLD, NEW, OTHER = "blue", "green", "magenta"
# State of a replica -> its sign; what is not here serves nobody.
SIGNS: Mapping[str, str] = {"serves": "■", "out of routing": "□", "ends": "·", "not ready": "…"}
ABSENT = "x"
LEGEND = "■ serves  □ out of routing  … not ready  · ends  x no pod"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A replica as it is shown."""

    replica: str
    rack: str
    region: str
    release: str  # that its leader runs
    state: str
    in_step: bool


def slots(
    places: Iterable[tuple[str, str, str]], live: Mapping[str, tuple[str, str]], state: State
) -> list[Slot]:
    """Put what is live where it is: `places` are region, rack and replica."""
    current = state.queue[0].places if state.queue and state.status == "running" else ()
    step = {place.replica for place in current}
    found = []
    for region, rack, replica in places:
        release, standing = live.get(replica, ("", "no pod"))
        found.append(
            Slot(
                replica=replica,
                rack=rack,
                region=region,
                release=release,
                state=standing,
                in_step=replica in step,
            )
        )
    return found


def picture(found: Iterable[Slot], state: State, facts: Iterable[str]) -> RenderableType:
    """Draw one row per rack, one sign per slot; those of the current step are underlined."""
    table = Table("region", "rack", "slots", "new", box=None, pad_edge=False)
    racks: dict[tuple[str, str], list[Slot]] = {}
    for slot in found:
        racks.setdefault((slot.region, slot.rack), []).append(slot)
    for (region, rack), own in racks.items():
        updated = sum(slot.release == state.started.new for slot in own)
        row = Text(" ").join(_sign(slot, state) for slot in own)
        table.add_row(plain(region), plain(rack), row, f"{updated} of {len(own)}")
    releases = Text.assemble(
        (plain(state.started.old), OLD), " -> ", (plain(state.started.new), NEW), "   ", LEGEND
    )
    return Group(releases, table, *(Text(plain(fact)) for fact in facts))


def _sign(slot: Slot, state: State) -> Text:
    colours = {state.started.old: OLD, state.started.new: NEW, "": "red"}
    colour = colours.get(slot.release, OTHER)
    style = f"bold underline {colour}" if slot.in_step else colour
    return Text(SIGNS.get(slot.state, ABSENT), style=style)
