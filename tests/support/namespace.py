"""Run a command in a network namespace of its own, where the kernel allows it.

Dynamo's ZMQ sockets listen on every address; in a namespace that has only loopback nobody else
can reach them. Root makes one directly, others inside a user namespace.

Used as `python tests/support/namespace.py COMMAND …`.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys

SIOCSIFFLAGS, IFF_UP = 0x8914, 1  # netdevice(7)


def main(command: list[str]) -> None:
    """Become the command, inside a namespace when one can be made."""
    unshare = shutil.which("unshare")
    flags = ["--net"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--net"]
    prefix = [unshare or "", *flags]
    inside = [sys.executable, __file__, "--inside"]
    if unshare and subprocess.run([*prefix, *inside, "true"], check=False).returncode == 0:
        os.execvp(unshare, [*prefix, *inside, *command])
    sys.stderr.write("no network namespace can be made here: sockets listen on all addresses\n")
    os.execvp(command[0], command)


def enter(command: list[str]) -> None:
    """Raise the namespace's loopback (without iproute2) and become the command."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        fcntl.ioctl(handle, SIOCSIFFLAGS, struct.pack("16sh", b"lo", IFF_UP))
    os.execvp(command[0], command)


if __name__ == "__main__":
    if sys.argv[1] == "--inside":
        enter(sys.argv[2:])
    main(sys.argv[1:])
