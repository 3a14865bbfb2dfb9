"""Holds what slices claim against NVML: whose are the processes on a card, and how many bytes do they hold?

NVML speaks of host process IDs and a slot holds the ID of its process's own namespace. Where IDs mean
the same here (the collector knows), a process without a slot is told by its origin; elsewhere only slots that
NVML knows say anything, and for what nobody can say there is None, never 0.
Pages and NVML are read one after the other, and in between a process may end or free what it holds. So what
speaks against a slice counts once two readings of NVML in a row say so. `audited` is one look, and pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from exporter.snapshot import GpusReading, GpuState, SliceKey, SliceState
from limiter.belonging import Belongs, Household, tell

Pids = tuple[int, ...] | None
Verdicts = tuple[Mapping[SliceKey, SliceState], Mapping[str, Pids]]  # of slices, and of cards by UUID


class Audit:
    """What the last two readings of NVML agree on; of the first one alone, what it says."""

    def __init__(self) -> None:
        self._reading: GpusReading | None = None
        self._raw: Verdicts = ({}, {})
        self._agreed: Verdicts = ({}, {})

    def look(self, slices: Iterable[SliceState], gpus: GpusReading | None) -> tuple[SliceState, ...]:
        """The slices with what NVML says of them; a reading that was looked at before says nothing new."""
        states, cards = audited(slices, gpus or GpusReading())
        if gpus is None:
            return states
        if gpus is not self._reading:
            raw: Verdicts = (
                {one.key: one for one in states},
                {card.gpu.uuid: card.outside for card in cards.gpus},
            )
            before, self._raw = (raw if self._reading is None else self._raw), raw
            self._reading = gpus
            self._agreed = (
                {key: _both(one, before[0].get(key)) for key, one in raw[0].items()},
                {uuid: _both_pids(pids, before[1].get(uuid)) for uuid, pids in raw[1].items()},
            )
        return tuple(self._with_verdict(one) for one in states)

    def onto(self, gpus: GpusReading) -> GpusReading:
        """A reading, whose cards say which of their processes belong to no slice."""
        return replace(gpus, gpus=tuple(self._with_outside(card) for card in gpus.gpus))

    def _with_verdict(self, state: SliceState) -> SliceState:
        if said := self._agreed[0].get(state.key):
            return replace(state, strays=said.strays, unaccounted=said.unaccounted)
        return replace(state, strays=None, unaccounted=None)

    def _with_outside(self, card: GpuState) -> GpuState:
        here = {one.pid for one in card.processes}
        pids = self._agreed[1].get(card.gpu.uuid)
        return replace(card, outside=None if pids is None else tuple(pid for pid in pids if pid in here))


def _both(now: SliceState, before: SliceState | None) -> SliceState:
    strays, excess = (before.strays, before.unaccounted) if before else (None, None)
    least = None if now.unaccounted is None else min(now.unaccounted, excess or 0)
    return replace(now, strays=_both_pids(now.strays, strays), unaccounted=least)


def _both_pids(now: Pids, before: Pids) -> Pids:
    return None if now is None else tuple(pid for pid in now if pid in (before or ()))


def audited(states: Iterable[SliceState], gpus: GpusReading) -> tuple[tuple[SliceState, ...], GpusReading]:
    """The states with NVML's bytes and the processes that have no slot; the cards with those of no slice."""
    slices = tuple(states)
    cards = {card.gpu.uuid: {one.pid: one.used for one in card.processes} for card in gpus.gpus}
    if gpus.origins is None:
        everywhere = {pid for card in cards.values() for pid in card}
        return tuple(_by_slots(one, cards.get(one.claims.gpu_uuid), everywhere) for one in slices), gpus
    told = tell(gpus.origins, _households(slices))
    seen = tuple(_by_origin(one, cards.get(one.claims.gpu_uuid), told) for one in slices)
    return seen, replace(gpus, gpus=tuple(_with_outside(card, told) for card in gpus.gpus))


def _households(slices: Iterable[SliceState]) -> list[Household]:
    containers = {one.container.path: one.container for one in slices if not one.container.pod}
    return [Household(path, one.supervisor, frozenset(one.pids)) for path, one in containers.items()]


def _by_slots(state: SliceState, card: Mapping[int, int] | None, everywhere: set[int]) -> SliceState:
    """Where NVML knows none of a container's processes, one of us is in some other namespace."""
    pids = state.container.pids
    if card is None or state.container.pod or (pids and everywhere.isdisjoint(pids)):
        return _unsaid(state)
    return _said(state, sum(card.get(pid, 0) for pid in pids), None)


def _by_origin(state: SliceState, card: Mapping[int, int] | None, told: Mapping[int, Belongs]) -> SliceState:
    if card is None or state.container.pod:
        return _unsaid(state)
    path = state.container.path
    mine = [pid for pid in card if pid in told and (owner := told[pid].household) and owner.path == path]
    loose = tuple(pid for pid in mine if not told[pid].slot)
    return _said(state, sum(card[pid] for pid in mine), loose)


def _said(state: SliceState, used: int, strays: Pids) -> SliceState:
    """NVML leaves managed memory out, so what the ledger holds of it is not compared."""
    excess = used - (state.claims.memory_used - state.claims.memory_managed)
    return replace(state, driver_used=used, strays=strays, unaccounted=max(0, excess))


def _unsaid(state: SliceState) -> SliceState:
    """Nobody can say now; what an earlier audit said is over."""
    return replace(state, driver_used=None, strays=None, unaccounted=None)


def _with_outside(card: GpuState, told: Mapping[int, Belongs]) -> GpuState:
    here = (one.pid for one in card.processes)
    return replace(card, outside=tuple(pid for pid in here if pid in told and told[pid].household is None))
