"""The report is sound for whatever a rehearsal leaves behind."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from lab.report import read_report, terminal_summary, write_report
from lab.report.keyfigures import key_figures
from lab.report.page import render
from lab.report.rackmap import rack_pictures
from lab.report.reason import verdict_reason
from loadtest.report.document import clean_text
from loadtest.report.plots_load import gap_bars
from loadtest.report.timeline import markers, outages, region_series, slice_width_s
from loadtest.report.wording import MISSING, number, percent, seconds

Sample = Callable[..., dict[str, Any]]
MAX_BYTES = 6 * 1024 * 1024
HOSTILE = (
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "' onmouseover='x' a='",
    '"><svg onload=1>',
    "{{ 7 * 7 }} %{x} $x$",
    "<a href='javascript:1'>x</a>",
)
JUNK: tuple[Any, ...] = (
    None, "", "x", HOSTILE[0], -1, 0, 1e308, float("nan"), float("inf"), True, [], {}, [[]], [1],
    {"a": 1}, [{"a": None}], "\ud800", 10**400,
)  # fmt: skip


class Page(HTMLParser):
    """What a browser would see: tags with attributes, and all text outside scripts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.inside = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.inside = tag if tag in ("script", "style") else ""

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        self.text += "" if self.inside else data


def paths(node: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of every value in a JSON document."""
    pairs: list[tuple[str | int, object]] = []
    if isinstance(node, dict):
        pairs = list(node.items())
    elif isinstance(node, list):
        pairs = list(enumerate(node))
    for key, value in pairs:
        yield (*path, key)
        yield from paths(value, (*path, key))


def put(document: dict[str, Any], path: tuple[str | int, ...], value: object) -> None:
    """Replace the value at `path`, unless an earlier replacement took its parent away."""
    node: Any = document
    try:
        for key in path[:-1]:
            node = node[key]
        node[path[-1]] = value
    except (KeyError, IndexError, TypeError):
        return


def replace_texts(node: Any, text: str) -> Any:
    """Return the document with every string replaced, verdicts and states apart."""
    if isinstance(node, dict):
        return {key: replace_texts(value, text) for key, value in node.items()}
    if isinstance(node, list):
        return [replace_texts(value, text) for value in node]
    keep = ("go", "no-go", "lost", "recovered", "leader", "worker", "pass", "fail", ">=", "<=")
    return text if isinstance(node, str) and node not in keep else node


def printed(report: dict[str, Any]) -> str:
    """Return what the terminal summary prints, colours included."""
    out = io.StringIO()
    Console(file=out, width=120, force_terminal=True).print(terminal_summary(report))
    return out.getvalue()


def test_the_page_is_one_file_of_at_most_six_mebibytes(sample: Sample, tmp_path: Path) -> None:
    """It is mailed and attached to tickets."""
    path = write_report(sample(), tmp_path / "new" / "folder")
    assert (path.name, path.stat().st_size < MAX_BYTES) == ("report.html", True)


def test_the_same_report_gives_the_same_bytes(sample: Sample) -> None:
    """A diff of two reports shows what changed in the fleet, not in the renderer."""
    assert render(read_report(sample())) == render(read_report(sample()))


def test_the_page_refers_to_nothing_outside_itself(sample: Sample) -> None:
    """It opens on a machine without a network; anchors in the page are the only links."""
    tags = Page(render(read_report(sample()))).tags
    links = [value for _, attrs in tags for key, value in attrs.items() if key in ("src", "href")]
    assert [link for link in links if not str(link).startswith("#")] == []


def test_the_policy_allows_two_scripts_by_hash_and_no_network(sample: Sample) -> None:
    """Even a forgotten escape must not run or phone home."""
    tags = Page(render(read_report(sample()))).tags
    policy = next(attrs["content"] or "" for tag, attrs in tags if "http-equiv" in attrs)
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert [word[:8] for word in rules["script-src"].split(" ")] == ["'sha256-", "'sha256-"]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_name_adds_no_element(sample: Sample, text: str) -> None:
    """Worker names and error details come from machines that we do not trust."""
    plain = Page(render(read_report(replace_texts(sample(verdict="no-go"), "name"))))
    hostile = Page(render(read_report(replace_texts(sample(verdict="no-go"), text))))
    assert [tag for tag, _ in hostile.tags] == [tag for tag, _ in plain.tags]
    assert {key for _, attrs in hostile.tags for key in attrs} == {
        key for _, attrs in plain.tags for key in attrs
    }


def test_a_hostile_name_cannot_leave_the_embedded_numbers(sample: Sample) -> None:
    """JSON in a script element ends at the first `</script>`, whatever JSON thinks."""
    html = render(read_report(replace_texts(sample(), HOSTILE[0])))
    embedded = re.search(r'id="figures">(.*?)</script>', html, re.DOTALL)
    assert embedded is not None
    assert json.loads(embedded[1])[0]["id"] == "hit-0"


def test_plot_labels_carry_no_markup(sample: Sample) -> None:
    """Plotly reads tags in labels; a name must be shown, not obeyed."""
    html = render(read_report(replace_texts(sample(), "<b>x</b>")))
    embedded = re.search(r'id="figures">(.*?)</script>', html, re.DOTALL)
    assert embedded is not None
    figures = {figure["id"]: figure for figure in json.loads(embedded[1])}
    assert figures["replicas"]["data"][0]["y"][0] == "&lt;b&gt;x&lt;/b&gt;"


def test_a_name_cannot_steer_the_terminal(sample: Sample) -> None:
    """An escape sequence in an error could rewrite the verdict above it."""
    shown = printed(replace_texts(sample(), "\x1b[2J[red]x[/red]\x9b1A"))
    assert ("\x1b[2J" in shown, "\x9b" in shown, "[red]x[/red]" in shown) == (False, False, True)


@pytest.mark.parametrize("text", ["a\u202eb", "a\x00b", "a\ud800b", "a\u2066b"])
def test_text_keeps_only_printable_characters(text: str) -> None:
    """Bidi controls reorder what a reader sees; a surrogate cannot be written as UTF-8."""
    assert clean_text(text) in ("a\ufffdb", "a?b")


def test_an_empty_report_says_what_is_missing() -> None:
    """The first step can fail; the page then says so."""
    text = Page(render(read_report({}))).text
    assert "No request was sent or finished" in text


def test_a_run_stopped_in_a_step_names_the_step(sample: Sample) -> None:
    """Nothing else on the page matters then."""
    stopped = sample() | {
        "verdict": None, "load": None, "gates": [],
        "steps": [{"name": "provision", "seconds": 3, "status": "failed", "detail": "no disk"}],
    }  # fmt: skip
    assert verdict_reason(read_report(stopped)) == (
        "The rehearsal stopped in step “provision”: no disk"
    )


def test_a_no_go_names_every_failed_gate(sample: Sample) -> None:
    """The reader should not have to look for them."""
    reason = verdict_reason(read_report(sample(verdict="no-go")))
    assert reason.startswith("2 of 8 gates failed: Achieved ÷ attainable cache hit is 0.9")


def test_an_invalid_run_names_the_gates_that_could_not_be_measured(sample: Sample) -> None:
    """A gate without a value cannot be passed; the reader must learn which."""
    report = sample() | {"verdict": "invalid"}
    report["gates"][2] |= {"status": "skip", "value": None}
    assert verdict_reason(read_report(report)).endswith(
        "could not be measured: Achieved ÷ attainable cache hit."
    )


def test_a_section_of_the_wrong_shape_is_named_and_left_out(sample: Sample) -> None:
    """A broken section must not hide the sound ones."""
    report = read_report(sample() | {"steps": 7})
    assert (report.unreadable, report.fleet) == (("steps",), "launch-demo")


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_damage_to_a_report_is_an_exception(sample: Sample, data: st.DataObject) -> None:
    """A page that fails to render hides the run that it should explain."""
    report = sample(verdict=data.draw(st.sampled_from(["go", "no-go"])), healthy_nodes=17)
    everywhere = st.sampled_from(sorted(paths(report), key=str))
    for path in data.draw(st.lists(everywhere, min_size=1, max_size=6)):
        put(report, path, data.draw(st.sampled_from(JUNK)))
    render(read_report(report)).encode("utf-8")
    printed(report)


def test_a_missing_number_is_a_dash_and_not_a_zero() -> None:
    """A zero would be a claim."""
    assert (number(None), percent(None), seconds(None)) == ("—", "—", "—")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.01234, "0.0123"), (9.1, "9.10"), (31.46, "31.5"), (33942.7, "33,943")],
)
def test_numbers_have_three_significant_digits(value: float, text: str) -> None:
    """More digits claim a precision that one run does not have."""
    assert number(value) == text


def test_a_small_share_does_not_round_onto_its_limit() -> None:
    """0.51 % of errors fails a limit of 0.5 %, and must not be shown as 0.5 %."""
    assert percent(0.00514) == "0.51 %"


def test_every_tray_of_a_rack_is_drawn(sample: Sample) -> None:
    """18 nodes, whatever sits on them."""
    rack = rack_pictures(read_report(sample(healthy_nodes=17)))[0]
    styles = [tray.style for tray in rack.trays]
    assert (len(styles), styles.count("unhealthy"), styles.count("idle")) == (18, 1, 1)


def test_nine_replicas_of_a_rack_have_nine_colours(sample: Sample) -> None:
    """Two replicas of one colour would look like one replica on four trays."""
    rack = rack_pictures(read_report(sample()))[0]
    assert sorted({tray.colour for tray in rack.trays}) == [f"c{index}" for index in range(9)]


def test_both_trays_of_a_lost_replica_are_marked(sample: Sample) -> None:
    """A replica is two nodes; losing one process loses both."""
    rack = rack_pictures(read_report(sample(verdict="no-go")))[0]
    assert [tray.mark for tray in rack.trays if tray.lost] == ["4", "4"]


def test_rates_are_counts_over_the_width_of_a_slice(sample: Sample) -> None:
    """The timeline holds counts, the axes say per second."""
    report = read_report(sample())
    first = report.load.timeline[0]
    assert slice_width_s(report.load.timeline) == 5.0
    assert region_series(report)[0].requests_per_s[0] == (first.requests or 0) / 5.0


def test_a_slice_that_the_end_cuts_off_is_not_drawn(sample: Sample) -> None:
    """Its few requests over its whole width would look like an outage."""
    whole = region_series(read_report(sample()))[0]
    data = sample()
    data["load"]["window_s"] -= 1
    assert region_series(read_report(data))[0].t_s == whole.t_s[:-1]


def test_a_slice_without_requests_is_zero_throughput_and_no_hit() -> None:
    """Nothing sent is a zero; nothing measured is not."""
    timeline = [{"t_s": at, "region": "a", "requests": 5, "prompt_tokens": 10} for at in (0, 5, 15)]
    series = region_series(read_report({"load": {"timeline": timeline}}))[0]
    assert (series.requests_per_s[2], series.achieved[2]) == (0.0, None)


def test_an_outage_runs_from_the_loss_to_the_recovery(sample: Sample) -> None:
    """The tinted band on the plots is this interval."""
    (outage,) = outages(read_report(sample(verdict="no-go")))
    assert (outage.replica, outage.from_s, outage.to_s) == ("use1-r01-4", 24.2, 38.9)


def test_a_replica_that_never_comes_back_has_an_open_outage() -> None:
    """Its band runs to the end of the plot."""
    events = [{"t_s": 3, "region": "a", "replica": "r", "what": "lost"}]
    assert outages(read_report({"events": events}))[0].to_s is None


def test_events_at_one_moment_share_one_mark() -> None:
    """A lost rack is nine losses; nine labels on one pixel say nothing."""
    events = [{"t_s": 3, "region": "a", "replica": f"r{n}", "what": "lost"} for n in range(9)]
    (mark,) = markers(read_report({"load": {"window_s": 60}, "events": events}))
    assert mark.label == "1-9"


def test_the_last_bucket_of_a_histogram_may_be_open() -> None:
    """`count` can hold one more number than `le_ms`: what was above the last bound."""
    gap = {"histogram": {"le_ms": [1, 2], "count": [0, 4, 1]}}
    bars = gap_bars(read_report({"load": {"gap_ms": gap}}).load.gap_ms.histogram)
    assert bars == (("≤ 2", 2.0, 4.0), ("> 2", None, 1.0))


def test_a_key_figure_turns_bad_with_its_gate(sample: Sample) -> None:
    """The eye should land on what failed."""
    cards = key_figures(read_report(sample(verdict="no-go")))
    assert [card.status for card in cards[:2]] == ["fail", "fail"]


def test_a_worker_of_no_replica_is_not_counted_as_one_that_served(sample: Sample) -> None:
    """19 of 18 replicas would make the reader doubt all other figures."""
    report = sample()
    report["load"]["replicas"].append({"name": "worker 7", "region": "us-east", "requests": 3})
    values = {card.name: card.value for card in key_figures(read_report(report))}
    assert values["replicas that served"] == "18 of 18"


def test_a_machine_at_its_limit_is_said_before_any_figure(sample: Sample) -> None:
    """Figures of an overloaded machine describe the machine."""
    report = sample()
    report["load"]["generator"]["limited_by_machine"] = True
    text = Page(render(read_report(report))).text
    assert text.index("Limited by this machine") < text.index("achieved ÷ attainable cache hit")


def test_what_a_reader_has_to_know_first_comes_first(sample: Sample) -> None:
    """Servers that count other hits than the answers say make every figure of hits doubtful."""
    report = {**sample(), "notes": ["us: servers counted 4 points less"]}
    page, shown = Page(render(read_report(report))).text, printed(report)
    assert page.index("servers counted 4 points less") < page.index("achieved ÷ attainable")
    assert shown.index("servers counted 4 points less") < shown.index("Failed requests")


def test_the_terminal_shows_verdict_gates_regions_and_slow_steps(sample: Sample) -> None:
    """The four things that decide what the reader does next."""
    shown = printed(sample(verdict="no-go"))
    places = [
        shown.index(word) for word in ("NO-GO", "Failed requests", "eu-west", "slowest: traffic")
    ]
    assert places == sorted(places)


def test_unknown_shares_are_missing_and_not_zero(sample: Sample) -> None:
    """An engine that does not say who answered has not stood idle."""
    report = sample()
    for replica in report["load"]["replicas"]:
        replica |= {"requests": None, "share": None, "hit": None}
    values = {card.name: card.value for card in key_figures(read_report(report))}
    assert values["replicas that served"] == MISSING
    html = render(read_report(report))
    assert "No answer says which replica gave it" in html
    assert "served no request" not in html
