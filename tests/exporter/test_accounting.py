"""Accounting: shares between ticks, overruns, counters that never fall; time is an argument."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.accounting import Accounting
from exporter.audit import audited
from exporter.snapshot import Counters
from tests.exporter.builders import MIB, claims, container, gpus, is_close, states
from weir.nvml import GpuProcess


def after(*ticks):
    """The state of the one slice after these (seconds, claims) ticks."""
    accounting = Accounting()
    for at, claim in ticks:
        (state,) = accounting.advance([container("alice", claim)], at)
    return state


def busy(seconds, **changes):
    return claims(counters=Counters(gpu_seconds=seconds), **changes)


def test_share_is_gpu_time_over_the_time_between_ticks():
    assert is_close(after((10.0, busy(1.0)), (12.0, busy(2.2))).used_ratio, 0.6)


def test_nothing_is_said_about_the_share_at_the_first_tick():
    state = after((10.0, busy(1.0)))
    assert state.used_ratio is None
    assert state.ratio_error is None


def test_share_never_exceeds_the_whole_card():
    assert after((10.0, busy(1.0)), (11.0, busy(99.0))).used_ratio == 1.0


@pytest.mark.parametrize(("limit", "error"), [(0.6, 0.0), (0.3, 1.0), (0.8, -0.25)])
def test_enforcement_error_is_relative_to_the_limit(limit, error):
    state = after((0.0, busy(0.0, core_limit=limit)), (1.0, busy(0.6, core_limit=limit)))
    assert is_close(state.ratio_error, error)


def test_there_is_no_enforcement_error_without_a_core_limit():
    assert after((0.0, busy(0.0, core_limit=None)), (1.0, busy(0.6, core_limit=None))).ratio_error is None


def test_overrun_is_integrated_only_while_over_the_limit():
    over, under = claims(memory_used=30 * MIB, memory_limit=20 * MIB), claims(memory_used=20 * MIB)
    state = after((0.0, under), (1.0, over), (3.0, over), (4.0, replace(under, memory_limit=20 * MIB)))
    assert is_close(state.overrun_seconds, 3.0)
    assert is_close(state.overrun_byte_seconds, 30.0 * MIB)


def overrun(*ticks):
    """Byte seconds after ticks of one second: (ledger, its managed part, NVML's word or None), in MiB."""
    accounting = Accounting()
    for at, (ledger, managed, shown) in enumerate(ticks):
        claim = claims(memory_used=ledger * MIB, memory_managed=managed * MIB, memory_limit=4000 * MIB)
        reading = None if shown is None else gpus(GpuProcess(1, shown * MIB))
        (state,) = accounting.advance([container("alice", claim, pids=(1,))], float(at), reading)
    return state.overrun_byte_seconds / MIB


@pytest.mark.parametrize(
    ("ticks", "bytes_over"),
    [
        ([(3900, 0, 3900), (3900, 0, 4100)], 100),
        ([(4300, 0, 4100), (4300, 0, 4100)], 300),
        ([(3900, 500, 3400), (3900, 500, 3600)], 100),
        ([(3900, 500, None), (3900, 500, None)], 0),
        ([(4000, 0, 4000), (4000, 2000, 4000), (4000, 2000, 2000)], 0),
    ],
    ids=[
        "NVML shows more",
        "the ledger says more",
        "NVML leaves managed bytes out",
        "without NVML the ledger is the word",
        "bytes that became managed since NVML looked are not counted twice",
    ],
)
def test_overrun_is_by_the_larger_word(ticks, bytes_over):
    assert is_close(overrun(*ticks), bytes_over)


def test_a_slice_without_a_memory_limit_has_no_overrun():
    assert after((0.0, claims(memory_limit=None)), (1.0, claims(memory_limit=None))).overrun_seconds == 0


def test_a_tenant_that_turns_its_counters_back_turns_nothing_back():
    state = after((0.0, busy(50.0)), (1.0, busy(3.0)), (2.0, busy(3.5)))
    assert state.counters.gpu_seconds == 50.0
    assert state.used_ratio == 0.0


def test_a_new_generation_starts_from_its_own_counters():
    accounting = Accounting()
    accounting.advance([container("alice", busy(50.0))], 0.0)
    (state,) = accounting.advance([container("alice", busy(1.0), generation=8)], 1.0)
    assert state.counters.gpu_seconds == 1.0
    assert state.used_ratio is None


def test_a_slice_that_went_away_is_forgotten():
    accounting = Accounting()
    accounting.advance([container("alice", busy(50.0))], 0.0)
    assert accounting.advance([], 1.0) == ()
    (state,) = accounting.advance([container("alice", busy(1.0))], 2.0)
    assert state.counters.gpu_seconds == 1.0


def test_a_clock_that_stands_still_divides_by_nothing():
    state = after((1.0, busy(1.0)), (2.0, busy(1.5)), (2.0, busy(1.9)))
    assert is_close(state.used_ratio, 0.5)


def driver_used(one, reading):
    ((state,), _) = audited(states(one), reading)
    return state


def test_driver_bytes_are_the_sum_over_the_slices_processes():
    one = container("alice", pids=(1, 2))
    reading = gpus(GpuProcess(1, 500 * MIB), GpuProcess(2, 200 * MIB), GpuProcess(3, 900 * MIB))
    assert driver_used(one, reading).driver_used == 700 * MIB


def test_unaccounted_is_what_nvml_shows_beyond_the_ledger_without_managed_memory():
    one = container("alice", claims(memory_used=600 * MIB, memory_managed=20 * MIB), pids=(1,))
    assert driver_used(one, gpus(GpuProcess(1, 700 * MIB))).unaccounted == 120 * MIB
    assert driver_used(one, gpus(GpuProcess(1, 100 * MIB))).unaccounted == 0


@pytest.mark.parametrize(
    ("one", "reading", "why"),
    [
        (container("alice", pids=(1,)), gpus(GpuProcess(9, MIB)), "process IDs of another namespace"),
        (container("alice", pod="web", pids=(1,)), gpus(GpuProcess(1, MIB)), "a pod has its own process IDs"),
        (container("alice", claims(gpu_uuid="GPU-other")), gpus(), "a card that NVML does not show"),
    ],
)
def test_driver_bytes_are_absent_where_nobody_can_say(one, reading, why):
    assert driver_used(one, reading).driver_used is None, why


def test_a_slice_without_processes_holds_nothing_by_nvml():
    assert driver_used(container("alice", pids=()), gpus(GpuProcess(9, MIB))).driver_used == 0
