"""The options that say which machine and which slices a command is about: declared once, the same everywhere.

`box_options` gives a command `--simulate` (`simulate`, or WEIR_SIMULATE in the environment) and `--root`
(`root`). What they mean is in simulation.py and roots.py; nothing is opened or made here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

C = TypeVar("C", bound=Callable[..., Any])

_simulate = click.option(
    "--simulate", metavar="MACHINE", envvar="WEIR_SIMULATE", help="A simulated machine, as h200."
)
_root = click.option("--root", type=click.Path(path_type=Path), help="Where slices are kept.")


def box_options(command: C) -> C:
    """Add --simulate and --root."""
    return _simulate(_root(command))
