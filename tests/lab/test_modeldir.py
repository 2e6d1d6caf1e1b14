"""The model folder: K3's control tokens where K3 has them, and a router that accepts it."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests
import stamina
import yaml
from tokenizers import Tokenizer

from fleet.errors import ConfigError
from fleet.k3_tokens import CONTROL_TOKENS, added_tokens
from fleet.model import Model
from fleet.tokenizer_file import convert, read_ranks
from lab import modeldir
from lab.modeldir import make_model_dir
from lab.tokenizer_json import train

ROOT = Path(__file__).parents[2]
MODEL = Model.model_validate(yaml.safe_load((ROOT / "fleet/models/kimi-k3.yaml").read_text()))

KIMI = ROOT.parent / "shared/data/kimi-tokenizer"
needs_kimi = pytest.mark.skipif(not KIMI.is_dir(), reason=f"K3's tokenizer is not in {KIMI}")

TEXTS = ("def pack(racks):\n    return racks // 2\n", "世界, hello 123456", " \n\t '\N{FIRE}'\n\n")


@dataclass
class Notes:
    """A progress that keeps what it is told."""

    steps: list[str] = field(default_factory=list)

    def step(self, name: str) -> None:
        self.steps.append(name)

    def update(self, text: str) -> None: ...


def make(
    dest: Path, cache: Path, *, tokenizer_dir: Path | None = None, notes: Notes | None = None
) -> Path:
    return make_model_dir(
        dest,
        model=MODEL,
        tokenizer_dir=tokenizer_dir,
        cache_dir=cache,
        progress=notes or Notes(),
    )


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def first_notes() -> Notes:
    return Notes()


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, cache: Path, first_notes: Notes) -> Path:
    return make(tmp_path_factory.mktemp("small"), cache, notes=first_notes)


@pytest.fixture(scope="module")
def kimi(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    return make(tmp_path_factory.mktemp("kimi"), cache, tokenizer_dir=KIMI)


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_the_small_tokenizer_has_32_k_tokens(small: Path) -> None:
    """The folder must not grow with the library: 1 MB loads in a tenth of K3's time."""
    assert len(read(small, "tokenizer.json")["model"]["vocab"]) == modeldir.SMALL_VOCABULARY


def test_control_tokens_are_one_token_each(small: Path) -> None:
    """The renderer writes them as ids; a parser looks for them as text."""
    tokenizer = Tokenizer.from_file(str(small / "tokenizer.json"))
    ids = [tokenizer.encode(token.text).ids for token in CONTROL_TOKENS]
    assert ids == [[modeldir.SMALL_VOCABULARY + token.offset] for token in CONTROL_TOKENS]


def test_tags_survive_decoding(small: Path) -> None:
    """Dynamo's parsers of reasoning and tool calls read these three from the text."""
    tokenizer = Tokenizer.from_file(str(small / "tokenizer.json"))
    text = "[BOS]<|open|>think<|sep|><|close|><|end_of_msg|>"
    assert tokenizer.decode(tokenizer.encode(text).ids) == "<|open|>think<|sep|><|close|>"


@pytest.mark.parametrize("text", TEXTS)
def test_any_text_survives_the_small_tokenizer(small: Path, text: str) -> None:
    """Byte level: what was never seen in training is spelled out in bytes."""
    tokenizer = Tokenizer.from_file(str(small / "tokenizer.json"))
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_the_configuration_stops_at_the_end_of_a_message(small: Path) -> None:
    """K3 stops at <|end_of_msg|>, slot 2, and not at [EOS], slot 1."""
    base = modeldir.SMALL_VOCABULARY
    generation = read(small, "generation_config.json")["eos_token_id"]
    assert (read(small, "config.json")["eos_token_id"], generation) == (base + 2, [base + 2])


def test_the_vocabulary_size_counts_all_slots(small: Path) -> None:
    """Reserved slots count too, or the last ids would be out of range."""
    config = read(small, "config.json")
    assert config["text_config"]["vocab_size"] == modeldir.SMALL_VOCABULARY + 256


def test_the_same_folder_is_made_twice(small: Path, cache: Path, tmp_path: Path) -> None:
    """A run must not differ from the next one by its tokenizer."""
    assert contents(make(tmp_path, cache)) == contents(small)


def test_training_gives_the_same_tokenizer_twice() -> None:
    """Two machines with the same library must count the same tokens."""
    texts = [file.read_text() for file in sorted((ROOT / "lab").glob("*.py"))]
    assert train(texts, vocabulary=1000) == train(texts, vocabulary=1000)


