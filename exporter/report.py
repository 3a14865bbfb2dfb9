"""The snapshot as plain data for JSON: what `GET /v1/slices` and `weir top --json` answer.

Claims are the tenant's own numbers, audit is what was measured against them from outside. Bytes, seconds and
ratios as in the metrics; null where nobody can say.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from exporter.snapshot import GpuState, Health, Leased, SliceState, Snapshot


def report(snapshot: Snapshot, age: float) -> dict[str, Any]:
    """All of a snapshot that is `age` seconds old."""
    return {
        "time": snapshot.time,
        "age_seconds": age,
        "slices": [_slice(state) for state in snapshot.slices],
        "gpus": [_gpu(state, snapshot) for state in snapshot.gpus.gpus],
        "regions": snapshot.regions,
        "collectors": [_health(one) for one in snapshot.health],
    }


def _slice(state: SliceState) -> dict[str, Any]:
    container, claims = state.container, state.claims
    return {
        "namespace": container.namespace,
        "pod": container.pod,
        "pod_uid": container.pod_uid,
        "container": container.container,
        "generation": str(container.generation),  # 64 bits: more than a JSON number keeps everywhere
        "started": container.started,
        "policy": container.policy,
        "priority": container.priority,
        "frame_seconds": container.frame,
        "backend": container.backend,
        "mps_daemon_lives": container.daemon_lives,
        "agent_lives": container.agent_lives,
        "gpu_uuid": claims.gpu_uuid,
        "slice": claims.index,
        "limit": {"memory_bytes": claims.memory_limit, "sm_ratio": claims.core_limit},
        "requested": {"memory_bytes": claims.memory_requested, "sm_ratio": claims.core_requested},
        "lease": None if container.lease is None else _lease(container.lease),
        "claims": {
            "memory_used_bytes": claims.memory_used,
            "memory_peak_bytes": claims.memory_peak,
            "memory_managed_bytes": claims.memory_managed,
            "last_kernel": claims.last_kernel,
            "processes": list(container.pids),
            "limiter_version": container.limiter_version,
            "heartbeat": container.heartbeat,
            "unaccounted_calls": container.unaccounted_calls,
            **asdict(state.counters),
        },
        "audit": {
            "sm_used_ratio": state.used_ratio,
            "throttled_ratio": state.throttled_ratio,
            "memory_driver_used_bytes": state.driver_used,
            "memory_unaccounted_bytes": state.unaccounted,
            "processes_without_limiter": None if state.strays is None else list(state.strays),
            "overrun_seconds": state.overrun_seconds,
            "overrun_byte_seconds": state.overrun_byte_seconds,
        },
    }


def _lease(lease: Leased) -> dict[str, Any]:
    return {"ends": lease.ends, "memory_bytes": lease.memory, "sm_ratio": lease.cores}


def _gpu(state: GpuState, snapshot: Snapshot) -> dict[str, Any]:
    gpu, reading = state.gpu, state.reading
    return {
        "index": gpu.index,
        "gpu_uuid": gpu.uuid,
        "model": gpu.name,
        "memory_capacity_bytes": gpu.capacity,
        "memory_used_bytes": reading.memory_used,
        "utilization_ratio": reading.utilization,
        "energy_joules": reading.energy_joules,
        "slices": len(snapshot.slices_on(gpu.uuid)),
        "processes_outside_slices": None if state.outside is None else list(state.outside),
        "processes": [{"pid": one.pid, "used_bytes": one.used} for one in state.processes],
    }


def _health(health: Health) -> dict[str, Any]:
    return {
        "collector": health.collector,
        "success": health.success,
        "duration_seconds": health.duration,
        "last_success": health.last_success or None,
        "error": health.error or None,
    }
