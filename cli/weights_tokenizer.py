"""`k3fleet weights tokenizer`: give a model folder the tokenizer file that frontends need."""

from __future__ import annotations

import hashlib
from pathlib import Path

import click

from cli.output import output_option, print_facts, print_json
from infra.weights.tokenizer_file import TOKENIZER, write_tokenizer


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Replace a tokenizer.json with other content.")
@output_option
def tokenizer(folder: Path, force: bool, output: str) -> None:
    """Make DIR/tokenizer.json from the tiktoken.model there, and try it out.

    A tokenizer_config.json beside it names the control tokens; without one they are K3's.
    Whatever is there already and says the same stays untouched; other content is kept, and
    refused, unless --force is given.

    \b
    Example:
        k3fleet weights tokenizer /models/kimi-k3
    """
    made = write_tokenizer(folder, force=force)
    facts = {
        "file": str(folder / TOKENIZER),
        "written": made.written,
        "tokens": made.tokens,
        "sha256": hashlib.sha256(made.content).hexdigest(),
    }
    if output == "json":
        print_json(facts)
    else:
        print_facts((name, str(value)) for name, value in facts.items())
