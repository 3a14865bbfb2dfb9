"""How much of a card's time was charged twice while slices ran beside each other without slots.

Pure; times are CLOCK_MONOTONIC nanoseconds. A limiter measures elapsed time, which includes a neighbour's
turns. What all slices of a card were charged, over what NVML says the card was busy, is by how much each of
them was overcharged: a quota raised by that factor gives what was promised. Both sides are averages over a
window, for NVML's figure is old by some tenths of a second. Claims can lie: the factor has a bound, and
slots an end to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

WINDOW = 1_000_000_000
MOST = 2.0  # two that always overlap are charged twice; of more, slots take over where they fill their shares

K = TypeVar("K")


@dataclass(slots=True)
class _Window:
    began: int
    charged: int
    busy: float = 0.0  # sum of what NVML said, 0 to 1 each time
    looks: int = 0


class Overlap(Generic[K]):
    """One factor for each card, renewed once a window."""

    def __init__(self) -> None:
        self._windows: dict[K, _Window] = {}
        self._factors: dict[K, float] = {}

    def factor(self, card: K, charged: int, busy: float | None, now: int) -> float:
        """`charged`: GPU time of all slices so far; `busy`: the card's, None where NVML does not say."""
        window = self._windows.setdefault(card, _Window(now, charged))
        if busy is not None:
            window.busy += busy
            window.looks += 1
        if now - window.began >= WINDOW:
            if window.busy > 0:
                seen = (charged - window.charged) / (now - window.began) * window.looks / window.busy
                before = self._factors.get(card, 1.0)
                self._factors[card] = (before + min(max(seen, 1.0), MOST)) / 2
            self._windows[card] = _Window(now, charged)
        return self._factors.get(card, 1.0)

    def end(self, card: K) -> None:
        """The card has slots, or one slice: what comes after that is measured anew."""
        self._windows.pop(card, None)
        self._factors.pop(card, None)
