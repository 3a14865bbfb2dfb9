"""Whether one more slice fits on its cards, beside the slices that live and the programs outside of any.

Pure. A slice that asked for memory has it promised, used or not; one that did not counts with what it uses
now. What NVML shows beyond the living slices (other users, programs without the limiter) is taken as gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from limiter import layout
from limiter.slices import Observation, Share
from weir.errors import DoesNotFitError
from weir.nvml import Gpu
from weir.units import format_bytes


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


def room(gpu: Gpu, card_used: int, slices: Iterable[Observation]) -> Room:
    """What is left on a card of which NVML says that `card_used` bytes are used."""
    taken = [_taken(one, gpu.uuid) for one in slices if one.state in ("live", "orphan")]
    outside = max(0, card_used - sum(one.used for one in taken))
    left = gpu.capacity - outside - sum(one.promised for one in taken)
    return Room(gpu, max(0, left), max(0, layout.FULL_CORES - sum(one.cores for one in taken)))


def _taken(one: Observation, uuid: str) -> _Taken:
    if one.identity is None or one.stats is None:
        return _Taken(0, 0, 0)
    for share, stats in zip(one.identity.devices, one.stats.devices, strict=True):
        if share.uuid == uuid:
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
