"""Keep beside a run what its requests do not say: whom it was sent to, and by what.

With it a run can be judged again later, on another machine, without the fleet.
"""

from __future__ import annotations

from pathlib import Path

import psutil
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fleet.errors import ConfigError, LoadError
from loadtest.results.run_folder import RunFiles
from loadtest.results.summary import RunContext
from loadtest.settings import LoadSettings

FACTS_FILE = "run.json"
GIB = 1024**3


class Machine(BaseModel):
    """The machine that made the load."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cores: int
    memory_gib: float

    @classmethod
    def here(cls) -> Machine:
        """Look at this machine."""
        memory = psutil.virtual_memory().total / GIB
        return cls(cores=psutil.cpu_count() or 1, memory_gib=round(memory, 1))


class RunFacts(BaseModel):
    """Hold whom a run was sent to and by what."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """Of the fleet, or of the endpoint."""
    command: tuple[str, ...] = ()
    processes: int = Field(default=1, ge=1)
    notes: tuple[str, ...] = ()
    """What a reader of the figures has to know first."""
    replicas: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Expected replicas by region; none where nobody knows them."""
    worker_names: dict[str, str] = Field(default_factory=dict)
    registered: frozenset[str] = frozenset()
    roles: dict[str, str] = Field(default_factory=dict)
    gpus: dict[str, int] = Field(default_factory=dict)
    """GPUs that serve each region, where the settings do not say."""
    answered: frozenset[str] = frozenset()
    real: tuple[str, ...] = ()
    mocked: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    machine: Machine | None = None

    def context(self, settings: LoadSettings, files: RunFiles) -> RunContext:
        """Give what a summary needs beside the requests."""
        gpus = settings.results.gpus or self.gpus or None
        return RunContext(
            block_size=settings.block_size,
            replicas=self.replicas,
            worker_names=self.worker_names,
            registered=self.registered,
            roles=self.roles,
            answered=self.answered,
            results=settings.results.model_copy(update={"gpus": gpus}),
            pages=files.pages,
            figures=files.figures,
            workers=files.workers,
            lost_workers=files.lost_workers,
        )


def write_facts(facts: RunFacts, folder: Path) -> None:
    """Write run.json; raises LoadError when the folder takes nothing."""
    path = folder / FACTS_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(facts.model_dump_json(indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise LoadError(f"{path}: {error.strerror}. Free some space.") from error


def read_facts(folder: Path) -> RunFacts:
    """Read run.json; a run that was made by hand has none, and nothing but requests is known."""
    path = folder / FACTS_FILE
    try:
        return RunFacts.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return RunFacts(name=folder.resolve().name, unknown=(f"{FACTS_FILE} is missing",))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}. Give a readable run folder.") from error
    except ValidationError as error:
        raise ConfigError(
            f"{path}: {error.error_count()} field(s) are wrong or cut off. Run the load test "
            "again, or remove the file to judge the requests alone."
        ) from error
