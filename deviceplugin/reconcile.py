"""Holds the ledgers against NVML: what the card shows of a slice's processes beyond what they accounted for.

Pure. The ledger and NVML are never read at the same instant, so a slice's ledger is read before and after,
the larger figure counts, and a difference must be seen twice in a row: an allocation under way is no overrun.
NVML leaves managed memory out, and so does the comparison. Process IDs that NVML does not know (another PID
namespace) say nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from limiter import layout
from limiter.belonging import Household
from limiter.ledger import Held
from limiter.pages import StatsPage
from limiter.slices import Observation

K = TypeVar("K", bound=Hashable)


def unaccounted(before: StatsPage, after: StatsPage, device: int, shown: Mapping[int, int]) -> int:
    """Bytes that NVML shows for the processes that lived through both looks, and their ledgers do not."""
    first = {one.pid: one.devices[device] for one in before.processes}
    excess = sum(
        shown[one.pid] - max(_accounted(one.devices[device]), _accounted(first[one.pid]))
        for one in after.processes
        if one.pid in shown and one.pid in first
    )
    return max(0, excess)


def most_used(before: StatsPage, after: StatsPage, device: int) -> int:
    """The larger figure of two looks at a ledger.

    Added to what was free on the card in between it is never too little: what is taken meanwhile is in the
    second look, and what is given back in the first.
    """
    return max(before.devices[device].used, after.devices[device].used)


def context_cost(
    before: StatsPage, after: StatsPage, device: int, shown: Mapping[int, int], charge: int
) -> int | None:
    """The least that NVML shows beyond what a process allocated, among those at rest with one context.

    `charge`: what the ledger takes for a context; a process that was charged something else has several.
    """
    first = {one.pid: one.devices[device] for one in before.processes}
    costs = [
        shown[one.pid] - _accounted(held) + held.kind_bytes[layout.Kind.CONTEXT]
        for one in after.processes
        if (held := one.devices[device]) == first.get(one.pid)
        and one.pid in shown
        and held.kind_bytes[layout.Kind.CONTEXT] == charge
    ]
    return min(costs, default=None)


def households(found: Iterable[Observation]) -> list[Household]:
    """What the slices that live are known by."""
    return [
        Household(str(one.path), one.supervisor, frozenset(process.pid for process in one.stats.processes))
        for one in found
        if one.stats and one.state in ("live", "orphan")
    ]


def _accounted(held: Held) -> int:
    return held.used - held.kind_bytes[layout.Kind.MANAGED]


@dataclass
class SeenTwice(Generic[K]):
    """Lets a figure through only as far as two looks in a row agree on it."""

    _last: dict[K, int] = field(default_factory=dict)

    def confirm(self, figures: Mapping[K, int]) -> dict[K, int]:
        """The smaller of each figure and its predecessor; 0 for one that was never seen before."""
        confirmed = {key: min(figure, self._last.get(key, 0)) for key, figure in figures.items()}
        self._last = dict(figures)
        return confirmed
