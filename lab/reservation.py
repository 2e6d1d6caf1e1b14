"""Reserve a lab's network for the time until its processes listen in it.

Two labs that start at the same moment both see a free network. So each binds one socket in the
network that it takes, and keeps it: the second one then sees that somebody was there first.
"""

from __future__ import annotations

import socket

import psutil

from fleet.errors import LabError
from lab.network import LAB_NUMBERS, reservation_address

RESERVATION_PORT = 6443  # any would do: nothing else uses the address


def reserve_network(preferred: int) -> tuple[int, socket.socket]:
    """Take the preferred lab number or the next free one; it is held until the socket closes."""
    used = _in_use()
    first = preferred % len(LAB_NUMBERS)
    for step in range(len(LAB_NUMBERS)):
        number = LAB_NUMBERS[(first + step) % len(LAB_NUMBERS)]
        if number in used:
            continue
        held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            held.bind((reservation_address(number), RESERVATION_PORT))
            held.listen()
        except OSError:
            held.close()
            continue
        return number, held
    raise LabError("network: all lab addresses are in use. End other labs: `k3fleet lab down`.")


def _in_use() -> frozenset[int]:
    """Read which of the lab networks somebody on this machine listens on."""
    used = set()
    for connection in psutil.net_connections(kind="inet4"):
        if connection.status == psutil.CONN_LISTEN and connection.laddr:
            first, second, *_ = connection.laddr.ip.split(".")
            if first == "127" and int(second) in LAB_NUMBERS:
                used.add(int(second))
    return frozenset(used)
