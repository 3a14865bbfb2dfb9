"""The slots that the benchmark of shares makes by itself, without an agent."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, cast

from benchmarks.shares import Bench
from limiter.pages import in_force

UUID = "GPU-00000000-0000-0000-0000-000000000001"


def test_its_slots_are_in_force(tmp_path: Path) -> None:
    """A deadline that is too far off counts as noise, and its slot as none."""
    bench = Bench(tmp_path, nvml=cast(Any, None), uuid=UUID, seconds=20, kernel_us=1000)
    paired, alone = bench.control(60, 0, 30_000_000, 50_000_000), bench.control(60)
    now = time.monotonic_ns()
    assert in_force(paired.slot_deadline, now)
    assert in_force(paired.slot_deadline, now + int(bench.seconds * 1e9))
    assert not in_force(alone.slot_deadline, now)
