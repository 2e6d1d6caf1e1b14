"""Hold the field types that the files of several clouds share."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Network
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from fleet.schema import Positive, found_text, refuse


def matching(expression: str, noun: str, example: str) -> AfterValidator:
    """Refuse text of another form, and show one that is right."""
    form = re.compile(expression)

    def check(text: str) -> str:
        if not form.fullmatch(text):
            raise refuse(f"{found_text(text)} is no {noun}", f"Write it as {example}")
        return text

    return AfterValidator(check)


def _quoted(value: object) -> object:
    if isinstance(value, int | float):  # 1.40 is 1.4 as a number, and 012 is 12
        raise refuse(f"expected text, found the number {value}", f'Write "{value}", in quotes')
    return value


def _network(text: str, example: str) -> IPv4Network:
    try:
        return IPv4Network(text)
    except ValueError as error:
        raise refuse(f"{found_text(text)} is no IPv4 network", f"Write {example}") from error


def _own_network(text: str) -> str:
    if not _network(text, "10.20.0.0/16").is_private:
        raise refuse(f"{text} is not private", "Take a part of 10.0.0.0/8")
    return text


def _caller_network(text: str) -> str:
    if _network(text, "192.0.2.0/24").prefixlen == 0:
        raise refuse("0.0.0.0/0 opens the API server to everybody", "Name your own networks")
    return text


Quoted = BeforeValidator(_quoted)
Cidr = Annotated[str, AfterValidator(_own_network)]
CallerCidr = Annotated[str, AfterValidator(_caller_network)]
# Nodes for everything but engines: frontends, gateways, operators, monitoring.
SystemCount = Annotated[Positive, Field(le=100)]
DiskGib = Annotated[Positive, Field(ge=50, le=16_384)]
UUID = r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"


def check_apart(networks: Iterable[tuple[str, str]]) -> None:
    """Refuse networks that lie over each other; each comes with the name of its key."""
    seen: list[tuple[str, IPv4Network]] = []
    for name, text in networks:
        network = IPv4Network(text)
        for other_name, other in seen:
            if network.overlaps(other):
                raise refuse(f"{name}: {network} overlaps {other_name}: {other}", "Move one")
        seen.append((name, network))


def check_inside(whole: str, parts: Iterable[tuple[str, str]]) -> None:
    """Refuse networks that are no part of the whole one."""
    outer = IPv4Network(whole)
    for name, text in parts:
        if not IPv4Network(text).subnet_of(outer):
            raise refuse(f"{name}: {text} is not inside of {outer}", "Take a part of it")
