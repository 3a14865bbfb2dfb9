"""The tables of the slice families: one row defines a metric, and nothing else does.

docs/metrics.md is generated from these rows (docs.py) and render.py writes them as text. Numbers are read
from the accounted state, so counters here never fall while a slice's generation lives.
"""

from __future__ import annotations

from collections.abc import Iterable

from exporter.family import Family, Sample, counter, gauge
from exporter.snapshot import Container, SliceState

SLICE_LABELS = ("namespace", "pod", "container", "gpu_uuid", "slice")
CONTAINER_LABELS = ("namespace", "pod", "container")


def _identity(container: Container) -> tuple[str, ...]:
    return (container.pod_uid, str(container.generation), container.policy, container.backend)


def _slice_info(state: SliceState) -> Iterable[Sample]:
    return ((_identity(state.container), 1),)


def _denied(state: SliceState) -> Iterable[Sample]:
    counters = state.counters
    return (
        (("limit",), counters.denied_limit),
        (("device_oom",), counters.denied_device),
        (("policy",), counters.denied_policy),
    )


def _limiter_info(container: Container) -> Iterable[Sample]:
    if not container.limiter_version:
        return ()
    held = any(one.memory_limit is not None or one.core_limit is not None for one in container.slices)
    return (((container.limiter_version, container.page_version, "enforce" if held else "observe"), 1),)


def _hook_errors(container: Container) -> Iterable[Sample]:
    return (((api,), errors) for api, errors in container.hook_errors.items())


def _unaccounted_calls(container: Container) -> Iterable[Sample]:
    return (((api,), calls) for api, calls in container.unaccounted_calls.items())


SLICE_FAMILIES: tuple[Family[SliceState], ...] = (
    Family(
        "weir_info",
        "gauge",
        "A slice; the row to join identity on. backend: who holds its share of the card, weir or mps.",
        "slices",
        _slice_info,
        ("pod_uid", "generation", "policy", "backend"),
    ),
    gauge(
        "weir_memory_used_bytes",
        "Device memory that the limiter accounts for now.",
        lambda s: s.claims.memory_used,
    ),
    gauge(
        "weir_memory_limit_bytes",
        "Device memory limit in force now (a lease may lower it); no series without a limit.",
        lambda s: s.claims.memory_limit,
    ),
    gauge(
        "weir_memory_requested_bytes",
        "Device memory granted when the slice was made.",
        lambda s: s.claims.memory_requested,
    ),
    gauge(
        "weir_memory_peak_bytes",
        "Largest device memory use since the slice was made.",
        lambda s: s.claims.memory_peak,
    ),
    gauge(
        "weir_memory_driver_used_bytes",
        "Device memory that NVML shows for the slice's processes; no series where they cannot be told.",
        lambda s: s.driver_used,
        "nvml",
    ),
    gauge(
        "weir_memory_unaccounted_bytes",
        "Device memory that NVML shows beyond the ledger (managed memory left out), never below 0.",
        lambda s: s.unaccounted,
        "nvml",
    ),
    counter(
        "weir_memory_overrun_seconds_total",
        "Seconds in which the slice held more than its limit, by the ledger or by NVML, whichever says more.",
        lambda s: s.overrun_seconds,
    ),
    counter(
        "weir_memory_overrun_byte_seconds_total",
        "Integral of the bytes over the limit, by the same word; its rate() is the mean overrun in bytes.",
        lambda s: s.overrun_byte_seconds,
    ),
    Family(
        "weir_alloc_denied_total",
        "counter",
        "Allocations refused: by the slice's limit, by the card itself, or as one nobody could account for.",
        "slices",
        _denied,
        ("reason",),
    ),
    counter(
        "weir_alloc_denied_bytes_total",
        "Bytes of the refused allocations.",
        lambda s: s.counters.denied_bytes,
    ),
    gauge(
        "weir_sm_limit_ratio",
        "Share of the card's time in force now (a lease may lower it, a loan raise it); 1 is no cap.",
        lambda s: 1.0 if s.claims.core_limit is None else s.claims.core_limit,
    ),
    gauge(
        "weir_sm_used_ratio",
        "Share of the card's time with a kernel of the slice on it, over the last collection period.",
        lambda s: s.used_ratio,
    ),
    counter(
        "weir_sm_seconds_total",
        "Seconds with a kernel of the slice on the card; its rate() is the mean share.",
        lambda s: s.counters.gpu_seconds,
    ),
    counter(
        "weir_enforcement_periods_total",
        "Pacing decisions taken.",
        lambda s: s.counters.periods,
    ),
    counter(
        "weir_enforcement_throttled_periods_total",
        "Pacing decisions after which a launch had to wait.",
        lambda s: s.counters.throttled_periods,
    ),
    counter(
        "weir_throttled_seconds_total",
        "Seconds in which launches were held back.",
        lambda s: s.counters.throttled_seconds,
    ),
    gauge(
        "weir_enforcement_error_ratio",
        "(used - limit) / limit of the share, over the last collection period; no series without a cap.",
        lambda s: s.ratio_error,
    ),
    counter(
        "weir_kernel_launches_total",
        "Kernel launches that the limiter saw.",
        lambda s: s.counters.launches,
    ),
    gauge(
        "weir_last_kernel_timestamp_seconds",
        "Unix time of the last kernel launch; no series before the first.",
        lambda s: s.claims.last_kernel,
    ),
    gauge(
        "weir_processes",
        "Live processes attached to the slice.",
        lambda s: len(s.container.pids),
    ),
    gauge(
        "weir_processes_without_limiter",
        "Processes of the slice on the card that never loaded the limiter; no series where nobody can tell.",
        lambda s: None if s.strays is None else len(s.strays),
        "nvml",
    ),
    gauge(
        "weir_priority",
        "0 goes before 1 where both want time that nobody was promised.",
        lambda s: s.container.priority,
    ),
)

CONTAINER_FAMILIES: tuple[Family[Container], ...] = (
    Family(
        "weir_limiter_info",
        "gauge",
        "The limiter in the container, once a process has loaded it; abi is the version of its pages.",
        "slices",
        _limiter_info,
        ("version", "abi", "mode"),
    ),
    gauge(
        "weir_limiter_heartbeat_timestamp_seconds",
        "Unix time at which the limiter last wrote anything; an idle program writes nothing.",
        lambda c: c.heartbeat,
    ),
    gauge(
        "weir_mps_daemon_up",
        "1 while the slice's MPS daemon lives, 0 when what starts now has no share; no series for slices of "
        "weir, or where the daemon's directory cannot be seen.",
        lambda c: None if c.daemon_lives is None else int(c.daemon_lives),
    ),
    counter(
        "weir_limiter_lock_recoveries_total",
        "Process slots taken back from processes that died.",
        lambda c: c.reaped,
    ),
    counter(
        "weir_control_forgeries_total",
        "Times the agent found in the control page what it had not written (a limit), and put it back.",
        lambda c: c.forgeries,
    ),
    Family(
        "weir_limiter_hook_errors_total",
        "counter",
        "What the limiter itself failed at: bytes left charged for too long, launches that are not measured.",
        "slices",
        _hook_errors,
        ("api",),
    ),
    Family(
        "weir_unaccounted_calls_total",
        "counter",
        "Calls let through that take device memory which the limiter does not account for (coverage.md).",
        "slices",
        _unaccounted_calls,
        ("api",),
    ),
)
