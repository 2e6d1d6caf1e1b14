"""Claim the folder that a lab works in: ours alone, and one run at a time."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import TextIO

from fleet.errors import ConfigError

CLAIM = "k3fleet.lock"  # marks the folder as ours, and is locked while a run uses it


def mark(folder: Path) -> None:
    """Make the folder ours while it is new, so that a lab may work beside what is put there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not any(folder.iterdir()):
            (folder / CLAIM).touch()
    except OSError as error:
        raise ConfigError(
            f"{folder}: {error.strerror}. Give a --work-dir that can be written."
        ) from error


def claim(folder: Path) -> TextIO:
    """Make the folder, or check that it is ours, and lock it until the returned file closes.

    Raises ConfigError for a folder that holds other things (the lab's parts are deleted and made
    anew in it), that cannot be written, or that another run uses.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / CLAIM
        if not path.exists() and any(folder.iterdir()):
            raise ConfigError(
                f"{folder}: is not empty and was not made by k3fleet. Give another --work-dir."
            )
        lock = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), "r+")
    except OSError as error:
        raise ConfigError(
            f"{folder}: {error.strerror}. Give a --work-dir that can be written."
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = lock.read().strip() or "unknown"
        lock.close()
        raise ConfigError(
            f"{folder}: is in use by process {holder}. Wait for it, or give another --work-dir."
        ) from error
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    return lock
