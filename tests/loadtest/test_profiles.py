"""Claims about reading traffic profiles."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from fleet.errors import ConfigError
from fleet.extends import MAX_BASES
from loadtest.traffic.profile_schema import LogNormal
from loadtest.traffic.profiles import known_profiles, load_profile, require_fit
from loadtest.traffic.scale import Scale

CASES = sorted((Path(__file__).parents[1] / "cases/profile_errors").glob("*.yaml"))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_a_bad_profile_shows_exactly_its_problems(case: Path) -> None:
    """Each case says in its first line why it is one; none missing, none invented."""
    content = yaml.safe_load(case.read_text())
    Path("mine.yaml").write_text(content["input"])
    with pytest.raises(ConfigError) as caught:
        load_profile("mine.yaml")
    assert [str(problem) for problem in caught.value.problems] == content["problems"]


@pytest.mark.parametrize("name", known_profiles())
def test_every_packaged_profile_loads_and_says_what_it_is(name: str) -> None:
    """A typing error in a data file must not wait for a user."""
    profile = load_profile(name)
    assert profile.name == name
    assert profile.about


def test_an_unknown_profile_names_the_nearest_one() -> None:
    """The message must say what can be written instead."""
    with pytest.raises(ConfigError, match="Did you mean 'interactive_agent'"):
        load_profile("interactive_agents")


@pytest.mark.parametrize("named", ["mine.yaml", "./mine.yaml", "profile:mine.yaml", "profile:mine"])
def test_a_file_is_named_by_its_path(named: str) -> None:
    """With the prefix any file name will do, as with recordings."""
    path = Path(named.removeprefix("profile:"))
    path.write_text("extends: chat_assist\nname: mine\ncancel_share: 0.5\n")
    assert load_profile(named).cancel_share == 0.5


def test_a_profile_states_only_what_differs() -> None:
    """One number of a distribution too; all the rest is the base's."""
    Path("mine.yaml").write_text("extends: interactive_agent\nhuman_gap_s: {median: 10}\n")
    base, mine = load_profile("interactive_agent"), load_profile("mine.yaml")
    assert mine.human_gap_s == LogNormal(median=10, sigma=2.08, max=50_400)
    assert mine.model_copy(update={"human_gap_s": base.human_gap_s}) == base


def test_a_null_takes_a_part_of_the_base_away() -> None:
    """How a profile says that it has no sub-agents."""
    Path("mine.yaml").write_text("extends: interactive_agent\nsubagents:\n")
    assert load_profile("mine.yaml").subagents is None


def test_a_circle_over_two_files_is_cut() -> None:
    """It would be read for ever."""
    Path("a.yaml").write_text("extends: ./b.yaml\nname: a\n")
    Path("b.yaml").write_text("extends: ./a.yaml\nname: b\n")
    with pytest.raises(ConfigError, match=r"leads back to itself: a.yaml -> b.yaml -> a.yaml"):
        load_profile("a.yaml")


def test_a_tower_of_bases_is_refused() -> None:
    """Nobody finds a number in it."""
    for number in range(MAX_BASES + 2):
        Path(f"{number}.yaml").write_text(f"extends: ./{number + 1}.yaml\n")
    with pytest.raises(ConfigError, match="lie under each other"):
        load_profile("0.yaml")


def test_a_wrong_value_of_the_base_is_shown_in_the_base() -> None:
    """The line in the other file would send its reader to a line that is right."""
    Path("base.yaml").write_text("extends: interactive_agent\nname: base\ncancel_share: 2\n")
    Path("mine.yaml").write_text("extends: ./base.yaml\nname: mine\n")
    with pytest.raises(ConfigError, match=r"^base.yaml:3: cancel_share: 2 is out of range"):
        load_profile("mine.yaml")


def test_more_calls_in_one_answer_than_can_be_told_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the server writes around a ninth call is not learned before the load."""
    monkeypatch.chdir(tmp_path)
    shares = [0.2] * 2 + [0.1] * 6
    head = "extends: interactive_agent\nname: mine\nparallel_tool_calls: "
    Path("mine.yaml").write_text(f"{head}{shares}\n")
    assert len(load_profile("mine.yaml").parallel_tool_calls) == 8
    Path("mine.yaml").write_text(f"{head}{[0.0, *shares]}\n")
    with pytest.raises(ConfigError, match=r"mine.yaml:3: parallel_tool_calls: 9 .*Give 8 at most"):
        load_profile("mine.yaml")


@pytest.mark.parametrize("named", ["nofile.yaml", ".", "profile:", "a" * 2000 + ".yaml"])
def test_what_is_no_file_is_refused(named: str) -> None:
    """Without a traceback, and without the text of 2,000 characters."""
    with pytest.raises(ConfigError) as caught:
        load_profile(named)
    assert len(str(caught.value)) < 400


def test_a_context_that_holds_no_session_is_said_before_the_test() -> None:
    """Else each user would look for a session that fits, for ever."""
    profile = load_profile("needle_1m")
    with pytest.raises(ConfigError, match="needle_1m: even the shortest sessions start with 81306"):
        require_fit(profile, Scale(tokens=1, time=1), 65_536)
    require_fit(profile, Scale(tokens=16, time=1), 65_536)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
@pytest.mark.parametrize("key", ["median", "sigma", "max"])
def test_a_distribution_is_made_of_numbers(key: str, value: float) -> None:
    """Not every caller reads YAML, which has no word for these here."""
    with pytest.raises(ValueError, match=key):
        LogNormal.model_validate({"median": 1.0, "sigma": 1.0, "max": 2.0, key: value})
