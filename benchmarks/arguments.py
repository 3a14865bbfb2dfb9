"""Command lines of the benchmarks: what is not allowed is refused in one line, before anything starts.

The line names the option, the value and what is allowed, as those of `weir` do; the usage, which argparse
prints before its errors, is left to --help.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NoReturn

from weir.units import Within

LONGEST = 86_400  # seconds


class Parser(argparse.ArgumentParser):
    """argparse, its refusals in one line."""

    def error(self, message: str) -> NoReturn:
        """End the process with 2."""
        self.exit(2, f"{self.prog}: {message}\n")


def number(low: float, high: float) -> Callable[[str], float]:
    """The type of an option that takes a number within bounds."""
    return lambda text: _parsed(Within(low, high), text)


def whole(low: int, high: int) -> Callable[[str], int]:
    """The type of an option that takes a whole number within bounds."""
    return lambda text: int(_parsed(Within(low, high, whole=True), text))


def pick(every: str) -> Callable[[str], tuple[str, ...]]:
    """The type of an option that takes some of these names, separated by commas."""

    def parse(text: str) -> tuple[str, ...]:
        for name in text.split(","):
            if name not in every.split(","):
                raise _refusal(name, f"of {every}")
        return tuple(text.split(","))

    return parse


def _refusal(text: str, allowed: str) -> argparse.ArgumentTypeError:
    return argparse.ArgumentTypeError(f"{text or ascii(text)}: not allowed; {allowed}")


def _parsed(within: Within, text: str) -> float:
    value = within.parse(text)
    if value is None:
        raise _refusal(text, str(within))
    return value
