"""Whether one more slice fits on its cards, beside the slices that live and the programs outside of any.

A slice that asked for memory has it promised, used or not; one that did not counts with what it uses
now. What NVML shows beyond the living slices (other users, programs without the limiter) is taken as gone.
Pure, but for the lock under which it is asked and answered.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from deviceplugin.office import locked, open_lock
from limiter import layout
from limiter.identity import Share
from limiter.slices import Observation
from weir.errors import DoesNotFitError, HostError
from weir.nvml import Gpu
from weir.units import format_bytes

_ADMISSION_SECONDS = 10.0  # an admission takes milliseconds; its holder may be stopped by a debugger


@contextlib.contextmanager
def admission(box: Path) -> Iterator[None]:
    """One admission at a time. Raises HostError where another one does not end."""
    descriptor = open_lock(box / "admission.lock")
    try:
        deadline = time.monotonic() + _ADMISSION_SECONDS
        while not locked(descriptor):
            if time.monotonic() > deadline:
                raise HostError(
                    f"{box}/admission.lock: another weir run or weir set holds it and does not go on"
                )
            time.sleep(0.01)
        yield
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Room:
    """What is left to promise on one card: bytes, and basis points of GPU time."""

    gpu: Gpu
    memory: int
    cores: int


@dataclass(frozen=True, slots=True)
class _Taken:
    promised: int
    used: int
    cores: int


def room(gpu: Gpu, card_used: int, slices: Iterable[Observation], *, leaving: Path | None = None) -> Room:
    """What is left on a card of which NVML says that `card_used` bytes are used.

    `leaving`: a slice whose promise is about to be given up for another.
    """
    alive = [one for one in slices if one.state in ("live", "orphan")]
    taken = [_taken(one, gpu.uuid, kept=one.path != leaving) for one in alive]
    outside = max(0, card_used - sum(one.used for one in taken))
    left = gpu.capacity - outside - sum(one.promised for one in taken)
    return Room(gpu, max(0, left), max(0, layout.FULL_CORES - sum(one.cores for one in taken)))


def _taken(one: Observation, uuid: str, *, kept: bool) -> _Taken:
    if one.identity is None or one.stats is None:
        return _Taken(0, 0, 0)
    for share, stats in zip(one.identity.devices, one.stats.devices, strict=True):
        if share.uuid == uuid:
            if not kept:
                return _Taken(0, stats.used, 0)
            promised = stats.used if share.promised_bytes is None else share.promised_bytes
            return _Taken(promised, stats.used, share.guarantee_bp)
    return _Taken(0, 0, 0)


def admit(shares: Sequence[Share], rooms: Sequence[Room]) -> None:
    """Raise DoesNotFitError, which says what is left, unless every share fits into its card's room."""
    for share, left in zip(shares, rooms, strict=True):
        card = f"GPU {left.gpu.index} ({left.gpu.name})"
        wanted = share.promised_bytes
        if wanted is not None and wanted > left.memory:
            beside = " with its context" if share.context_bytes else ""
            raise DoesNotFitError(
                f"--memory: {format_bytes(wanted)}{beside}: does not fit; "
                f"{format_bytes(left.memory)} of {format_bytes(left.gpu.capacity)} left on {card}"
            )
        if share.guarantee_bp > left.cores:
            raise DoesNotFitError(
                f"--cores: {share.guarantee_bp // 100}: does not fit; {left.cores // 100} % left on {card}"
            )
