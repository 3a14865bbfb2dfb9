"""The slices collector: reads every slice directory under a root through the limiter's own readers.

A directory that is corrupt, of another version, or whose owner is gone is counted by state and never fails
the others. Only slices in which somebody lives are published: `live`, and `orphan` (a process goes on though
what started it is gone). A control page that was being written at every try leaves the slice as it was last
read. CLOCK_MONOTONIC times become Unix times here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from exporter.snapshot import REGION_STATES, Claims, Container, Counters, Leased, SlicesReading
from limiter import layout
from limiter.identity import Identity, Lease
from limiter.pages import ControlDevice, ControlPage, DeviceStats, StatsPage, in_force
from limiter.slices import Observation, observe
from weir.mps import daemon_lives

_NS = 1e-9
_PUBLISHED = ("live", "orphan")


@dataclass(frozen=True)
class Now:
    """One moment on both clocks; `monotonic` is nanoseconds, `wall` Unix seconds."""

    monotonic: int
    wall: float

    @classmethod
    def read(cls) -> Now:
        """The present."""
        return cls(time.monotonic_ns(), time.time())

    def unix(self, monotonic: int) -> float | None:
        """Unix time, to the millisecond, of a CLOCK_MONOTONIC time; None for 0, which means never."""
        # No later than now: the page is the tenant's, and a time to come would hide how idle it is.
        return None if monotonic == 0 else round(self.wall - max(0, self.monotonic - monotonic) * _NS, 3)


class SlicesCollector:
    """All slices under one root."""

    def __init__(
        self,
        root: Path,
        now: Callable[[], Now] = Now.read,
        look: Callable[[Path], list[Observation]] = observe,
    ) -> None:
        self._root = root
        self._now = now
        self._look = look
        self._last: dict[Path, Container] = {}
        self._torn = 0

    def collect(self) -> SlicesReading:
        observations = self._look(self._root)
        now = self._now()
        regions = dict.fromkeys(REGION_STATES, 0)
        read: dict[Path, Container] = {}
        for one in observations:
            regions[one.state] += 1
            self._torn += one.torn
            found = _container(one, now) or (self._last.get(one.path) if one.torn else None)
            if found and one.state in _PUBLISHED:
                read[one.path] = found
        self._last = read
        return SlicesReading(tuple(read.values()), regions, self._torn)


def _container(one: Observation, now: Now) -> Container | None:
    identity, control, stats = one.identity, one.control, one.stats
    if identity is None or control is None or stats is None:
        return None
    return Container(
        namespace=identity.namespace,
        pod=identity.pod,
        pod_uid=identity.pod_uid,
        container=identity.container or identity.name,
        generation=identity.generation,
        started=identity.created,
        policy=identity.policy,
        backend=identity.backend,
        daemon_lives=_daemon_lives(identity),
        agent_lives=_agent_lives(control, now),
        slices=_slices(identity, control, stats, now),
        lease=_leased(identity.lease, now),
        priority=identity.priority,
        frame=identity.frame_ms / 1000 or None,
        path=str(one.path),
        supervisor=one.supervisor,
        pids=tuple(process.pid for process in stats.processes),
        limiter_version=stats.limiter_version,
        page_version=f"{stats.version[0]}.{stats.version[1]}",
        heartbeat=now.unix(stats.heartbeat),
        reaped=stats.reaped,
        forgeries=control.forgeries,
        hook_errors=_hook_errors(stats),
        unaccounted_calls={api.name.lower(): stats.uncovered_calls[api] for api in layout.Api},
    )


def _leased(lease: Lease, now: Now) -> Leased | None:
    left = lease.deadline - now.monotonic
    return Leased(now.wall + left * _NS, lease.memory_bytes, _ratio(lease.cores_bp)) if left > 0 else None


def _daemon_lives(identity: Identity) -> bool | None:
    pipes = Path(identity.mps_pipes)
    return daemon_lives(pipes) if identity.mps_pipes and pipes.is_dir() else None


def _agent_lives(control: ControlPage, now: Now) -> bool | None:
    """By what the agent renews in every page; one of an older version has no such field."""
    renewed = max((held.card_deadline for held in control.devices), default=0)
    return in_force(renewed, now.monotonic) if renewed else None


def _hook_errors(stats: StatsPage) -> dict[str, int]:
    launch = sum(min(one.launch_errors, one.hook_errors) for one in stats.devices)
    return {"memory": sum(one.hook_errors for one in stats.devices) - launch, "launch": launch}


def _slices(identity: Identity, control: ControlPage, stats: StatsPage, now: Now) -> tuple[Claims, ...]:
    parts = zip(identity.devices, control.devices, stats.devices, strict=True)
    return tuple(
        Claims(
            index=index,
            gpu_uuid=share.uuid,
            memory_used=claimed.used,
            memory_peak=claimed.peak_bytes,
            memory_managed=stats.kind_bytes(index, layout.Kind.MANAGED),
            memory_limit=_memory_limit(held, now),
            memory_requested=share.memory_bytes,
            core_limit=_ratio(held.core_limit_at(now.monotonic)),
            core_requested=_ratio(share.cores_bp),
            last_kernel=now.unix(claimed.last_launch),
            counters=_counters(claimed),
        )
        for index, (share, held, claimed) in enumerate(parts)
    )


def _memory_limit(held: ControlDevice, now: Now) -> int | None:
    limit = held.memory_limit_at(now.monotonic)
    return None if limit == layout.NO_LIMIT else limit


def _ratio(basis_points: int) -> float | None:
    return None if basis_points >= layout.FULL_CORES else basis_points / layout.FULL_CORES


def _counters(claimed: DeviceStats) -> Counters:
    return Counters(
        gpu_seconds=claimed.gpu_time * _NS,
        throttled_seconds=claimed.throttled_time * _NS,
        periods=claimed.periods,
        throttled_periods=claimed.throttled_periods,
        launches=claimed.launches,
        allocations=claimed.allocations,
        frees=claimed.frees,
        denied_limit=claimed.denied_limit,
        denied_device=claimed.denied_device,
        denied_policy=claimed.denied_policy,
        denied_bytes=claimed.denied_bytes,
    )
