"""Let the start form of the page, and the command line, change what the settings file says.

Whatever is left empty is as in the file. A file on the machine cannot be named here: whoever can
press start would read it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fleet.errors import ConfigError
from fleet.schema import found_text, suggestion
from loadtest.play.stages import parse_stages, stages_text
from loadtest.settings import LoadSettings, change_settings
from loadtest.traffic.profiles import known_profiles, load_profile

if TYPE_CHECKING:  # importing Locust patches sockets and threads of the whole process
    from locust.argument_parser import LocustArgumentParser

ORIGIN = "start form"
_SHOWN = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """Hold one parameter of the form."""

    name: str
    metavar: str
    help: str


FIELDS = (
    Field(
        name="traffic",
        metavar="PROFILE",
        help=f"profile of the traffic: {', '.join(known_profiles())}",
    ),
    Field(
        name="sessions_per_minute",
        metavar="RATE",
        help="begin sessions at this rate (open loop), instead of the users above",
    ),
    Field(
        name="stages",
        metavar="TEXT",
        help="'name duration level; ...', as in: warm-up 60s 4; ramp 5m 4..64; soak 20m 64",
    ),
    Field(name="token_scale", metavar="FACTOR", help="divides all lengths, 1 = production"),
    Field(name="time_scale", metavar="FACTOR", help="divides all pauses, 1 = production"),
    Field(name="seed", metavar="NUMBER", help="the same seed is the same load"),
)
SEARCH = "search_limit"


def add_fields(parser: LocustArgumentParser, shown: Mapping[str, str]) -> None:
    """Add the parameters to Locust's command line and form, with what the form shows at first."""
    for field in FIELDS:
        parser.add_argument(
            f"--{field.name.replace('_', '-')}",
            dest=field.name,
            metavar=field.metavar,
            default=shown.get(field.name, ""),
            help=field.help,
        )
    parser.add_argument(
        f"--{SEARCH.replace('_', '-')}",
        dest=SEARCH,
        action="store_true",
        default=bool(shown.get(SEARCH)),
        help="search the most users within the limits that the settings file gives",
    )


def shown_by(settings: LoadSettings) -> dict[str, str]:
    """Give what the form shows of some settings."""
    rate = settings.sessions_per_minute
    return {
        "traffic": settings.traffic,
        "sessions_per_minute": "" if rate is None else f"{rate:g}",
        "stages": stages_text(settings.stages),
        "token_scale": f"{settings.token_scale:g}",
        "time_scale": f"{settings.time_scale:g}",
        "seed": str(settings.seed),
        SEARCH: "yes" if settings.search is not None else "",
    }


def changes_by(
    settings: LoadSettings, options: Mapping[str, Any], *, is_form: bool
) -> dict[str, Any]:
    """Give the fields that the options change; raises ConfigError for what is wrong.

    In the form an empty rate and empty stages mean users; on the command line, as in the file.
    """
    given = {field.name: str(options.get(field.name) or "").strip() for field in FIELDS}
    changes: dict[str, Any] = {}
    traffic = given["traffic"]
    if traffic and traffic != settings.traffic:
        known = known_profiles()
        if is_form and traffic not in known:  # a path would let the page read this machine's files
            raise ConfigError(
                f"traffic: {found_text(traffic)} is no profile. {suggestion(traffic, known)}."
            )
        load_profile(traffic)
        changes["traffic"] = traffic
    for name, kind in (("token_scale", float), ("time_scale", float), ("seed", int)):
        if given[name]:
            changes[name] = _number(name, given[name], kind)
    changes |= _load(settings, given, options, is_form=is_form)
    change_settings(settings, changes, ORIGIN)  # raises for what is wrong
    return changes


def _load(
    settings: LoadSettings, given: Mapping[str, str], options: Mapping[str, Any], *, is_form: bool
) -> dict[str, Any]:
    none: dict[str, Any] = {
        "users": None, "sessions_per_minute": None, "stages": (), "search": None,
    }  # fmt: skip
    asked = [name for name in ("sessions_per_minute", "stages") if given[name]]
    if options.get(SEARCH) is True:
        asked.append(SEARCH)
    if len(asked) > 1:
        raise ConfigError(f"{', '.join(asked)}: more than one load is given. Give one of them.")
    if settings.as_recorded:
        if not asked and given["traffic"] in {"", settings.traffic}:
            return {}
        none["replay"] = settings.replay.model_dump() | {"arrivals": "asked"}
    if "sessions_per_minute" in asked:
        rate = _number("sessions_per_minute", given["sessions_per_minute"], float)
        return none | {"sessions_per_minute": rate}
    if "stages" in asked:
        stages = parse_stages(given["stages"])
        return none | {"stages": [stage.model_dump() for stage in stages]}
    if asked and settings.search is None:
        raise ConfigError(f"{SEARCH}: the settings file gives no limits. Add `search` to it.")
    users = options.get("num_users")
    if is_form and not asked:
        return none | {"users": users}
    return {"users": users} if users and not asked and settings.users is not None else {}


def _number(name: str, text: str, kind: type[int] | type[float]) -> float:
    try:
        number = kind(text)
        if math.isfinite(number):
            return number
    except (ValueError, OverflowError):  # thousands of digits are no number either
        pass
    shown = text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
    raise ConfigError(f"{name}: {shown!r} is no number. Write for example 1.")
