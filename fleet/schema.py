"""Check a YAML document against a pydantic model and explain what is wrong with it.

pydantic says `extra_forbidden at ('regions', 0, 'rakcs')`; a person needs the
line, the path, what is wrong and the nearest key that exists. This module is
that translation, and the field types that all k3fleet files share.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Annotated, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    ValidationError,
)
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from fleet.errors import Problem
from fleet.model_paths import description, known_keys
from fleet.units import UnitError, parse_bytes, parse_duration
from fleet.yaml_document import SHOWN_CHARS, Document, NodePath

MAX_TRANSLATED = 1000  # finding the nearest key takes 0.2 ms
DNS_LABEL_MAX = 63  # RFC 1123, as Kubernetes checks it
_LABEL_CHARS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")


class FileModel(BaseModel):
    """Base of everything that is read from a file: frozen, and no unknown keys."""

    model_config = ConfigDict(
        defer_build=True,  # most models are only ever parts of another, which builds them again
        frozen=True,
        extra="forbid",
        validate_by_name=True,
        validate_by_alias=True,
        allow_inf_nan=False,
    )


def refuse(what: str, fix: str) -> PydanticCustomError:
    """Make a validator's error that carries our two sentences."""
    return PydanticCustomError("k3fleet", "{what}", {"what": what, "fix": fix})


def check_dns_label(text: str, max_length: int = DNS_LABEL_MAX) -> str:
    """Refuse a name that Kubernetes would refuse later, in the middle of a rollout."""
    if len(text) > max_length:
        raise refuse(
            f"{found_text(text)} has {len(text)} characters, {max_length} are allowed", "Shorten it"
        )
    if not text or not _LABEL_CHARS.issuperset(text) or text[0] == "-" or text[-1] == "-":
        raise refuse(
            f"{found_text(text)} is not a DNS label",
            "Use lower-case letters, digits and dashes, with a letter or digit at both ends",
        )
    return text


def _bytes(value: object) -> object:
    if isinstance(value, str):
        return _unit(parse_bytes, value)
    return value


def _seconds(value: object) -> object:
    if isinstance(value, str):
        return _unit(parse_duration, value)
    return value


def _unit(parse: Callable[[str], object], value: str) -> object:
    try:
        return parse(value)
    except UnitError as error:
        what, _, fix = str(error).partition(". ")
        raise refuse(what, fix) from error


DnsLabel = Annotated[str, AfterValidator(check_dns_label)]
Count = Annotated[int, Strict(), Field(ge=0)]
Positive = Annotated[int, Strict(), Field(ge=1)]
Fraction = Annotated[float, Strict(), Field(gt=0, lt=1)]
Ratio = Annotated[float, Strict(), Field(gt=0)]
Bytes = Annotated[int, Strict(), Field(ge=0), BeforeValidator(_bytes)]
Seconds = Annotated[float, Strict(), Field(gt=0, le=31_536_000), BeforeValidator(_seconds)]
# Where less than a second is a unit forgotten.
AtLeastASecond = Annotated[Seconds, Field(ge=1)]
Text = Annotated[str, Field(min_length=1)]

IMAGE_FIX = (
    "Write repository:tag@sha256:<64 hex digits>, because a tag can be moved; "
    "`crane digest IMAGE` prints it"
)


# github.com/distribution/reference: host, port, path, tag, digest.
_PATH_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]{1,5})?"
_IMAGE = re.compile(
    rf"(?:{_HOST}/)?{_PATH_PART}(?:/{_PATH_PART})*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?"
    r"(?:@[A-Za-z0-9+.-]+:[0-9a-fA-F]+)?"
)
_PASSWORD_IN_IMAGE = re.compile(r"[^/@]*:[^/@]*@(?!sha256:|sha512:)")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


def has_digest(image: str | None) -> bool:
    """Say whether an image reference cannot be moved to other content."""
    _, at, digest = (image or "").rpartition("@sha256:")
    return bool(at) and len(digest) == 64 and set(digest) <= set("0123456789abcdef")


def image_without_digest(image: str) -> str:
    """Say what is wrong with an image reference that can be moved."""
    return f"the image {found_text(image)} has no digest"


def _image(image: str) -> str:
    if _PASSWORD_IN_IMAGE.search(image):
        raise refuse("the image names a user or a password", "Name them in a Secret: image_pull")
    if not _IMAGE.fullmatch(image):
        raise refuse(
            f"{found_text(image)} is no reference of an image",
            "Write host/repository:tag@sha256:<64 hex digits>, the repository in lower case",
        )
    return image


def _label_value(text: str) -> str:
    if not _LABEL_VALUE.fullmatch(text):
        raise refuse(
            f"{found_text(text)} cannot be the value of a node label",
            "Use up to 63 letters, digits, dots, dashes and underscores",
        )
    return text


def _pinned_image(image: str) -> str:
    if not has_digest(image):
        raise refuse(image_without_digest(image), IMAGE_FIX)
    return image


