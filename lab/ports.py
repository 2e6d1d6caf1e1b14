"""Check that a port is free before something is started that needs it."""

from __future__ import annotations

import errno
import socket

from fleet.errors import LabError


def require_free_port(address: str, port: int, fix: str) -> None:
    """Raise LabError when TCP or UDP of a port is taken, also by a listener on all addresses."""
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(socket.AF_INET, kind) as probe:
            if kind == socket.SOCK_STREAM:  # connections that are being closed do not count
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise LabError(f"{address}:{port}: {error.strerror}. {fix}") from error
                raise LabError(
                    f"{address}:{port}: the port is in use. {fix} "
                    f"`ss -lntup 'sport = :{port}'` names it."
                ) from error
