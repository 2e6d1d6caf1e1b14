"""`k3fleet weights`: keep every region's bucket of weights whole, checked and not too full."""

from __future__ import annotations

import click

from cli import weights_gc, weights_look, weights_sync, weights_tokenizer


@click.group()
def weights() -> None:
    """Bring weights into every region's bucket, check them there, and make room.

    \b
    Example:
        k3fleet weights plan fleets/launch.yaml
        k3fleet weights sync fleets/launch.yaml
        k3fleet weights verify fleets/launch.yaml --deep
    """


for command in (
    weights_sync.plan,
    weights_sync.sync,
    weights_look.verify,
    weights_look.status,
    weights_gc.gc,
    weights_tokenizer.tokenizer,
):
    weights.add_command(command)
