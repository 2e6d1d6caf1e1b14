"""What the reader follows in source that fills a parser."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_wheels import entries_of

from fleet.errors import ConfigError


def test_each_round_of_a_loop_declares_a_flag(tmp_path: Path) -> None:
    """Engines declare families of flags in a loop over a table."""
    found = entries_of(
        tmp_path,
        """
        SIZES = {"tensor": (int, 1), "expert": (int, 2)}
        def fill(parser):
            for name, (kind, default) in SIZES.items():
                parser.add_argument(f"--{name}-size", type=kind, default=default)
        """,
    )
    assert {flag: entry["default"] for flag, entry in found.items()} == {
        "--tensor-size": 1,
        "--expert-size": 2,
    }


def test_keywords_travel_in_dictionaries(tmp_path: Path) -> None:
    """vLLM changes a dictionary of keywords before it unpacks it into the call."""
    found = entries_of(
        tmp_path,
        """
        def fill(parser):
            group = parser.add_argument_group("engine")
            given = {"nargs": "+", "type": str}
            given["choices"] = ["b", "a"]
            del given["nargs"]
            group.add_argument("--order", **given)
        """,
    )
    assert found["--order"] == {
        "flags": ["--order"],
        "dest": "order",
        "type": "str",
        "choices": ["a", "b"],
        "deprecated": False,
    }


def test_a_method_above_is_followed(tmp_path: Path) -> None:
    """A subclass fills what its base declares, also when that sits in another module."""
    found = entries_of(
        tmp_path,
        """
        from base import Base
        class Group(Base):
            def __init__(self, prefix):
                self.prefix = prefix
            def add(self, parser):
                super().add(parser)
        def fill(parser):
            Group("http").add(parser)
        """,
        base="""
        class Base:
            def add(self, parser):
                parser.add_argument("--" + self.prefix + "-port", type=int)
        """,
    )
    assert found["--http-port"]["type"] == "int"


def test_both_sides_of_a_fork_that_the_machine_decides_count(tmp_path: Path) -> None:
    """A flag that exists on some machines must not be called unknown."""
    found = entries_of(
        tmp_path,
        """
        import torch
        def fill(parser):
            if torch.cuda.is_available():
                parser.add_argument("--gpu")
            else:
                parser.add_argument("--cpu")
        """,
    )
    assert set(found) == {"--gpu", "--cpu"}


def test_a_return_that_the_machine_decides_does_not_end_the_reading(tmp_path: Path) -> None:
    """Dynamo leaves early when an option exists already; a reader cannot know that."""
    found = entries_of(
        tmp_path,
        """
        def fill(parser):
            if "--old" in parser._option_string_actions:
                return
            parser.add_argument("--old", action="store_true")
        """,
    )
    assert found["--old"]["nargs"] == 0


def test_a_fork_that_is_known_counts_on_one_side(tmp_path: Path) -> None:
    """A default parameter decides which flags a group has."""
    found = entries_of(
        tmp_path,
        """
        def add(parser, frontend=True):
            parser.add_argument("--http" if frontend else "--grpc")
        def fill(parser):
            add(parser, frontend=False)
        """,
    )
    assert set(found) == {"--grpc"}


def test_choices_that_are_known_in_part_stay_open(tmp_path: Path) -> None:
    """Refusing a value that a plugin adds at run time would be wrong."""
    found = entries_of(
        tmp_path,
        """
        from plugins import names
        def fill(parser):
            parser.add_argument("--device", choices=["auto"] + names())
        """,
    )
    assert found["--device"]["choices"] == ["auto"]
    assert found["--device"]["choices_open"] is True


def test_an_enum_gives_the_values_of_its_members(tmp_path: Path) -> None:
    """`choices=list(Mode)` compares with what the members stand for."""
    found = entries_of(
        tmp_path,
        """
        from enum import Enum
        class Mode(str, Enum):
            AGG = "agg"
            DECODE = "decode"
        def fill(parser):
            parser.add_argument("--mode", choices=[mode.value for mode in Mode])
        """,
    )
    assert found["--mode"]["choices"] == ["agg", "decode"]


def test_the_later_declaration_of_a_flag_wins(tmp_path: Path) -> None:
    """Engines declare a family by rule and then replace single flags by hand."""
    found = entries_of(
        tmp_path,
        """
        def fill(parser):
            parser.add_argument("--parser", type=str)
            parser.add_argument("--parser", choices=["kimi_k3"])
        """,
    )
    assert found["--parser"]["choices"] == ["kimi_k3"]


def test_a_type_from_outside_keeps_its_name(tmp_path: Path) -> None:
    """JSON arguments are checked as JSON; a lambda is named as what it is."""
    found = entries_of(
        tmp_path,
        """
        import json
        def fill(parser):
            parser.add_argument("--config", type=json.loads)
            parser.add_argument("--backend", type=lambda text: text.lower())
        """,
    )
    assert found["--config"]["type"] == "json"
    assert found["--backend"]["type_expr"] == "lambda text: text.lower()"


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ('help="Deprecated: use --new."', True),
        ('help="The size. It is deprecated."', True),
        ('help="Says what was deprecated."', False),
        ("deprecated=True", True),
        ("action=DeprecatedStoreTrueAction", True),
    ],
)
def test_a_deprecation_is_found_where_engines_say_it(
    tmp_path: Path, call: str, expected: bool
) -> None:
    """A warning must not be given for a help text that only has the word in it."""
    main = f"""
        def fill(parser):
            parser.add_argument("--old", {call})
        """
    assert entries_of(tmp_path, main)["--old"]["deprecated"] is expected


def test_a_switch_by_argparse_has_its_negative_spelling(tmp_path: Path) -> None:
    """`--no-x` is as legal as `--x`, and an action derived from argparse's counts too."""
    found = entries_of(
        tmp_path,
        """
        import argparse
        class Loud(argparse.BooleanOptionalAction):
            pass
        def fill(parser):
            parser.add_argument("--events", action=Loud)
        """,
    )
    assert found["--events"]["negative_flags"] == ["--no-events"]


