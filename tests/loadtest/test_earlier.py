"""Claims about results of an earlier run in the folder of the next one."""

from __future__ import annotations

from pathlib import Path

from loadtest.play.earlier import keep_earlier, keep_other_workers


def write(path: Path, text: str = "x") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_results_are_moved_each_to_its_own_folder(tmp_path: Path) -> None:
    """Three runs are three folders."""
    for run in ("one", "two"):
        write(tmp_path / "requests.jsonl", run)
        write(tmp_path / "generator.json", run)
        keep_earlier(tmp_path)
    kept = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.glob("*/*")}
    assert kept == {
        "earlier-1/requests.jsonl": "one", "earlier-1/generator.json": "one",
        "earlier-2/requests.jsonl": "two", "earlier-2/generator.json": "two",
    }  # fmt: skip


def test_a_run_that_wrote_nothing_leaves_nothing_behind(tmp_path: Path) -> None:
    """A start that failed is no run."""
    write(tmp_path / "requests.jsonl", "")
    keep_earlier(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["requests.jsonl"]


def test_workers_of_a_larger_run_are_set_aside(tmp_path: Path) -> None:
    """They would be judged as a part of the smaller one."""
    for number in range(3):
        write(tmp_path / f"worker-{number}" / "requests.jsonl")
    keep_other_workers(tmp_path, {"worker-0", "worker-3"})
    assert sorted(
        str(path.relative_to(tmp_path)) for path in tmp_path.glob("**/requests.jsonl")
    ) == [
        "earlier-1/worker-1/requests.jsonl",
        "earlier-1/worker-2/requests.jsonl",
        "worker-0/requests.jsonl",
    ]
