"""Turns successive readings of the slice pages into states: shares, overruns, and counters that never fall.

A page is written by the tenant, so its counters can be anything; `Accounting` keeps, for each slice and
generation, the largest value seen of each, and a new generation starts anew. What a page cannot say (how
long a slice was over its limit) is integrated here at the exporter's own tick, by the larger word of ledger
and NVML. A slice that is gone is forgotten at once. Time is an argument; nothing here reads a clock, a file
or a card.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

from exporter.audit import Audit
from exporter.snapshot import Container, Counters, GpusReading, SliceKey, SliceState

_COUNTERS = [one.name for one in fields(Counters)]


@dataclass(frozen=True, slots=True)
class _Memory:
    """What is kept of a slice from one tick to the next. `at` is monotonic seconds."""

    at: float
    state: SliceState


class Accounting:
    """Remembers the last tick of every slice."""

    def __init__(self) -> None:
        self.audit = Audit()
        self._before: dict[SliceKey, _Memory] = {}

    def advance(
        self, containers: Iterable[Container], now: float, gpus: GpusReading | None = None
    ) -> tuple[SliceState, ...]:
        """The states at `now` (monotonic seconds) of these containers' slices; `gpus`: NVML's last word."""
        seen = [SliceState(one, claims, claims.counters) for one in containers for claims in one.slices]
        after: dict[SliceKey, _Memory] = {}
        for state in self.audit.look(seen, gpus):
            after[state.key] = _Memory(now, _advance(state, self._before.get(state.key), now))
        self._before = after
        return tuple(memory.state for memory in after.values())


def _advance(seen: SliceState, before: _Memory | None, now: float) -> SliceState:
    if before is None:
        return seen
    old = before.state
    elapsed = max(now - before.at, 0.0)
    counters = _largest(old.counters, seen.counters)
    used = _share(counters.gpu_seconds - old.counters.gpu_seconds, elapsed)
    over = _overrun(seen, old)
    return replace(
        seen,
        counters=counters,
        used_ratio=used if used is not None else old.used_ratio,
        throttled_ratio=_share(counters.throttled_seconds - old.counters.throttled_seconds, elapsed),
        overrun_seconds=old.overrun_seconds + (elapsed if over else 0.0),
        overrun_byte_seconds=old.overrun_byte_seconds + over * elapsed,
        ratio_error=_error(used, seen.claims.core_limit),
    )


def _overrun(seen: SliceState, old: SliceState) -> int:
    """Bytes over the limit. NVML's word is up to a tick old: managed bytes of both ticks are added to it."""
    limit = seen.claims.memory_limit
    managed = min(seen.claims.memory_managed, old.claims.memory_managed)
    in_use = max(seen.claims.memory_used, (seen.driver_used or 0) + managed)
    return 0 if limit is None else max(0, in_use - limit)


def _largest(old: Counters, new: Counters) -> Counters:
    return Counters(*(max(getattr(old, name), getattr(new, name)) for name in _COUNTERS))


def _share(gpu_seconds: float, elapsed: float) -> float | None:
    return min(gpu_seconds / elapsed, 1.0) if elapsed > 0 else None


def _error(used: float | None, limit: float | None) -> float | None:
    return None if used is None or not limit else (used - limit) / limit
