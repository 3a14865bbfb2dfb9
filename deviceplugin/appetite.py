"""What a slice does with its time, told by its counters: does it launch, and does it fill what it is given?

Pure; times are CLOCK_MONOTONIC nanoseconds. Whether a program is bound by the card or by its host shows
only in a slot: in the part of the frame in which nothing else holds it, a program bound by the card uses
what it was given, one bound by its host cannot, and loses what the closed part costs it. So contenders are
tried in slots; who leaves a fifth of his share unused there is let out of them for a while, and tried
again more and more seldom: not at all while he leaves as much unused without slots and claims are believed
(accounts.py), and soon when he does no longer. Claims can lie; a lie costs the liar his slot, not a neighbour
his share. How long its longest kernel is, is passed on as the page says, but not at every wink.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from limiter import layout

MS = 1_000_000
QUIET = 300 * MS  # a slice without launches for so long is not busy
LONGEST_QUIET = 3_000 * MS

TRIAL = 500 * MS  # 25 frames: one that was late or jittered does not decide
# Of its share. In slots, programs bound by an H200 reached 84 % and more, bound by hosts 77 and less.
FILLED = 0.8
HELD = 3_000 * MS  # a kernel measured longer, as beside a neighbour, does not move every slot
FIRST_PATIENCE = 2_000 * MS  # a program that still loads its code fills nothing, and soon will
LONGEST_PATIENCE = 60_000 * MS

K = TypeVar("K", bound=Hashable)
Counters = tuple[int, ...]


class Activity(Generic[K]):
    """Which slices are busy: they launched, or waited to, within QUIET or twice their longest kernel."""

    def __init__(self) -> None:
        self._seen: dict[K, tuple[Counters, int]] = {}  # counters, and when they last moved

    def busy(self, key: K, counters: Counters, longest: int, now: int) -> bool:
        """Whether any of the counters moved lately."""
        before, moved = self._seen.get(key, (counters, now - LONGEST_QUIET))
        if counters != before:
            moved = now
        self._seen[key] = (counters, moved)
        return now - moved < min(max(QUIET, 2 * longest), LONGEST_QUIET)

    def moved(self, key: K, now: int) -> bool:
        """Whether the look at `now` found the counters moved: a slice that pauses is not tried."""
        return self._seen[key][1] == now

    def forget(self, keep: set[K]) -> None:
        """Drop every slice that is not among `keep`."""
        self._seen = {key: seen for key, seen in self._seen.items() if key in keep}


@dataclass(slots=True)
class _Kernel:
    told: int
    since: int
    least: int  # of what was claimed since then


class Longest(Generic[K]):
    """The slices' longest kernels. A longer one is believed once claimed throughout HELD, or as another.

    Where slots move, neighbours meet, and each measures his kernels up to twice as long, which he claims for
    ESTIMATE_HALF_LIFE (limiter/src/estimates.h); a frame that followed would move the slots again.
    """

    def __init__(self) -> None:
        self._kernels: dict[K, _Kernel] = {}

    def of(self, key: K, claimed: int, now: int) -> int:
        """The longest kernel, where the page claims `claimed`."""
        known = self._kernels.get(key)
        if known is None or not known.told * 7 // 8 <= claimed <= known.told * 9 // 4:
            known = self._kernels[key] = _Kernel(claimed, now, claimed)
        known.least = min(known.least, claimed)
        if now - known.since >= HELD:
            known.told, known.since, known.least = known.least, now, claimed
        return known.told

    def forget(self, keep: set[K]) -> None:
        """Drop every slice that is not among `keep`."""
        self._kernels = {key: known for key, known in self._kernels.items() if key in keep}


@dataclass(slots=True)
class _Record:
    gpu_time: int = 0
    began: int = 0  # of the trial under way; 0: none
    until: int = 0  # let out of slots till then
    patience: int = FIRST_PATIENCE
    beside: bool = False  # what is judged: time without slots


class Appetite(Generic[K]):
    """Which slices fill what they are given."""

    def __init__(self) -> None:
        self._records: dict[K, _Record] = {}

    def fills(
        self, key: K, gpu_time: int, share: int, longest: int, now: int, *, beside: bool = False
    ) -> bool:
        """Whether it is to have a slot, if anybody is.

        `share`: basis points that it might use since the last look, in its slot or `beside` others without
        slots; 0: neither can be judged, or there was no launch.
        """
        record = self._records.setdefault(key, _Record())
        if beside != record.beside:
            record.began, record.beside = 0, beside
        if not share:
            record.began = 0
        elif not record.began:
            record.began, record.gpu_time = now, gpu_time
        elif now - record.began >= max(TRIAL, 4 * min(longest, LONGEST_QUIET)):
            _judge(record, (gpu_time - record.gpu_time) * layout.FULL_CORES, share, now)
            record.began, record.gpu_time = now, gpu_time
        return now >= record.until

    def forget(self, keep: set[K]) -> None:
        """Drop every slice that is not among `keep`."""
        self._records = {key: record for key, record in self._records.items() if key in keep}


def _judge(record: _Record, used: int, share: int, now: int) -> None:
    """`used`: GPU time since the trial began, in ns times basis points."""
    left_unused = used < FILLED * share * (now - record.began)
    if record.beside:
        record.until = now + FIRST_PATIENCE if left_unused else record.until
    elif left_unused:
        record.until = now + record.patience
        record.patience = min(2 * record.patience, LONGEST_PATIENCE)
    else:
        record.patience = FIRST_PATIENCE