def test_a_number_that_would_fill_the_memory_stays_unknown(tmp_path: Path) -> None:
    """A wheel given by hand can hold anything."""
    found = entries_of(
        tmp_path,
        """
        def fill(parser):
            parser.add_argument("--big", default=9 ** 9 ** 9)
            parser.add_argument("--long", default="x" * 10 ** 12)
        """,
    )
    assert "default" not in found["--big"]
    assert "default" not in found["--long"]


def test_a_function_that_calls_itself_is_left(tmp_path: Path) -> None:
    """Depth is bounded; the rest of the source is still read."""
    found = entries_of(
        tmp_path,
        """
        def again(value):
            return again(value)
        def fill(parser):
            parser.add_argument("--deep", default=again(1))
            parser.add_argument("--next")
        """,
    )
    assert set(found) == {"--deep", "--next"}


def test_a_source_that_never_ends_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loops in loops would otherwise take days."""
    monkeypatch.setattr("infra.flag_sources.evaluator.MAX_STEPS", 1000)
    main = """
        def fill(parser):
            for a in range(1000):
                for b in range(1000):
                    parser.add_argument("--x")
        """
    with pytest.raises(ConfigError, match="too many steps"):
        entries_of(tmp_path, main)


def test_an_endless_list_is_not_written_out(tmp_path: Path) -> None:
    """A wheel is somebody else's text: it must not fill the memory."""
    found = entries_of(
        tmp_path,
        """
        def fill(parser):
            parser.add_argument("--a", choices=list(range(10**18)))
            for number in range(10**18):
                parser.add_argument(f"--{number}")
        """,
    )
    assert list(found) == ["--a"]
