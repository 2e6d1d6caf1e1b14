"""Make the addresses that a lab shows for its pods real ones, as they are in a cluster.

A lab's pods listen on 127.LAB.x.y, and its API servers show 10.LAB.x.y. In a network namespace of
its own a test may give the second ones to the loopback device, and pass on what arrives there: then
an API server reaches pods by itself.
"""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from infra.engine import SYSTEM_PORT
from infra.frontend import PORT as FRONTEND_PORT
from lab.network import RegionNetwork, loopback_address, shown_address

SIOCSIFADDR, SIOCSIFNETMASK = 0x8916, 0x891C  # netdevice(7)
MOST_PODS = 120  # of the region, as long as the test goes on


@contextmanager
def shown_addresses(lab: int) -> Iterator[None]:
    """Let what a lab's first region shows lead to its pods while the block runs."""
    if [name for _, name in socket.if_nameindex()] != ["lo"]:
        pytest.skip("needs a network namespace of its own: tests/support/namespace.py")
    _own(f"10.{lab}.0.1", "255.255.0.0")
    region = RegionNetwork(lab=lab, index=0)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    pods = [shown_address(region.pod(number)) for number in range(MOST_PODS)]
    servers = asyncio.run_coroutine_threadsafe(_listen(pods), loop).result(30)
    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(_end(servers), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)


def _own(address: str, mask: str) -> None:
    """Give an address to an alias of loopback; its whole network is then this machine's."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        for request, value in ((SIOCSIFADDR, address), (SIOCSIFNETMASK, mask)):
            where = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(value))
            fcntl.ioctl(handle, request, struct.pack("16s16s8x", b"lo:1", where))


async def _listen(pods: list[str]) -> list[asyncio.Server]:
    return [
        await asyncio.start_server(_pass_on, pod, port)
        for pod in pods
        for port in (SYSTEM_PORT, FRONTEND_PORT)
    ]


async def _end(servers: list[asyncio.Server]) -> None:
    for server in servers:
        server.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    host, port = writer.get_extra_info("sockname")
    try:
        there, back = await asyncio.open_connection(loopback_address(host), port)
    except OSError:
        writer.close()
        return
    await asyncio.gather(_pipe(reader, back), _pipe(there, writer))


async def _pipe(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while part := await source.read(1 << 16):
            target.write(part)
            await target.drain()
    target.close()
