"""The agent's work: publishes time slots, holds ledgers against NVML, removes stale slice directories.

One tick at a time, for whoever is the agent (office.py). All state that matters is in the pages: a new agent
goes on from them. Every field it writes carries a deadline, so without any agent the quotas alone hold. What
is decided is decided in slots.py and reconcile.py; here it is read and written.
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from deviceplugin import reconcile, slots
from deviceplugin.contexts import context_bytes
from limiter import layout, writer
from limiter.pages import ControlDevice, ControlPage, DeviceStats, PageError
from limiter.slices import Observation, observe, sweep
from weir.nvml import Nvml

MS = 1_000_000
RECONCILE_EVERY = 1_000 * MS
SLOT_LIFE = 1_000 * MS  # ten ticks: a slow agent loses no slot, a dead one blocks nobody for longer
UNACCOUNTED_LIFE = 5_000 * MS

Key = tuple[Path, int]  # a slice directory and the card's place in it


@dataclass
class Figures:
    """What the last reconciliation found; kept between ticks, lost without harm at a hand-over."""

    at: int = 0
    unaccounted: dict[Key, int] = field(default_factory=dict)
    contexts: dict[Key, int] = field(default_factory=dict)
    seen: reconcile.SeenTwice[Key] = field(default_factory=reconcile.SeenTwice)
    candidates: dict[Key, int] = field(default_factory=dict)


class Agent:
    """The work itself, one tick at a time; the caller holds the lock."""

    def __init__(self, box: Path, nvml: Nvml, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._box = box
        self._nvml = nvml
        self._clock = clock
        self._activity: slots.Activity[Key] = slots.Activity()
        self._figures = Figures()

    def tick(self) -> None:
        """Look at every slice once and write what has changed for it. Raises what NVML raises."""
        now = self._clock()
        if now - self._figures.at >= RECONCILE_EVERY:
            self._figures.at = now
            sweep(self._box)
            self._reconcile()
        found = [one for one in observe(self._box, processes=False) if one.control and one.stats]
        turns = self._turns(found, now)
        for one in found:
            self._write(one, turns, now)

    def _turns(self, found: list[Observation], now: int) -> dict[Key, slots.Turn]:
        cards: dict[bytes, list[slots.Tenant[Key]]] = defaultdict(list)
        for key, control, page, stats in _devices(found):
            busy = self._activity.busy(key, stats.launches, stats.waiting, stats.longest_kernel, now)
            limit = control.core_limit  # not what is in force: a loan must not lead to a larger one
            burst = page.policy == layout.Policy.BURST
            cards[control.uuid].append(slots.Tenant(key, limit, busy, burst, stats.longest_kernel))
        self._activity.forget({tenant.key for card in cards.values() for tenant in card})
        return {key: turn for card in cards.values() for key, turn in slots.plan(card).items()}

    def _write(self, one: Observation, turns: Mapping[Key, slots.Turn], now: int) -> None:
        page = one.control
        if page is None:
            return
        devices = []
        for index, control in enumerate(page.devices):
            key = (one.path, index)
            device = with_turn(control, turns.get(key, slots.Turn()), now)
            devices.append(with_figures(device, self._figures, key, now))
        if tuple(devices) != page.devices:
            with contextlib.suppress(PageError):  # removed meanwhile, or not ours to repair
                writer.update_control(one.path / "control", replace(page, devices=tuple(devices)))

    def _reconcile(self) -> None:
        before = {one.path: one.stats for one in observe(self._box)}
        models = {gpu.uuid: gpu.name for gpu in self._nvml.gpus()}
        shown = {uuid: {one.pid: one.used for one in self._nvml.processes(uuid)} for uuid in models}
        excess: dict[Key, int] = {}
        costs: dict[Key, int] = {}
        for one in observe(self._box):
            earlier = before.get(one.path)
            if one.identity is None or one.control is None or one.stats is None or earlier is None:
                continue
            for index, share in enumerate(one.identity.devices):
                here = shown.get(share.uuid, {})
                excess[one.path, index] = reconcile.unaccounted(earlier, one.stats, index, here)
                charge = one.control.devices[index].context_bytes
                cost = reconcile.context_cost(earlier, one.stats, index, here, charge)
                if cost is not None and cost >= context_bytes(models.get(share.uuid, "")) // 8:
                    costs[one.path, index] = min(cost, charge)
        self._figures.unaccounted = self._figures.seen.confirm(excess)
        self._learn_contexts(costs)

    def _learn_contexts(self, costs: dict[Key, int]) -> None:
        """A lower cost counts once it was the same twice in a row, and for the slice that showed it alone.

        A higher one is not learnt: it may be modules and workspaces, and what they take is unaccounted for.
        """
        agreed = {key: cost for key, cost in costs.items() if self._figures.candidates.get(key) == cost}
        known = {**self._figures.contexts, **agreed}
        self._figures.contexts = {key: known[key] for key in known.keys() & self._figures.unaccounted.keys()}
        self._figures.candidates = costs


def with_turn(control: ControlDevice, turn: slots.Turn, now: int) -> ControlDevice:
    """The control fields for this turn. Deadlines are renewed at half their life, so pages rest meanwhile.

    A share above the core limit is lent; one that caps a slice without a limit is a lease.
    """
    lent = turn.share if control.core_limit < layout.FULL_CORES else 0
    capped = turn.share if turn.share and not lent else layout.FULL_CORES
    return replace(
        control,
        slot_frame=turn.frame,
        slot_offset=turn.offset,
        slot_length=turn.length,
        slot_deadline=_renewed(control.slot_deadline, now, SLOT_LIFE) if turn.frame else 0,
        loan_core_limit=lent,
        loan_deadline=_renewed(control.loan_deadline, now, SLOT_LIFE) if lent else 0,
        lease_core_limit=capped,
        lease_deadline=_renewed(control.lease_deadline, now, SLOT_LIFE) if capped < layout.FULL_CORES else 0,
    )


def with_figures(control: ControlDevice, figures: Figures, key: Key, now: int) -> ControlDevice:
    """The control fields that reconciliation found: bytes unaccounted for, and what a context costs."""
    excess = figures.unaccounted.get(key, control.unaccounted)
    lasting = control.unaccounted_deadline  # a new agent leaves it to end by itself
    if key in figures.unaccounted:
        lasting = _renewed(lasting, now, UNACCOUNTED_LIFE) if excess else 0
    return replace(
        control,
        unaccounted=excess,
        unaccounted_deadline=lasting,
        context_bytes=figures.contexts.get(key, control.context_bytes),
    )


def _renewed(deadline: int, now: int, life: int) -> int:
    return deadline if now + life // 2 < deadline <= now + life else now + life


def _devices(
    found: list[Observation],
) -> Iterator[tuple[Key, ControlDevice, ControlPage, DeviceStats]]:
    for one in found:
        if one.control and one.stats:
            for index, pair in enumerate(zip(one.control.devices, one.stats.devices, strict=True)):
                yield (one.path, index), pair[0], one.control, pair[1]
