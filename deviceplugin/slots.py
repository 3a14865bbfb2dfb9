"""Who may launch when: cuts a card's time among the slices that contend for it.

Pure; times are CLOCK_MONOTONIC nanoseconds, shares are basis points. While one slice is busy there are no
slots, and none while all that are busy leave a good part of what they were promised unused (appetite.py):
programs bound by their hosts meet seldom on the card, and a slot's closed part costs them what they cannot
catch up on. Their quotas hold them, and cost latency least. While what all claim accounts for what the card
does (accounts.py), their limiters are told that others are there, whose turns they then do not charge for
(certainty.c); if more was charged than the card was busy all the same, the quotas are raised by as much
(overlap.py). Where somebody fills his promise, only slots keep it whole, and each busy slice gets a part of a
repeating frame:

    capped           its core limit
    capped, burst    and, in proportion to its limit, what capped slices that rest leave idle
    uncapped         an equal part of what nobody was promised; FLOOR for all together where that is less

Of what is lent so, slices of priority 0 have all before those of priority 1 have any; what was promised is
never touched: guards between slots come out of what was not, however many slices there are. Where all of
them were promised theirs, what is left of the frame lengthens their slots: room to make up for late wake-ups
and drained edges, while the quota still holds the share. A slot of more than was promised ends one kernel
early, so that what it launched last takes nothing from a promise. Who has the card to himself beside promises
that rest gets nearly a whole frame as his slot: what he has in flight then ends within a frame of the
neighbour's return. A card with only uncapped slices has no slots, unless some go before others: the driver
shares as it does.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from deviceplugin.frames import FRAME, FULL, GUARD, LONGEST_FRAME, MS, Part, frame_length

LONE_GAP = 200_000  # at the end of a frame that one slice has to itself
OVERHANG = 1 * MS  # how far the last kernel of a slot reaches into the next, at most, without being long
FLOOR = 100  # 1 %: slices that nobody owes anything can still end their work; their number costs no promise

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Tenant(Generic[K]):
    """A slice on one card. `limit` is FULL where it has no cap; `longest` is its longest kernel.

    `fills`: it takes what it is given; `frame`: what it asked for, 0 for nothing; `gpu_time`, `launches`: ns
    that it was charged, and what it launched, so far.
    """

    key: K
    limit: int
    busy: bool
    burst: bool = False
    longest: int = 0
    fills: bool = True
    priority: int = 1
    frame: int = 0
    gpu_time: int = 0
    launches: int = 0

    @property
    def capped(self) -> bool:
        """Whether it was promised a part of the card."""
        return self.limit < FULL


@dataclass(frozen=True, slots=True)
class Turn:
    """What a slice may do now: a slot (frame 0: none), and the share that replaces its limit (0: none).

    `beside`: others run beside it, nobody has slots, and all are believed.
    """

    frame: int = 0
    offset: int = 0
    length: int = 0
    share: int = 0
    beside: bool = False


def plan(
    tenants: Sequence[Tenant[K]],
    overlap: float = 1.0,
    frame: int = 0,
    shift: Mapping[K, int] | None = None,
    *,
    believed: bool = True,
) -> dict[K, Turn]:
    """The turns of one card's slices; a slice that is not named is held by its quota alone.

    `overlap`: by how much more was charged than the card was busy, while slices run beside each other;
    `believed`: whether their claims account for what the card does.
    `frame`: the card's frame so far; `shift`: by how much slots are longer than in proportion (balance.py).
    """
    busy = [one for one in tenants if one.busy]
    if len(busy) == 1:
        return lone(busy[0], tenants)
    if not any(one.capped for one in busy) and len(first_served(busy)) == len(busy):
        return {}
    share = shares(tenants)
    if together := beside_each_other(tenants):
        share = {key: min(FULL, int(part * overlap)) for key, part in share.items()}
    changed = {one.key: 0 if share[one.key] == one.limit else share[one.key] for one in busy}
    if together:
        turns = {key: Turn(share=part, beside=believed) for key, part in changed.items()}
        return {key: turn for key, turn in turns.items() if turn != Turn()}
    return cut(busy, share, changed, frame, shift or {})


def beside_each_other(tenants: Sequence[Tenant[K]]) -> bool:
    """Whether several are busy and none fills what it was promised: they do without slots."""
    busy = [one for one in tenants if one.busy]
    promised = [one for one in busy if one.capped]
    return len(busy) > 1 and bool(promised) and not any(one.fills for one in promised)


def lone(alone: Tenant[K], tenants: Sequence[Tenant[K]]) -> dict[K, Turn]:
    """The turn of the only busy slice: what its neighbours rest from, so that they can have it back."""
    if alone.capped and not alone.burst:
        return {}
    share = FULL if alone.capped else 0
    if not any(one.capped for one in tenants if one is not alone):
        return {alone.key: Turn(share=FULL)} if share else {}
    frame = max(alone.frame or FRAME, min(alone.longest, LONGEST_FRAME))
    return {alone.key: Turn(frame, 0, frame - LONE_GAP, share)}


def cut(
    busy: Sequence[Tenant[K]],
    share: Mapping[K, int],
    changed: Mapping[K, int],
    before: int,
    shift: Mapping[K, int],
) -> dict[K, Turn]:
    """A slot of a common frame for each, one after another."""
    stretched = all(one.capped and share[one.key] == one.limit for one in busy)
    asked = min((one.frame for one in busy if one.frame), default=0)
    parts = [Part(one.limit, one.longest) for one in busy if one.capped]
    frame = frame_length(parts, asked, before, stretched)
    if stretched:
        room, total = frame - GUARD * len(busy), sum(one.limit for one in busy)
        length = {one.key: room * one.limit // total + room * shift.get(one.key, 0) // FULL for one in busy}
    else:
        length = slot_lengths(busy, frame, share)
    gap = (frame - sum(length.values())) // len(busy)
    turns: dict[K, Turn] = {}
    offset = 0
    for key, part in length.items():
        turns[key] = Turn(frame, offset, part, changed[key])
        offset += part + gap
    return turns


def borrows(one: Tenant[K], turns: Mapping[K, Turn]) -> bool:
    """Whether it has time now that a resting neighbour would want back."""
    return one.busy and (turns.get(one.key, Turn()).share > one.limit or not one.capped)


def cut_share(turn: Turn, limit: int) -> int:
    """What it may use beside others, in a slot or believed without; 0 where there are none."""
    return (turn.share or limit) if turn.beside or turn.frame - turn.length > LONE_GAP else 0


def slot_lengths(busy: Sequence[Tenant[K]], frame: int, share: Mapping[K, int]) -> dict[K, int]:
    """The slots where not all is promised: promises whole, guards and all else cut from what is left."""
    owed = {one.key: frame * min(one.limit, share[one.key]) // FULL if one.capped else 0 for one in busy}
    beyond = {one.key: slot_beyond(one, frame * share[one.key] // FULL - owed[one.key]) for one in busy}
    left, wanted = frame - sum(owed.values()), sum(beyond.values())
    if not wanted:  # more was promised than there is
        return {key: part * (frame - GUARD * len(busy)) // frame for key, part in owed.items()}
    room = left - min(GUARD * len(busy), left // 2)  # a crowd leaves room for slots between its guards
    return {key: owed[key] + min(part, part * room // wanted) for key, part in beyond.items()}


def slot_beyond(one: Tenant[K], length: int) -> int:
    """What a slot has beyond the promise: that ends a kernel early, so that it harms nobody."""
    return length - min(one.longest, OVERHANG, length // 4)


def shares(tenants: Sequence[Tenant[K]]) -> dict[K, int]:
    """The busy slices' parts of the card in basis points; together at most the whole.

    Beyond it goes a crowd of which each has the least there is, a basis point: its slots share the floor.
    """
    busy = [one for one in tenants if one.busy]
    promised = sum(one.limit for one in tenants if one.capped)
    idle = sum(one.limit for one in tenants if one.capped and not one.busy)
    first = first_served(busy)
    uncapped = [one for one in first if not one.capped]
    burst = [one for one in first if one.capped]
    all_uncapped = sum(not one.capped for one in busy)
    floor = max(1, min(FLOOR, max(FLOOR, FULL - promised) // max(1, all_uncapped)))
    left = max(0, FULL - promised - floor * (all_uncapped - len(uncapped)))
    if not uncapped:
        idle += left if burst else 0
    elif not burst:
        left += idle
    share = {one.key: one.limit if one.capped else floor for one in busy}
    weight = sum(one.limit for one in burst)
    share |= {one.key: one.limit + idle * one.limit // weight for one in burst}
    share |= {one.key: max(floor, left // len(uncapped)) for one in uncapped}
    most = FULL - min(FLOOR, sum(share[one.key] for one in busy if not one.capped))
    given = sum(share[one.key] for one in busy if one.capped)
    if given > most:
        share |= {one.key: share[one.key] * most // given for one in busy if one.capped}
    return share


def first_served(busy: Sequence[Tenant[K]]) -> list[Tenant[K]]:
    """Those of the first priority among the busy slices that may have what nobody was promised.

    One that could not fill more keeps nobody behind it waiting.
    """
    may = [one for one in busy if one.burst or not one.capped]
    urgent = min(
        (one.priority for one in may if one.fills), default=min((one.priority for one in may), default=0)
    )
    return [one for one in may if one.priority <= urgent]