@pytest.mark.usefixtures("small")
def test_the_small_tokenizer_is_trained_once(cache: Path, tmp_path: Path) -> None:
    """Seconds that every rehearsal would pay."""
    notes = Notes()
    make(tmp_path, cache, notes=notes)
    assert notes.steps == []


@pytest.mark.usefixtures("small")
def test_training_is_announced(first_notes: Notes) -> None:
    """Several silent seconds look like a hang."""
    assert [step.split()[:2] for step in first_notes.steps] == [["tokenizer:", "training"]]


def tiny(**changes: Any) -> dict[str, Any]:
    """Make a tokenizer of the 256 bytes and K3's control tokens."""
    tokenizer = convert({bytes([byte]): byte for byte in range(256)})
    return tokenizer | changes


def tokenizer_folder(folder: Path, tokenizer: dict[str, Any]) -> Path:
    folder.mkdir()
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    return folder


def test_a_ready_tokenizer_is_taken_as_it_is(tmp_path: Path) -> None:
    """Who has converted K3's tokenizer with other tools keeps his file."""
    mine = tokenizer_folder(tmp_path / "mine", tiny())
    made = make(tmp_path / "model", tmp_path / "cache", tokenizer_dir=mine)
    assert read(made, "tokenizer.json") == tiny()


def test_a_control_token_at_another_id_is_refused(tmp_path: Path) -> None:
    """K2's file has the same vocabulary and other names at these ids."""
    slots = added_tokens(256)
    slots[2]["content"], slots[3]["content"] = slots[3]["content"], slots[2]["content"]
    mine = tokenizer_folder(tmp_path / "mine", tiny(added_tokens=slots))
    with pytest.raises(ConfigError, match=r"mine/tokenizer\.json: added_tokens: <\|end_of_msg\|>"):
        make(tmp_path / "model", tmp_path / "cache", tokenizer_dir=mine)


def test_a_tag_marked_special_is_refused(tmp_path: Path) -> None:
    """It would vanish from decoded text, and with it every tool call."""
    slots = added_tokens(256)
    slots[3]["special"] = True
    mine = tokenizer_folder(tmp_path / "mine", tiny(added_tokens=slots))
    with pytest.raises(ConfigError, match=r"<\|open\|> has id 259 and special True"):
        make(tmp_path / "model", tmp_path / "cache", tokenizer_dir=mine)


@pytest.mark.parametrize("text", ["{", "[]", '{"added_tokens": [{}]}', '{"added_tokens": []}'])
def test_another_json_file_is_refused(tmp_path: Path, text: str) -> None:
    """A damaged or foreign file is the user's to mend, and no traceback."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "tokenizer.json").write_text(text)
    with pytest.raises(ConfigError, match="not a K3 tokenizer"):
        make(tmp_path / "model", tmp_path / "cache", tokenizer_dir=mine)


def test_a_folder_without_tokenizer_is_refused(tmp_path: Path) -> None:
    """Training a small one instead would give counts that nobody asked for."""
    with pytest.raises(ConfigError, match=r"neither tokenizer\.json nor tiktoken\.model"):
        make(tmp_path / "model", tmp_path / "cache", tokenizer_dir=tmp_path)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"version https://git-lfs", "model:1: is not a base64 token and a rank"),
        (b"IQ== 0\nIg== 2\n", "none of rank 1"),
        (b"", "no token for 256 of the 256 bytes"),
    ],
)
def test_a_damaged_tiktoken_file_is_refused(tmp_path: Path, content: bytes, what: str) -> None:
    """A Git LFS pointer is what one gets by a careless clone."""
    (tmp_path / "tiktoken.model").write_bytes(content)
    with pytest.raises(ConfigError, match=what):
        make(tmp_path / "model", tmp_path / "cache", tokenizer_dir=tmp_path)


def test_a_model_file_at_odds_with_the_tokens_is_refused(tmp_path: Path) -> None:
    """The plan, the engine and the tokenizer must mean the same ids."""
    model = MODEL.model_copy(update={"special_ids": {**MODEL.special_ids, "open": 1}})
    mine = tokenizer_folder(tmp_path / "mine", tiny())
    with pytest.raises(ConfigError, match=r"special_ids\.open: 1"):
        make_model_dir(
            tmp_path / "model",
            model=model,
            tokenizer_dir=mine,
            cache_dir=tmp_path / "cache",
            progress=Notes(),
        )


def test_merges_follow_the_lowest_rank_first() -> None:
    """tiktoken joins the pair with the lowest rank, wherever it stands."""
    ranks = {bytes([byte]): byte for byte in range(256)}
    ranks |= {b"bc": 256, b"ab": 257, b"abc": 258}
    tokenizer = Tokenizer.from_str(json.dumps(convert(ranks) | {"added_tokens": []}))
    assert tokenizer.encode("abcd").tokens == ["abc", "d"]
    assert tokenizer.encode("xbcx").tokens == ["x", "bc", "x"]


def test_ranks_are_read_as_written() -> None:
    """A line is the base64 of a token and its rank."""
    ranks = {bytes([byte]): 255 - byte for byte in range(256)}
    lines = [f"{base64.b64encode(token).decode()} {rank}" for token, rank in ranks.items()]
    assert read_ranks("\n".join(lines).encode()) == ranks


@needs_kimi
def test_k3s_own_tokenizer_is_reproduced_to_the_byte(kimi: Path) -> None:
    """The sum noted beside the source file, made by another program from the same table."""
    digest = hashlib.sha256((kimi / "tokenizer.json").read_bytes()).hexdigest()
    assert digest in (KIMI / "README.md").read_text()


@needs_kimi
def test_k3s_own_tokenizer_configuration_is_reproduced(kimi: Path) -> None:
    """Names, ids and flags of all 16 control tokens."""
    assert read(kimi, "tokenizer_config.json") == read(KIMI, "tokenizer_config.json")


@needs_kimi
def test_k3s_ids_are_those_of_the_model_file(kimi: Path) -> None:
    """With the real vocabulary the base is the model's."""
    config = read(kimi, "config.json")
    ids = MODEL.special_ids
    assert (config["bos_token_id"], config["eos_token_id"]) == (ids["bos"], ids["end_of_msg"])


