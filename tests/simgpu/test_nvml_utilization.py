"""NVML's utilisation is as late as it was measured: exactly in virtual time, coarsely for real."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hatch_build import COMMON, compiler, include_flags

ROOT = Path(__file__).parents[2]

UTILIZATION = """
card = n.nvmlDeviceGetHandleByIndex(0)
samples = value(n.nvmlDeviceGetProcessUtilization, card, 0)
answer = {
    "card": n.nvmlDeviceGetUtilizationRates(card).gpu,
    "processes": {} if isinstance(samples, str) else {s.pid: s.smUtil for s in samples},
    "energy": n.nvmlDeviceGetTotalEnergyConsumption(card),
    "power": n.nvmlDeviceGetPowerUsage(card),
    "reasons": n.nvmlDeviceGetCurrentClocksEventReasons(card),
}
"""

MEASURED = {0: 0, 190: 1000, 500: 4600, 900: 7800, 1300: 9900, 1350: 10000, 2000: 10000}


def shown_after(seconds: float) -> float:
    """Percent that a full load which began that long ago is shown with, at most."""
    return next((value / 100 for age, value in MEASURED.items() if age >= seconds * 1000), 100)


@pytest.fixture(scope="module")
def step_response(tmp_path_factory: pytest.TempPathFactory) -> Callable[[list[int]], list[tuple[int, int]]]:
    program = tmp_path_factory.mktemp("native") / "step_response"
    sources = [
        "tests/simgpu/step_response.c",
        "simgpu/src/nvml/utilization.c",
        "simgpu/src/engine/history.c",
    ]
    command = [*compiler(), *COMMON, "-Werror", *include_flags(), "-o", str(program), *sources]
    subprocess.run(command, cwd=ROOT, check=True)

    def run(ages: list[int]) -> list[tuple[int, int]]:
        output = subprocess.run([program, *map(str, ages)], capture_output=True, text=True, check=True).stdout
        return [(int(line.split()[0]), int(line.split()[1])) for line in output.splitlines()]

    return run


def test_a_full_load_reads_as_measured(step_response: Callable[[list[int]], list[tuple[int, int]]]) -> None:
    assert [rising for rising, _ in step_response(list(MEASURED))] == list(MEASURED.values())


def test_an_ended_load_fades_as_it_came(
    step_response: Callable[[list[int]], list[tuple[int, int]]],
) -> None:
    ages = [0, 190, 500, 900, 1300, 1340, 1350, 1400]
    assert all(falling == 10000 - min(rising, 10000) for rising, falling in step_response(ages))
    assert step_response([1350])[0][1] == 0


def test_utilization_of_a_running_load_comes_late_and_goes_late(
    h200: Any, eventually: Callable[[Callable[[], bool]], None]
) -> None:
    idle = h200.ask(UTILIZATION)
    before = time.monotonic()
    load = h200.start("--kernel-us", "1000", "--seconds", "2.5", "--hold", "60", "--report-every", "0.05")
    load.until("running")
    early = h200.ask(UTILIZATION)["processes"][str(load.pid)]
    assert early <= shown_after(time.monotonic() - before) + 2, "never ahead of what the lag allows"
    eventually(lambda: h200.ask(UTILIZATION)["processes"][str(load.pid)] >= 90)
    busy = h200.ask(UTILIZATION)
    assert busy["card"] >= 80
    assert busy["power"] > 500_000 > idle["power"]
    eventually(lambda: h200.ask(UTILIZATION)["processes"][str(load.pid)] == 0)
    after = h200.ask(UTILIZATION)
    assert after["card"] == 0
    assert idle["reasons"] == 1, "an idle card's clocks are down"
    assert after["reasons"] == 0, "a context keeps them up"
    assert after["energy"] - idle["energy"] > 1000 * 700


def test_a_killed_process_leaves_the_list(
    h200: Any, eventually: Callable[[Callable[[], bool]], None]
) -> None:
    load = h200.start("--memory", "64MiB", "--hold", "60")
    load.until("allocated")
    assert list(h200.ask(UTILIZATION)["processes"]) == [str(load.pid)]
    load.process.kill()
    load.process.wait()
    eventually(lambda: not h200.ask(UTILIZATION)["processes"])


def test_samples_older_than_asked_for_are_not_given(h200: Any) -> None:
    load = h200.start("--memory", "64MiB", "--hold", "60")
    load.until("allocated")
    later = int((time.time() + 3600) * 1e6)
    code = f"answer = value(n.nvmlDeviceGetProcessUtilization, n.nvmlDeviceGetHandleByIndex(0), {later})"
    assert h200.ask(code) == "Not Found"
