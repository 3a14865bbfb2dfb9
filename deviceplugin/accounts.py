"""Whether what a card's slices claim accounts for what the card does.

Pure; times are CLOCK_MONOTONIC nanoseconds. Where slices run beside each other without slots, a limiter does
not charge what may be a neighbour's turn (certainty.c), and who uses little is not tried in a slot
(appetite.py): both rest on claims. NVML says how busy the card was. What nobody accounts for is summed up,
whatever turns there were meanwhile, so no change of them hides any; when it exceeds what errors of both sides
explain, claims count for nothing for a while, longer each time. A claim counts as far as its slice's share
goes, so too large a one hides nobody else's too small one. Who claimed too little is not known here.

NVML counts the change to a kernel as use of the card, and one to another process's kernel a hundred times as
much: two that launch often keep the card turning, and by NVML busy, with hardly any work. Slices that their
hosts hold up are charged without either.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from limiter import layout

MS = 1_000_000
COVERED = 0.9  # of what the card was busy: the rest is NVML's and the claims' own error
LATE = 300 * MS  # NVML's samples are 200 ms long, and old: claims run ahead of them and fall behind
CHANGE = 1_300  # ns to a kernel, on an H200
EXCHANGE = 135_000  # … more if another process's ran before it (124 to 147)
SHORTEST = 1_000  # ns: no kernel takes less, so no more of them are believed
LONGEST_LOOK = 1_000 * MS  # what happened in a longer time is not known from one sample
FIRST_DOUBT = 2_000 * MS
LONGEST_DOUBT = 60_000 * MS

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Claim(Generic[K]):
    """What a slice was charged, and launched, so far; `share`: of the card, which it might use of late.

    `several`: whether it has more processes than one, between which the card turns as well.
    """

    key: K
    gpu_time: int
    launches: int
    share: int
    several: bool = False


@dataclass(slots=True)
class _Card(Generic[K]):
    at: int
    claims: dict[K, tuple[Claim[K], float]] = field(default_factory=dict)  # and how much more may count
    missing: float = 0.0  # ns that nobody accounted for
    doubted: int = 0  # until then
    doubt: int = FIRST_DOUBT  # how long the next one is


class Accounts(Generic[K]):
    """One account for each card, at every look at it."""

    def __init__(self) -> None:
        self._cards: dict[str, _Card[K]] = {}

    def balanced(self, card: str, claims: Iterable[Claim[K]], busy: float | None, now: int) -> bool:
        """Whether the claims are to be believed; `busy`: what NVML says, 0 to 1, or None if it does not."""
        known = self._cards.setdefault(card, _Card(now))
        passed, known.at = now - known.at, now
        claimed = _take(known, claims, passed)
        if busy is None:
            return False
        if passed <= LONGEST_LOOK:
            known.missing = max(known.missing + COVERED * busy * passed - claimed, 0.0)
        if known.missing > LATE:
            known.missing, known.doubted = 0.0, now + known.doubt
            known.doubt = min(2 * known.doubt, LONGEST_DOUBT)
        elif now - known.doubted > LONGEST_DOUBT:
            known.doubt = FIRST_DOUBT
        return now >= known.doubted

    def forget(self, cards: set[str]) -> None:
        """Drop every card that is not among `cards`."""
        self._cards = {card: known for card, known in self._cards.items() if card in cards}


def _take(known: _Card[K], claims: Iterable[Claim[K]], passed: int) -> float:
    """The use claimed since the last look, of each slice at most what it might, averaged over LATE."""
    before, known.claims, total = known.claims, {}, 0.0
    launches: list[tuple[float, bool]] = []
    for one in claims:
        last, room = before.get(one.key, (one, LATE))
        room = min(room + passed * one.share / layout.FULL_CORES, LATE)
        used = min(max(one.gpu_time - last.gpu_time, 0), room)
        known.claims[one.key] = (one, room - used)
        total += used
        launches.append((min(max(one.launches - last.launches, 0), used / SHORTEST), one.several))
    return total + CHANGE * sum(number for number, _ in launches) + EXCHANGE * _exchanges(launches)


def _exchanges(launches: list[tuple[float, bool]]) -> float:
    """How often the card can have turned from one process to another, where slices launch so often."""
    every = sum(mine for mine, _ in launches)
    return sum(mine if several else min(mine, every - mine) for mine, several in launches)
