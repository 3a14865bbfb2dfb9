"""The options that say which machine and which slices a command is about: declared once, the same everywhere.

`box_options` gives a command `--simulate` (`simulate`, or WEIR_SIMULATE in the environment) and `--root`
(`root`). What they mean is in simulation.py and roots.py; nothing is opened or made here. `Number` and
`Whole` are the types of every option that takes a number: click's own let NaN through, and do not always say
what is allowed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from weir.errors import UsageError
from weir.units import Within

C = TypeVar("C", bound=Callable[..., Any])


class Number(click.ParamType[float]):
    """A number within bounds; refused with UsageError."""

    def __init__(self, low: float, high: float) -> None:
        self.within = Within(low, high)
        self.name = f"{low:.15g}..{high:.15g}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = self.within.parse(str(value))
        if number is None:
            raise UsageError(param.opts[0] if param else "number", value, str(self.within))
        return number


class Whole(Number):
    """A whole number within bounds."""

    def __init__(self, low: int, high: int) -> None:
        super().__init__(low, high)
        self.within = Within(low, high, whole=True)


def _directory(context: click.Context, param: click.Parameter, value: str | None) -> Path | None:
    if value is None:
        return None
    path = Path(value)
    there = next(one for one in (path, *path.parents) if os.path.exists(one))  # noqa: PTH110  Path's may raise
    if value == "" or not os.path.isdir(there):  # noqa: PTH112
        raise UsageError(
            param.opts[0], value, "a directory" if value == "" else f"a directory; {there} is none"
        )
    return path


_simulate = click.option(
    "--simulate", metavar="MACHINE", envvar="WEIR_SIMULATE", help="A simulated machine, as h200."
)
_root = click.option("--root", metavar="PATH", callback=_directory, help="Where slices are kept.")


def box_options(command: C) -> C:
    """Add --simulate and --root."""
    return _simulate(_root(command))
