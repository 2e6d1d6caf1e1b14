"""Release identity and engine arguments."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from fleet.engine_flags import FIELD_FLAGS
from fleet.errors import ConfigError
from fleet.load import PRESET_FOLDERS, load_release
from fleet.release import Parallelism, Release, release_id
from fleet.schema import has_digest

ROOT = Path(__file__).parents[2]
VLLM = load_release("vllm-tp8-dcp8", beside=ROOT / "fleets")
WriteFile = Callable[..., Path]


def _preset(name: str = "vllm-tp8-dcp8") -> str:
    return (PRESET_FOLDERS["release"] / f"{name}.yaml").read_text()


def test_comments_and_order_do_not_change_the_id(write_file: WriteFile) -> None:
    """A reworded comment must not restart eighteen replicas."""
    blocks = re.sub(r"(?m)^\s*#.*\n", "", _preset()).split("\n\n")
    path = write_file("\n\n\n".join(reversed(blocks)), name="r.yaml")
    assert release_id(load_release("./r.yaml", beside=path)) == release_id(VLLM)


@pytest.mark.parametrize(
    "change",
    [
        ("block_size: 128", "block_size: 64"),
        ("--stream-interval=10", "--stream-interval=9"),
        ("eth0", "eth1"),
        ("9f62e4e9", "8f62e4e9"),
        ("c2914767", "d2914767"),
        ("drain_s: 15m", "drain_s: 16m"),
    ],
)
def test_any_content_changes_the_id(write_file: WriteFile, change: tuple[str, str]) -> None:
    """Two replicas with one id must give the same answers."""
    path = write_file(_preset(), name="r.yaml", change=change)
    assert release_id(load_release("./r.yaml", beside=path)) != release_id(VLLM)


def test_the_id_is_a_dns_label_with_the_name_and_eight_digits() -> None:
    """It becomes a label value and part of object names."""
    assert re.fullmatch(r"vllm-tp8-dcp8-[0-9a-f]{8}", release_id(VLLM))


def test_an_engine_image_without_digest_is_refused(write_file: WriteFile) -> None:
    """A K3 dev tag was pushed again with other content."""
    digest = VLLM.engine.image.partition("@")[2]
    path = write_file(_preset(), name="r.yaml", change=(f"@{digest}", ""))
    with pytest.raises(ConfigError, match="has no digest"):
        load_release("./r.yaml", beside=path)


@pytest.mark.parametrize(
    "image", ["repo:tag", "repo@sha256:abc", "repo@sha256:" + "g" * 64, "@sha256", ""]
)
def test_only_a_full_digest_counts(image: str) -> None:
    """A cut digest looks pinned and is not."""
    assert not has_digest(image)


def test_decode_context_must_divide_tensor(write_file: WriteFile) -> None:
    """The context ranks are a split of the tensor ranks."""
    path = write_file(_preset(), name="r.yaml", change=("decode_context: 8", "decode_context: 3"))
    with pytest.raises(ConfigError, match="decode_context 3 does not divide tensor 8"):
        load_release("./r.yaml", beside=path)


@pytest.mark.parametrize("flag", ["--max-num-seqs=8", "--max_num_seqs=8", "--model=x"])
def test_args_may_not_repeat_a_typed_field(write_file: WriteFile, flag: str) -> None:
    """Engines take the last of two flags, the plan would use the other."""
    change = ("- --trust-remote-code", f"- {flag}")
    path = write_file(_preset(), name="r.yaml", change=change)
    with pytest.raises(ConfigError, match="repeat what typed fields decide"):
        load_release("./r.yaml", beside=path)


@pytest.mark.parametrize("kind", sorted(FIELD_FLAGS))
def test_every_flag_table_names_fields_that_exist(kind: str) -> None:
    """A renamed field would drop its flag from every command without a word."""
    known = {*Release.model_fields, *Parallelism.model_fields, "context_tokens"}
    assert set(FIELD_FLAGS[kind]) <= known