@contextlib.contextmanager
def process(folder: Path, module: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a Dynamo process on loopback with file discovery; end its whole group."""
    loopback = ("DYN_TCP_RPC_HOST", "DYN_TCP_RESPONSE_STREAM_HOST", "DYN_EVENT_PLANE_HOST")
    environ = {
        **os.environ,
        **dict.fromkeys((*loopback, "DYN_SYSTEM_HOST"), "127.0.0.1"),
        "DYN_FILE_KV": str(folder / "discovery"),
        "DYN_DISCOVERY_BACKEND": "file",
        "DYN_REQUEST_PLANE": "tcp",
        "DYN_EVENT_PLANE": "zmq",
        "DYN_LOG": "warn",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HOME": str(folder),
    }
    with (folder / f"{module}.log").open("wb") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            env=environ,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def chat(url: str, text: str) -> dict[str, Any]:
    """Send one chat, trying again until the model is served."""
    body = {"model": "k3", "messages": [{"role": "user", "content": text}], "max_tokens": 4}
    for attempt in stamina.retry_context(
        on=requests.RequestException, attempts=None, timeout=60, wait_initial=0.2, wait_max=0.5
    ):
        with attempt:
            answer = requests.post(f"{url}/v1/chat/completions", json=body, timeout=30)
            answer.raise_for_status()
    result: dict[str, Any] = answer.json()
    return result


def serve_and_chat(model_dir: Path, folder: Path, port: int) -> dict[str, Any]:
    (folder / "discovery").mkdir()
    frontend = ("--http-host", "127.0.0.1", "--http-port", str(port), "--router-mode", "kv")
    backend = ("--tokenizer", "fastokens", "--no-tokenizer-fallback")
    model = ("--model-path", str(model_dir), "--model-name", "k3", "--speedup-ratio", "1000")
    with (
        process(folder, "dynamo.frontend", *frontend, *backend),
        process(folder, "dynamo.mocker", *model, "--block-size", "128"),
    ):
        return chat(f"http://127.0.0.1:{port}", "hi")


@pytest.mark.lab
def test_dynamo_serves_k3_with_the_small_tokenizer(small: Path, tmp_path: Path) -> None:
    """A machine without K3's files can rehearse."""
    assert serve_and_chat(small, tmp_path, 21_011)["usage"]["completion_tokens"] == 4


@pytest.mark.lab
@needs_kimi
def test_dynamo_counts_k3s_tokens_with_the_real_tokenizer(kimi: Path, tmp_path: Path) -> None:
    """89: what Moonshot's own renderer counts for "hi" at the highest thinking effort."""
    assert serve_and_chat(kimi, tmp_path, 21_012)["usage"]["prompt_tokens"] == 89
