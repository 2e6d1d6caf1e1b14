"""Read which network cards of an instance type get an interface: a table, as AWS decides it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pydantic import TypeAdapter

from fleet.schema import Count, FileModel
from fleet.yaml_document import read_document

_TABLE = Path(__file__).with_name("aws_cards.yaml")


class Cards(FileModel):
    """The cards of one instance type, beside card 0."""

    verified: bool  # whether a public source gives this layout
    efa_cards: tuple[Count, ...]


NO_EFA = Cards(verified=False, efa_cards=())


@cache
def card_table() -> dict[str, Cards]:
    """Read the table that comes with k3fleet."""
    return TypeAdapter(dict[str, Cards]).validate_python(read_document(_TABLE).data)


def cards_of(instance_type: str) -> Cards:
    """Give the cards of an instance type; of an unknown one, card 0 has to do."""
    return card_table().get(instance_type, NO_EFA)
