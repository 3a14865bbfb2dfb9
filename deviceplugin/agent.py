"""The agent's work: publishes time slots, holds ledgers against NVML, removes stale slice directories.

One tick at a time, for whoever is the agent (office.py). All state that matters is in the pages: a new agent
goes on from them. Every field it writes carries a deadline, so without any agent the quotas alone hold. What
is decided is decided in slots.py and reconcile.py; here it is read and written.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from deviceplugin import slots
from deviceplugin.accounts import Accounts, Claim
from deviceplugin.appetite import Activity, Appetite, Longest
from deviceplugin.auditor import MS, Auditor, Key, renewed
from deviceplugin.balance import Balance
from deviceplugin.custody import Custody, Say, aloud
from deviceplugin.glance import Counters, Glance
from deviceplugin.lease import with_lease
from deviceplugin.overlap import Overlap
from limiter import layout
from limiter.identity import Identity
from limiter.pages import ControlDevice, ControlPage, DeviceStats
from limiter.slices import Observation, observe, sweep
from weir.nvml import Nvml

AUDIT_EVERY = 1_000 * MS
TICK = 100 * MS
GLANCE = 5 * MS
SLOT_LIFE = 1_000 * MS  # ten ticks: a slow agent loses no slot, a dead one blocks nobody for longer


class Agent:
    """The work itself, one tick at a time; the caller holds the lock."""

    def __init__(
        self, box: Path, nvml: Nvml, clock: Callable[[], int] = time.monotonic_ns, say: Say = aloud
    ) -> None:
        self._box = box
        self._nvml = nvml
        self._clock = clock
        self._activity: Activity[Key] = Activity()
        self._appetite: Appetite[Key] = Appetite()
        self._longest: Longest[Key] = Longest()
        self._overlap: Overlap[str] = Overlap()
        self._balance: Balance[Key] = Balance()
        self._accounts: Accounts[Key] = Accounts()
        self._turns: dict[Key, slots.Turn] = {}
        self._auditor = Auditor(box, nvml)
        self._custody = Custody(say)
        self._audited = 0
        self._several: set[Path] = set()
        self._resting = Glance()
        self._next = 0

    def begin(self) -> None:
        """The office is ours from now on."""
        self._custody.begin()
        self._next = 0

    def tick(self) -> float:
        """Look at every slice, if it is time or one that rested returned; write what has changed.

        Returns the seconds until it wants to be asked again. Raises what NVML raises.
        """
        now = self._clock()
        if now < self._next and not self._resting.moved():
            return GLANCE / 1e9
        self._look(now)
        self._next = now + TICK
        return (GLANCE if self._resting else TICK) / 1e9

    def hurry(self) -> None:
        """Look at the next tick whatever the time: somebody changed what a slice was promised."""
        self._next = 0

    def _look(self, now: int) -> None:
        found = [one for one in self._custody.look(self._observe(now)) if one.control and one.stats]
        cards: dict[str, list[slots.Tenant[Key]]] = defaultdict(list)
        for one in found:
            for uuid, tenant in self._tenants(one, now):
                cards[uuid].append(tenant)
        self._forget({tenant.key for card in cards.values() for tenant in card})
        before, self._turns = self._turns, {}
        for uuid, card in cards.items():
            self._turns |= self._plan(uuid, card, before, now)
        self._balance.forget(set(cards))
        self._accounts.forget(set(cards))
        for one in found:
            self._write(one, now)
        lent = [card for card in cards.values() if any(slots.borrows(one, self._turns) for one in card)]
        resting = {one.key[0] for card in lent for one in card if not one.busy}
        self._resting.watch(
            {
                one.path: [_counters(card) for card in one.stats.devices]
                for one in found
                if one.stats and one.path in resting
            }
        )

    def _observe(self, now: int) -> list[Observation]:
        """The slices; once a second with an audit, which looks at them anyway."""
        if now - self._audited < AUDIT_EVERY:
            return observe(self._box, processes=False)
        self._audited = now
        sweep(self._box)
        found = self._auditor.audit()
        self._several = {one.path for one in found if one.stats and len(one.stats.processes) > 1}
        return found

    def _tenants(self, one: Observation, now: int) -> Iterator[tuple[str, slots.Tenant[Key]]]:
        """What each of a slice's cards knows it as."""
        if one.identity is None or one.stats is None or one.identity.backend != "weir":
            return  # what the driver holds takes no turns
        for index, (share, stats) in enumerate(zip(one.identity.devices, one.stats.devices, strict=True)):
            key = (one.path, index)
            longest = self._longest.of(key, stats.longest_kernel, now)
            busy = self._activity.busy(key, _counters(stats), longest, now)
            turn = self._turns.get(key, slots.Turn())
            tried = slots.cut_share(turn, share.cores_bp) if self._activity.moved(key, now) else 0
            patient = max(longest, turn.frame)
            yield (
                share.uuid,
                slots.Tenant(
                    key,
                    share.cores_bp,
                    busy=busy,
                    burst=one.identity.policy == "burst",
                    longest=longest,
                    fills=self._appetite.fills(key, stats.gpu_time, tried, patient, now, beside=turn.beside),
                    priority=one.identity.priority,
                    frame=one.identity.frame_ms * MS,
                    gpu_time=stats.gpu_time,
                    launches=stats.launches,
                ),
            )

    def _plan(
        self, uuid: str, card: list[slots.Tenant[Key]], before: dict[Key, slots.Turn], now: int
    ) -> dict[Key, slots.Turn]:
        """The turns of one card's slices, which had those of `before`."""
        last = {one.key: before.get(one.key, slots.Turn()) for one in card}
        frame = max(turn.frame for turn in last.values())
        shift = self._balance.shift(uuid, card, frame, now)
        if len(card) == 1 or not any(one.capped for one in card):
            return slots.plan(card, frame=frame, shift=shift)
        used = self._nvml.reading(uuid).utilization
        claims = [
            Claim(
                one.key,
                one.gpu_time,
                one.launches,
                last[one.key].share or one.limit,
                several=one.key[0] in self._several,
            )
            for one in card
        ]
        believed = self._accounts.balanced(uuid, claims, used, now)
        factor = self._factor(uuid, card, used, now)
        return slots.plan(card, factor, frame, shift, believed=believed)

    def _factor(self, uuid: str, card: list[slots.Tenant[Key]], used: float | None, now: int) -> float:
        if not slots.beside_each_other(card):
            self._overlap.end(uuid)
            return 1.0
        return self._overlap.factor(uuid, sum(one.gpu_time for one in card), used, now)

    def _forget(self, keep: set[Key]) -> None:
        """Whoever is gone and comes back under the same name starts anew."""
        self._activity.forget(keep)
        self._appetite.forget(keep)
        self._longest.forget(keep)

    def _write(self, one: Observation, now: int) -> None:
        page = one.control
        if page is None or one.identity is None:
            return
        wanted = promised(page, one.identity)
        devices = []
        for index, control in enumerate(wanted.devices):
            key = (one.path, index)
            device = with_turn(control, self._turns.get(key, slots.Turn()), now)
            device = with_lease(device, one.identity.lease, now)
            devices.append(self._auditor.figures.onto(device, key, now))
        wanted = replace(wanted, devices=tuple(devices))
        if wanted != page:
            self._custody.write(one.path, wanted)


