"""What nobody was promised goes, slowly, into the slots of those who lack something, told by their charges.

Pure; times are CLOCK_MONOTONIC nanoseconds, shares and shifts are basis points. Slots in proportion to the
promises stretch over what nobody was promised. A program bound by the card needs little of that, its edges;
one that its host keeps from filling its slot needs more of it. So who has his share gives of what his slot is
longer than his promise and its edges to who lacks most of a point; if he then lacks something himself, half
of all that was moved goes back. No slot becomes shorter than its promise and its edges, so a claim of too
little takes nothing from a neighbour that was promised, and a claim of too much gives the claimant's own.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from deviceplugin.frames import EDGE, FULL, MS
from deviceplugin.slots import Tenant

WINDOW = 2_000 * MS
FRAMES = 20  # of which a window has at least so many: kernels that are seldom do not decide
LACKS = 60  # who was charged so much less than his promise lacks something …
HAS = 20  # … and who was charged so much less at most has his share
STRIDE = 100  # at most, of one slot at once

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class _Card(Generic[K]):
    promised: dict[K, int]
    since: int
    charged: dict[K, int]
    shift: dict[K, int] = field(default_factory=dict)


class Balance(Generic[K]):
    """The shifts of all cards, each renewed once a window."""

    def __init__(self) -> None:
        self._cards: dict[str, _Card[K]] = {}

    def shift(self, card: str, tenants: Sequence[Tenant[K]], frame: int, now: int) -> Mapping[K, int]:
        """By how much slots are longer than in proportion to the promise; `frame`: 0 where there are none."""
        busy = [one for one in tenants if one.busy and one.capped]
        promised = {one.key: one.limit for one in busy}
        charged = {one.key: one.gpu_time for one in busy}
        known = self._cards.get(card)
        if known is None or known.promised != promised or not frame:
            self._cards[card] = _Card(promised, now, charged)
            return {}
        passed = now - known.since
        if passed >= max(WINDOW, FRAMES * frame):
            used = {key: (charged[key] - known.charged[key]) * FULL // passed for key in promised}
            lack = {key: promised[key] - used[key] for key in promised}
            known.shift = moved(promised, lack, known.shift, FULL * EDGE // frame)
            known.since, known.charged = now, charged
        return known.shift

    def forget(self, cards: set[str]) -> None:
        """Drop every card that is not among `cards`."""
        self._cards = {card: known for card, known in self._cards.items() if card in cards}


def moved(
    promised: Mapping[K, int], lack: Mapping[K, int], shift: Mapping[K, int], edge: int
) -> dict[K, int]:
    """The shifts after a window in which each lacked so much; `edge`: what a slot loses of itself."""
    now = {key: shift.get(key, 0) for key in promised}
    takers = [key for key in promised if lack[key] > LACKS]
    if any(now[key] < 0 for key in takers):
        return {key: int(part / 2) for key, part in now.items()}
    total = sum(promised.values())
    for giver in (key for key in promised if takers and lack[key] <= HAS):
        spare = FULL * promised[giver] // total + now[giver] - promised[giver] - edge
        each = max(0, min(spare, STRIDE)) // len(takers)
        now[giver] -= each * len(takers)
        for taker in takers:
            now[taker] += each
    return now