ImageRef = Annotated[str, AfterValidator(_image)]
PinnedImage = Annotated[ImageRef, AfterValidator(_pinned_image)]
LabelValue = Annotated[str, AfterValidator(_label_value)]

ModelT = TypeVar("ModelT", bound=BaseModel)


def validate(model: type[ModelT], document: Document) -> tuple[ModelT | None, list[Problem]]:
    """Return the model, or None with every problem of the document."""
    problems = list(document.problems)
    if document.is_broken(()):
        return None, problems
    try:
        valid = model.model_validate(document.data, by_alias=True, by_name=False)
    except ValidationError as error:
        problems += _translate(model, document, error.errors(include_url=False))
        return None, problems
    return (None if problems else valid), problems


def suggestion(word: str, known: Iterable[str]) -> str:
    """Propose the nearest known word, and list all of them."""
    words = sorted(known)
    near = get_close_matches(word[:SHOWN_CHARS], words, n=1, cutoff=0.6)
    listed = f"Known: {', '.join(words)}" if words else "Leave it out: there is nothing to say here"
    return f"Did you mean {near[0]!r}? {listed}" if near else listed


def explained(model: type[BaseModel], error: ValidationError) -> ValidationError:
    """Put the errors of a model into our words, for a validator that chose the model itself.

    pydantic keeps the paths when such an error is raised inside of another model.
    """
    found = error.errors(include_url=False)
    return ValidationError.from_exception_data(
        error.title,
        [
            InitErrorDetails(
                type=refuse(*_explain(model, item["loc"], item)),
                loc=item["loc"],
                input=item["input"],
            )
            for item in found
            if not _follows_from_another(item)
        ],
    )


def _translate(
    model: type[BaseModel], document: Document, errors: Iterable[ErrorDetails]
) -> list[Problem]:
    problems = []
    for error in islice(errors, MAX_TRANSLATED):
        path: NodePath = tuple(part for part in error["loc"] if part != "[key]")
        if document.is_broken(path) or _follows_from_another(error):
            continue
        what, fix = _explain(model, path, error)
        problems.append(document.problem(path, what, fix))
    return problems


def _follows_from_another(error: ErrorDetails) -> bool:
    # pydantic counts only the valid items of a list, whose own faults are reported already
    miscounted = error["type"] == "too_short" and error["input"]
    # a default that follows from another field, which is wrong and reported itself
    return bool(miscounted) or error["type"] == "default_factory_not_called"


_EXPECTED = {
    "int_type": ("a whole number", "Write it without quotes, for example 9"),
    "float_type": ("a number", "Write it without quotes, for example 0.92"),
    "string_type": ("text", "Write a word, in quotes if it looks like a number"),
    "bool_type": ("true or false", "Write true or false"),
    "bool_parsing": ("true or false", "Write true or false"),
    "list_type": ("a list", "Start each item with `- `"),
    "tuple_type": ("a list", "Start each item with `- `"),
    "dict_type": ("a mapping", "Write `key: value` lines, indented"),
    "model_type": ("a mapping", "Write `key: value` lines, indented"),
    "int_parsing": ("a whole number as key", "Write for example 8"),
}


def _explain(model: type[BaseModel], path: NodePath, error: ErrorDetails) -> tuple[str, str]:
    kind, value = error["type"], error["input"]
    context: Mapping[str, object] = error.get("ctx", {})
    last = str(path[-1]) if path else ""
    found = found_text(value)
    match kind:
        case "k3fleet":
            explained = str(context["what"]), str(context["fix"])
        case "extra_forbidden":
            explained = "unknown key", suggestion(last, known_keys(model, path[:-1]))
        case "missing":
            explained = "the key is missing", f"Add `{last}`{description(model, path)}"
        case "literal_error":
            words = str(context["expected"]).replace(" or ", ", ").replace("'", "").split(", ")
            explained = f"{found} is not one of the choices", suggestion(str(value), words)
        case "string_too_short":
            explained = "is empty", "Give a value, or leave the key out"
        case "too_short":
            explained = "is empty", f"Give at least one{description(model, path)}"
        case _ if kind in _EXPECTED:
            expected, fix = _EXPECTED[kind]
            explained = f"expected {expected}, found {found}", fix
        case _:
            explained = _out_of_range(found, context) or (error["msg"], "Correct the value")
    return explained


def _out_of_range(found: str, context: Mapping[str, object]) -> tuple[str, str] | None:
    bounds = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
    for name, words in bounds.items():
        if name in context:
            return f"{found} is out of range", f"Give {words} {context[name]}"
    return None


def found_text(value: object) -> str:
    """Name a wrong value the way its author would recognise it."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return repr(value if len(value) <= SHOWN_CHARS else value[: SHOWN_CHARS - 3] + "...")
    if isinstance(value, dict):
        return "a mapping"
    return "a list" if isinstance(value, list) else str(value)
