"""Who may launch when: cuts a card's time among the slices that are busy on it.

Pure; times are CLOCK_MONOTONIC nanoseconds, shares are basis points. While one slice is busy there are no
slots: its own quota holds it, and costs latency least. Where several are, each gets a part of a repeating
frame:

    capped           its core limit
    capped, burst    and, in proportion to its limit, what capped slices that rest leave idle
    uncapped         an equal part of what nobody was promised, and never less than FLOOR

Where all busy slices were promised theirs, what is left of the frame lengthens their slots: room to make up
for late wake-ups and drained edges, while the quota still holds the share. A slot of more than was promised
ends one kernel early, so that what it launched last takes nothing from a promise. A card with only uncapped
slices has no slots: nobody is promised anything, the driver shares as it does.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

FULL = 10_000
MS = 1_000_000

FRAME = 20 * MS  # 20 and 50 ms held a pair to the same point on an H200; the shorter waits less
LONGEST_FRAME = 200 * MS  # a claim of endless kernels must not make the neighbours wait for seconds
FRAME_STEP = 10 * MS  # so that a kernel measured a little longer does not move every slot
GUARD = 100_000  # between two slots that would touch: the last launch of one drains into it
OVERHANG = 1 * MS  # how far the last kernel of a slot reaches into the next, at most, without being long
FLOOR = 100  # 1 %: a slice that nobody owes anything can still end its work
QUIET = 300 * MS  # a slice without launches for so long is not busy
LONGEST_QUIET = 3_000 * MS

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Tenant(Generic[K]):
    """A slice on one card. `limit` is FULL where it has no cap; `longest` is its longest kernel."""

    key: K
    limit: int
    busy: bool
    burst: bool = False
    longest: int = 0

    @property
    def capped(self) -> bool:
        """Whether it was promised a part of the card."""
        return self.limit < FULL


@dataclass(frozen=True, slots=True)
class Turn:
    """What a slice may do now: a slot (frame 0: none), and the share that replaces its limit (0: none)."""

    frame: int = 0
    offset: int = 0
    length: int = 0
    share: int = 0


class Activity(Generic[K]):
    """Which slices are busy, told by their launch counters from look to look."""

    def __init__(self) -> None:
        self._seen: dict[K, tuple[tuple[int, int], int]] = {}  # counters, and when they last moved

    def busy(self, key: K, launches: int, waiting: int, longest: int, now: int) -> bool:
        """Whether the slice launched, or waited to, lately: within QUIET, or twice its longest kernel."""
        counters = (launches, waiting)
        before, moved = self._seen.get(key, (counters, now - LONGEST_QUIET))
        if counters != before:
            moved = now
        self._seen[key] = (counters, moved)
        return now - moved < min(max(QUIET, 2 * longest), LONGEST_QUIET)

    def forget(self, keep: set[K]) -> None:
        """Drop every slice that is not among `keep`."""
        self._seen = {key: seen for key, seen in self._seen.items() if key in keep}


def plan(tenants: Sequence[Tenant[K]]) -> dict[K, Turn]:
    """The turns of one card's slices; a slice that is not named is held by its quota alone."""
    busy = [one for one in tenants if one.busy]
    if len(busy) == 1:
        alone = busy[0]
        return {alone.key: Turn(share=FULL)} if alone.burst and alone.capped else {}
    if not any(one.capped for one in busy):
        return {}
    share = shares(tenants)
    frame = frame_length(busy, share)
    length = {one.key: slot_length(one, frame, share[one.key]) for one in busy}
    room = frame - GUARD * len(busy)
    if (wanted := sum(length.values())) > room:
        length = {key: part * room // wanted for key, part in length.items()}
    elif all(one.capped and share[one.key] == one.limit for one in busy):
        length = {key: room * part // sum(share.values()) for key, part in share.items()}
    gap = (frame - sum(length.values())) // len(busy)
    turns: dict[K, Turn] = {}
    offset = 0
    for one in busy:
        changed = 0 if share[one.key] == one.limit else share[one.key]
        turns[one.key] = Turn(frame, offset, length[one.key], changed)
        offset += length[one.key] + gap
    return turns


def slot_length(one: Tenant[K], frame: int, share: int) -> int:
    """The slot for a share of a frame. One beyond what was promised ends a kernel early: it harms nobody."""
    length = frame * share // FULL
    beyond = not one.capped or share > one.limit
    return length - min(one.longest, OVERHANG, length // 4) if beyond else length


def shares(tenants: Sequence[Tenant[K]]) -> dict[K, int]:
    """The busy slices' parts of the card in basis points; together at most the whole."""
    busy = [one for one in tenants if one.busy]
    promised = sum(one.limit for one in tenants if one.capped)
    idle = sum(one.limit for one in tenants if one.capped and not one.busy)
    uncapped = [one for one in busy if not one.capped]
    burst = [one for one in busy if one.capped and one.burst]
    left = max(0, FULL - promised)
    if not uncapped:
        idle += left if burst else 0
    elif not burst:
        left += idle
    share = {one.key: one.limit for one in busy if one.capped}
    weight = sum(one.limit for one in burst)
    share |= {one.key: one.limit + idle * one.limit // weight for one in burst}
    share |= {one.key: max(FLOOR, left // len(uncapped)) for one in uncapped}
    total = sum(share.values())
    return {key: part * FULL // total for key, part in share.items()} if total > FULL else share


def frame_length(busy: Sequence[Tenant[K]], share: dict[K, int]) -> int:
    """A frame in which every promised slot holds its slice's longest kernel, within bounds."""
    needed = max((one.longest * FULL // share[one.key] for one in busy if one.capped), default=0)
    steps = -(-needed // FRAME_STEP)
    return min(max(FRAME, steps * FRAME_STEP), LONGEST_FRAME)
