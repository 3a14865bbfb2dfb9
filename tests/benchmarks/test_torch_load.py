"""What torch_load.py says of its time under CUPTI, over a stand-in for what it calls of PyTorch."""

from __future__ import annotations

import contextlib
import importlib
import sys
import time
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


class Stand:
    """A profiler that saw two kernels side by side, one after them, and something on the CPU."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        spans = [
            ("gpu", 0, 300_000),
            ("gpu", 200_000, 400_000),
            ("gpu", 900_000, 1_000_000),
            ("cpu", 0, 10**9),
        ]
        self._events = [
            SimpleNamespace(device_type=device, time_range=SimpleNamespace(start=start, end=end))
            for device, start, end in spans
        ]
        mark = SimpleNamespace(synchronize=lambda: None, record=lambda: None)
        self.cuda = SimpleNamespace(Event=lambda: mark, synchronize=lambda: self.calls.append("synchronize"))
        self.autograd = SimpleNamespace(DeviceType=SimpleNamespace(CUDA="gpu"))
        self.profiler = SimpleNamespace(profile=self._profile, ProfilerActivity=SimpleNamespace(CUDA="gpu"))

    @contextlib.contextmanager
    def _profile(self, activities: list[str]) -> Iterator[Any]:
        self.calls.append("begin")
        yield SimpleNamespace(events=lambda: self._events)
        self.calls.append("end")


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ModuleType, Stand]]:
    stand = Stand()
    monkeypatch.setitem(sys.modules, "torch", stand)
    monkeypatch.delitem(sys.modules, "benchmarks.torch_load", raising=False)
    yield importlib.import_module("benchmarks.torch_load"), stand
    sys.modules.pop("benchmarks.torch_load", None)


def test_kernels_side_by_side_count_once(loaded: tuple[ModuleType, Stand]) -> None:
    load, stand = loaded
    with stand.profiler.profile(activities=[]) as profile:
        assert load.busy_seconds(profile) == pytest.approx(0.5)


def test_steps_before_the_profile_are_not_in_it_and_its_own_are_counted(
    loaded: tuple[ModuleType, Stand],
) -> None:
    load, stand = loaded
    steps: list[float] = []

    def step() -> None:
        steps.append(time.monotonic())
        time.sleep(0.001)

    seen = load.profiled(step, 0.05)
    assert stand.calls == ["synchronize", "begin", "synchronize", "end"]
    assert seen["profiled_steps"] == len(steps) > 0
    assert seen["kernel_share"] * seen["profiled_seconds"] == pytest.approx(0.5)