def promised(page: ControlPage, identity: Identity) -> ControlPage:
    """The page with the limits that slice.json says now. Where no memory was asked, its limit stays."""
    pairs = zip(page.devices, identity.devices, strict=True)
    devices = (
        replace(
            control,
            memory_limit=control.memory_limit if share.promised_bytes is None else share.promised_bytes,
            core_limit=identity.paced_bp(share),
            core_guarantee=share.guarantee_bp,
        )
        for control, share in pairs
    )
    return replace(
        page,
        devices=tuple(devices),
        policy=layout.Policy[identity.policy.upper()],
        refuse_unknown=int(identity.unaccounted == "refuse"),
    )


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
        slot_deadline=renewed(control.slot_deadline, now, SLOT_LIFE) if turn.frame else 0,
        loan_core_limit=lent,
        loan_deadline=renewed(control.loan_deadline, now, SLOT_LIFE) if lent else 0,
        lease_core_limit=capped,
        lease_deadline=renewed(control.lease_deadline, now, SLOT_LIFE) if capped < layout.FULL_CORES else 0,
        beside_deadline=renewed(control.beside_deadline, now, SLOT_LIFE) if turn.beside else 0,
    )


def _counters(stats: DeviceStats) -> Counters:
    return stats.launches, stats.last_launch, stats.waiting
