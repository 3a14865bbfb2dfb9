"""Holds what slices claim against NVML: whose are the processes on a card, and how many bytes do they hold?

Pure. NVML speaks of host process IDs and a slot holds the ID of its process's own namespace. Where IDs mean
the same here (the collector knows), a process without a slot is told by its origin; elsewhere only slots that
NVML knows say anything, and for what nobody can say there is None, never 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from exporter.snapshot import GpusReading, GpuState, SliceState
from limiter.belonging import Belongs, Household, tell


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
    return replace(state, driver_used=sum(card.get(pid, 0) for pid in pids), strays=None)


def _by_origin(state: SliceState, card: Mapping[int, int] | None, told: Mapping[int, Belongs]) -> SliceState:
    if card is None or state.container.pod:
        return _unsaid(state)
    path = state.container.path
    mine = [pid for pid in card if pid in told and (owner := told[pid].household) and owner.path == path]
    loose = tuple(pid for pid in mine if not told[pid].slot)
    return replace(state, driver_used=sum(card[pid] for pid in mine), strays=loose)


def _unsaid(state: SliceState) -> SliceState:
    """Nobody can say now; what an earlier audit said is over."""
    return replace(state, driver_used=None, strays=None)


def _with_outside(card: GpuState, told: Mapping[int, Belongs]) -> GpuState:
    here = (one.pid for one in card.processes)
    return replace(card, outside=tuple(pid for pid in here if pid in told and told[pid].household is None))
