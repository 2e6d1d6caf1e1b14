"""Claims about the tokenizer file in a model folder: made once, kept, tried, and counted with."""

from __future__ import annotations

import base64
import json
import stat
from pathlib import Path

import httpx2
import pytest
import tiktoken
from click.testing import CliRunner
from dynamo_rig import dynamo, model_dir

from cli.weights_tokenizer import tokenizer
from fleet.errors import ConfigError, FleetError
from fleet.k3_tokens import SPLIT_PATTERN
from fleet.tokenizer_file import read_ranks
from infra.weights.tokenizer_file import write_tokenizer

KIMI = Path(__file__).parents[4] / "shared/data/kimi-tokenizer"
needs_kimi = pytest.mark.skipif(not KIMI.is_dir(), reason=f"K3's tokenizer is not in {KIMI}")
# The prompt around one user message, as Dynamo renders K3 (thinking effort max): measured against
# the model's own encoder, `hi` is 89 tokens.
AROUND = 88


@pytest.fixture
def small(tmp_path: Path) -> Path:
    lines = [b"%s %d" % (base64.b64encode(bytes([byte])), byte) for byte in range(256)]
    (tmp_path / "tiktoken.model").write_bytes(b"\n".join(lines))
    return tmp_path


def test_a_second_run_writes_nothing(small: Path) -> None:
    """The stage runs at every start; a rewritten file would be another revision to everyone."""
    assert write_tokenizer(small, force=False).written
    before = (small / "tokenizer.json").stat()
    assert not write_tokenizer(small, force=False).written
    after = (small / "tokenizer.json").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_everybody_may_read_the_file(small: Path) -> None:
    """Engines run as another user than the stage."""
    write_tokenizer(small, force=False)
    assert stat.S_IMODE((small / "tokenizer.json").stat().st_mode) == 0o644


def test_another_file_is_kept_unless_forced(small: Path) -> None:
    """It may be somebody's own conversion."""
    (small / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"with other content than tiktoken\.model gives"):
        write_tokenizer(small, force=False)
    assert (small / "tokenizer.json").read_text() == "{}"
    assert write_tokenizer(small, force=True).written


def test_a_failed_write_leaves_nothing(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a tokenizer beside the weights is what the frontend would load."""

    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(FleetError, match="No space left"):
        write_tokenizer(small, force=False)
    assert [file.name for file in small.iterdir()] == ["tiktoken.model"]


def test_a_folder_without_vocabulary_is_named(tmp_path: Path) -> None:
    """The folder above the snapshot is the usual slip."""
    with pytest.raises(ConfigError, match=r"tiktoken\.model: No such file"):
        write_tokenizer(tmp_path, force=False)


def test_the_command_tells_the_hash(small: Path) -> None:
    """It is compared with that of other regions."""
    done = CliRunner().invoke(tokenizer, [str(small), "-o", "json"])
    told = json.loads(done.stdout)
    assert (done.exit_code, told["written"], told["tokens"]) == (0, True, 512)
    assert len(told["sha256"]) == 64


@needs_kimi
@pytest.mark.lab
def test_dynamos_frontend_counts_with_it_exactly(tmp_path: Path) -> None:
    """What the load test predicts, the frontend must bill: equal, not nearly."""
    folder = model_dir(tmp_path)
    (folder / "tokenizer.json").unlink()
    for name in ("tiktoken.model", "tokenizer_config.json"):
        (folder / name).write_bytes((KIMI / name).read_bytes())
    _with_real_ids(folder)
    write_tokenizer(folder, force=False)
    ranks = read_ranks((KIMI / "tiktoken.model").read_bytes())
    oracle = tiktoken.Encoding(
        "k3", pat_str=SPLIT_PATTERN, mergeable_ranks=ranks, special_tokens={}
    )
    texts = ("hi", "世界 你好\n\n", "def f(x):\n    return x\n" * 50, "<|open|>", "a" * 999)
    with dynamo(tmp_path, folder) as url:
        counted = [_prompt_tokens(url, text) for text in texts]
    assert counted == [AROUND + len(oracle.encode(text, disallowed_special=())) for text in texts]


def _with_real_ids(folder: Path) -> None:
    """Point the folder's configuration at the real vocabulary's ids."""
    for name in ("config.json", "generation_config.json"):
        data = json.loads((folder / name).read_text())
        ids = {"bos_token_id": 163584, "eos_token_id": 163586, "pad_token_id": 163839}
        if name == "config.json":
            data |= {**ids, "media_placeholder_token_id": 163605}
            data["text_config"]["vocab_size"] = 163840
        else:
            data |= {**ids, "eos_token_id": [ids["eos_token_id"]]}
        (folder / name).write_text(json.dumps(data))


def _prompt_tokens(url: str, text: str) -> int:
    question = {
        "model": "kimi-k3",
        "messages": [{"role": "user", "content": text}],
        "max_tokens": 2,
    }
    answer = httpx2.post(f"{url}/v1/chat/completions", json=question, timeout=60.0)
    assert answer.status_code == 200, answer.text
    return int(answer.json()["usage"]["prompt_tokens"])
