"""Turns successive readings of the slice pages into states: shares, overruns, and counters that never fall.

A page is written by the tenant, so its counters can be anything; `Accounting` keeps, for each slice and
generation, the largest value seen of each, and a new generation starts anew. What a page cannot say (how
long a slice was over its limit) is integrated here at the exporter's own tick. A slice that is gone is
forgotten at once. Time is an argument; nothing here reads a clock, a file or a card.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from exporter.snapshot import Claims, Container, Counters, SliceState

_COUNTERS = [one.name for one in fields(Counters)]
Key = tuple[str, str, str, int, int]


@dataclass(frozen=True, slots=True)
class _Memory:
    """What is kept of a slice from one tick to the next. `at` is monotonic seconds."""

    at: float
    state: SliceState


class Accounting:
    """Remembers the last tick of every slice."""

    def __init__(self) -> None:
        self._before: dict[Key, _Memory] = {}

    def advance(self, containers: Iterable[Container], now: float) -> tuple[SliceState, ...]:
        """The states at `now` (monotonic seconds) of these containers' slices."""
        after: dict[Key, _Memory] = {}
        for container in containers:
            for claims in container.slices:
                key = (*container.key, container.generation, claims.index)
                after[key] = _Memory(now, _advance(container, claims, self._before.get(key), now))
        self._before = after
        return tuple(memory.state for memory in after.values())


def _advance(container: Container, claims: Claims, before: _Memory | None, now: float) -> SliceState:
    if before is None:
        return SliceState(container, claims, claims.counters)
    old = before.state
    elapsed = max(now - before.at, 0.0)
    counters = _largest(old.counters, claims.counters)
    used = _share(counters.gpu_seconds - old.counters.gpu_seconds, elapsed)
    over = max(0, claims.memory_used - claims.memory_limit) if claims.memory_limit is not None else 0
    return SliceState(
        container,
        claims,
        counters,
        used_ratio=used if used is not None else old.used_ratio,
        throttled_ratio=_share(counters.throttled_seconds - old.counters.throttled_seconds, elapsed),
        overrun_seconds=old.overrun_seconds + (elapsed if over else 0.0),
        overrun_byte_seconds=old.overrun_byte_seconds + over * elapsed,
        ratio_error=_error(used, claims.core_limit),
    )


def _largest(old: Counters, new: Counters) -> Counters:
    return Counters(*(max(getattr(old, name), getattr(new, name)) for name in _COUNTERS))


def _share(gpu_seconds: float, elapsed: float) -> float | None:
    return min(gpu_seconds / elapsed, 1.0) if elapsed > 0 else None


def _error(used: float | None, limit: float | None) -> float | None:
    return None if used is None or not limit else (used - limit) / limit
