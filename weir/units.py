"""Bytes, shares and times as people write them, and back. Pure functions; every refusal names the field.

Memory: a whole or decimal number with one of B, KiB, MiB, GiB, TiB (powers of 1024), KB, MB, GB, TB (powers
of 1000), or the short K, M, G, T that Kubernetes writes as Ki, Mi, Gi, Ti; a bare number is bytes; `25%` is
a part of the card's usable bytes. Shares: whole percents from 1 to 100, kept as basis points (1 % = 100).
Other numbers: `Within` their bounds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from weir.errors import UsageError

KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40

_SCALE = {
    "": 1,
    "B": 1,
    **{f"{letter}i{b}": 1 << (10 * power) for power, letter in enumerate("KMGT", 1) for b in ("", "B")},
    **{f"{letter}{b}": 1000**power for power, letter in enumerate("KMGT", 1) for b in ("", "B")},
}
_AMOUNT = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([A-Za-z]*|%)")
_ALLOWED_MEMORY = "give bytes as 4GiB, 500MiB or 4GB, or a part of the card as 25%"


def parse_memory(name: str, text: str, capacity: int) -> int:
    """Bytes for `text`, where a percentage is of `capacity` bytes; more than 0 and at most `capacity`."""
    match = _AMOUNT.fullmatch(text.strip())
    if not match:
        raise UsageError(name, text, _ALLOWED_MEMORY)
    amount, unit = float(match[1]), match[2]
    if unit == "%":
        if amount > 100:
            raise UsageError(name, text, "a percentage goes up to 100%")
        size = int(capacity * amount / 100)
    elif unit in _SCALE:
        size = int(amount * _SCALE[unit])
    else:
        raise UsageError(name, text, _ALLOWED_MEMORY)
    if not 0 < size <= capacity:
        raise UsageError(name, text, f"more than 0 and at most the card's {format_bytes(capacity)}")
    return size


def parse_cores(name: str, text: str) -> int:
    """Basis points for a whole percentage from 1 to 100."""
    if not re.fullmatch(r"[0-9]{1,3}%?", text) or not 1 <= int(text.rstrip("%")) <= 100:
        raise UsageError(name, text, "a whole number of percent from 1 to 100")
    return int(text.rstrip("%")) * 100


@dataclass(frozen=True, slots=True)
class Within:
    """The numbers from `low` to `high`, or the whole ones of them. NaN is not among them."""

    low: float
    high: float
    whole: bool = False

    def parse(self, text: str) -> float | None:
        """The number, an int where `whole`; None where the text is none of these numbers."""
        try:
            value = int(text) if self.whole else float(text)
        except ValueError:
            return None
        return value if self.low <= value <= self.high else None

    def __str__(self) -> str:
        return f"a {'whole ' if self.whole else ''}number from {self.low:.15g} to {self.high:.15g}"


def format_bytes(size: float) -> str:
    """`size` in the largest binary unit that leaves at least 1, with up to one decimal: `3.5 GiB`."""
    value = float(size)
    unit = "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if value == int(value) else f"{value:.1f} {unit}"
