"""Once a second: what NVML shows of each slice that its ledger does not, for the control pages.

Processes that have no slot (belonging.py) are charged to their slice with all that NVML shows for them, the
others with what they have beyond their ledgers (reconcile.py); the limit then holds against the sum. What a
bare context costs is corrected on the way. What is found is kept between looks and lost without harm at a
hand-over: a figure stands in the page until its deadline.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from deviceplugin import reconcile
from deviceplugin.contexts import context_bytes
from limiter.belonging import Belongs, Origins, tell
from limiter.pages import ControlDevice
from limiter.slices import Observation, observe
from weir.nvml import Nvml

MS = 1_000_000
UNACCOUNTED_LIFE = 5_000 * MS
CARD_LIFE = 10_000 * MS  # longer than a hand-over; after that the limiter asks the driver itself

Key = tuple[Path, int]  # a slice directory and the card's place in it
Shown = Mapping[str, Mapping[int, int]]  # bytes of each process on each card


@dataclass(frozen=True, slots=True)
class CardRoom:
    """A card's bytes, and those that a slice would hold if it took all that is free on it."""

    total: int
    room: int

    def onto(self, control: ControlDevice, now: int) -> ControlDevice:
        """The control fields with it, from which the limiter answers memory queries."""
        deadline = renewed(control.card_deadline, now, CARD_LIFE)
        return replace(control, card_total=self.total, card_room=self.room, card_deadline=deadline)


@dataclass
class Figures:
    """What the last audit found."""

    unaccounted: dict[Key, int] = field(default_factory=dict)
    contexts: dict[Key, int] = field(default_factory=dict)
    rooms: dict[Key, CardRoom] = field(default_factory=dict)

    def onto(self, control: ControlDevice, key: Key, now: int) -> ControlDevice:
        """The control fields with bytes unaccounted for, what a context costs, and what the card has left."""
        excess = self.unaccounted.get(key, control.unaccounted)
        lasting = control.unaccounted_deadline  # a new agent leaves it to end by itself
        if key in self.unaccounted:
            lasting = renewed(lasting, now, UNACCOUNTED_LIFE) if excess else 0
        if room := self.rooms.get(key):
            control = room.onto(control, now)
        return replace(
            control,
            unaccounted=excess,
            unaccounted_deadline=lasting,
            context_bytes=self.contexts.get(key, control.context_bytes),
        )


def renewed(deadline: int, now: int, life: int) -> int:
    """A deadline that is far enough off, or a new one: pages rest for half of a life."""
    return deadline if now + life // 2 < deadline <= now + life else now + life


class Auditor:
    """Looks at the ledgers of one box and at its cards."""

    def __init__(self, box: Path, nvml: Nvml) -> None:
        self.figures = Figures()
        self._box = box
        self._nvml = nvml
        self._origins = Origins()
        self._seen: reconcile.SeenTwice[Key] = reconcile.SeenTwice()
        self._candidates: dict[Key, int] = {}

    def audit(self) -> list[Observation]:
        """One look at everything, and what the slices were at its end. Raises what NVML raises."""
        before = {one.path: one.stats for one in observe(self._box)}
        gpus = {gpu.uuid: gpu for gpu in self._nvml.gpus()}
        shown = {uuid: {one.pid: one.used for one in self._nvml.processes(uuid)} for uuid in gpus}
        free = {
            uuid: max(0, gpu.capacity - self._nvml.reading(uuid).memory_used) for uuid, gpu in gpus.items()
        }
        found = observe(self._box)
        told = self._tell(shown, found)
        excess: dict[Key, int] = {}
        costs: dict[Key, int] = {}
        rooms: dict[Key, CardRoom] = {}
        for one in found:
            earlier = before.get(one.path)
            if one.identity is None or one.control is None or one.stats is None or earlier is None:
                continue
            for index, share in enumerate(one.identity.devices):
                if gpu := gpus.get(share.uuid):
                    room = free[gpu.uuid] + reconcile.most_used(earlier, one.stats, index)
                    rooms[one.path, index] = CardRoom(gpu.capacity, room)
                held, beside = _parts(shown.get(share.uuid, {}), told, str(one.path))
                excess[one.path, index] = reconcile.unaccounted(earlier, one.stats, index, held) + beside
                charge = one.control.devices[index].context_bytes
                cost = reconcile.context_cost(earlier, one.stats, index, held, charge)
                if cost is not None and cost >= context_bytes(gpu.name if gpu else "") // 8:
                    costs[one.path, index] = min(cost, charge)
        self.figures.rooms = rooms
        self.figures.unaccounted = self._seen.confirm(excess)
        self._learn_contexts(costs)
        return found

    def _tell(self, shown: Shown, found: list[Observation]) -> dict[int, Belongs] | None:
        """Whose the processes on the cards are; None where their IDs mean nothing here."""
        if not self._nvml.names_our_processes:
            return None
        origins = self._origins.look({pid for card in shown.values() for pid in card})
        return tell(origins, reconcile.households(found))

    def _learn_contexts(self, costs: dict[Key, int]) -> None:
        """A lower cost counts once it was the same twice in a row, and for the slice that showed it alone.

        A higher one is not learnt: it may be modules and workspaces, and what they take is unaccounted for.
        """
        agreed = {key: cost for key, cost in costs.items() if self._candidates.get(key) == cost}
        known = {**self.figures.contexts, **agreed}
        self.figures.contexts = {key: known[key] for key in known.keys() & self.figures.unaccounted.keys()}
        self._candidates = costs


def _parts(
    card: Mapping[int, int], told: Mapping[int, Belongs] | None, slice_path: str
) -> tuple[dict[int, int], int]:
    """What a card shows for one slice: by slot, and together for its processes that have none."""
    if told is None:
        return dict(card), 0
    held: dict[int, int] = defaultdict(int)
    for pid, used in card.items():
        if (owner := told[pid].household) and owner.path == slice_path:
            held[told[pid].slot] += used
    beside = held.pop(0, 0)
    return held, beside
