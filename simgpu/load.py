"""`weir load`: the load generator, a C program, with the arguments passed through.

The command becomes the program (exec), so signals, exit code and preloaded libraries are the program's own.
What it does not do: choose a machine. Without a card, run it inside `weir run --simulate h200 -- weir load …`
or with the environment that `simgpu.machines.simulate` gives.
"""

from __future__ import annotations

import os
from pathlib import Path

import click

from weir.errors import HostError

PROGRAM = Path(__file__).parent / "bin" / "weir-load"


def program() -> Path:
    """The load generator's path. Raises HostError where it was not compiled."""
    if not os.access(PROGRAM, os.X_OK):
        raise HostError(f"{PROGRAM}: the load generator is not there; `make native` compiles it")
    return PROGRAM


@click.command(
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
    short_help="Keep a GPU busy, or full, in a known way.",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def load(arguments: tuple[str, ...]) -> None:
    """Keep a GPU busy, or full, in a known way: `weir load --help` lists how."""
    path = program()
    os.execv(path, [path.name, *arguments])  # noqa: S606  no shell is wanted, and no child either
