"""NVML's utilisation is sampled and late as it was measured: exactly in virtual time, coarsely for real."""

from __future__ import annotations

import itertools
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hatch_build import COMMON, compiler, include_flags

ROOT = Path(__file__).parents[2]

UTILIZATION = """
import time
card = n.nvmlDeviceGetHandleByIndex(0)
samples = value(n.nvmlDeviceGetProcessUtilization, card, int((time.time() - 1) * 1e6))
answer = {
    "card": n.nvmlDeviceGetUtilizationRates(card).gpu,
    "processes": {} if isinstance(samples, str) else {s.pid: s.smUtil for s in samples},
    "energy": n.nvmlDeviceGetTotalEnergyConsumption(card),
    "power": n.nvmlDeviceGetPowerUsage(card),
    "reasons": n.nvmlDeviceGetCurrentClocksEventReasons(card),
}
"""

Response = Callable[..., list[tuple[str, str]]]


@pytest.fixture(scope="module")
def response(tmp_path_factory: pytest.TempPathFactory) -> Response:
    """`response(ages, phase=…, window=…)`: what process and card show then of a load of 2 s; all in ms."""
    program = tmp_path_factory.mktemp("native") / "step_response"
    sources = [
        "tests/simgpu/step_response.c",
        "simgpu/src/nvml/utilization.c",
        "simgpu/src/engine/history.c",
    ]
    command = [*compiler(), *COMMON, "-Werror", *include_flags(), "-o", str(program), *sources]
    subprocess.run(command, cwd=ROOT, check=True)

    def run(ages: list[int], phase: int = 0, window: int = 1000) -> list[tuple[str, str]]:
        arguments = [str(number) for number in (phase, window, *ages)]
        output = subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout
        return [(line.split()[0], line.split()[1]) for line in output.splitlines()]

    return run


def test_a_load_that_starts_reads_as_measured(response: Response) -> None:
    measured = {198: "17", 398: "37", 588: "57", 778: "77", 1068: "97", 1258: "100"}  # an H200, last second
    shown = response(list(measured), phase=30)  # 32 there; the history is kept in steps of 10 ms
    assert [process for process, _ in shown] == list(measured.values())


@pytest.mark.parametrize(
    ("window", "ages", "shown"),
    [
        (1000, [0, 199, 200, 400, 800, 1000, 2000], [0, 0, 20, 40, 80, 100, 100]),
        (1000, [2199, 2200, 2400, 2800, 3000, 9000], [100, 80, 60, 20, 0, 0]),
        (2000, [1000, 2000, 3000, 4000], [50, 100, 50, 0]),
        (300, [200, 299, 400], [50, 50, 100]),
        (100, [350], ["-"]),
    ],
    ids=["rising", "falling", "over two seconds", "over two samples", "no sample so new"],
)
def test_a_process_is_shown_by_the_average_of_the_samples_asked_for(
    response: Response, window: int, ages: list[int], shown: list[int | str]
) -> None:
    assert [process for process, _ in response(ages, window=window)] == [str(value) for value in shown]


def test_a_card_is_shown_by_its_newest_sample(response: Response) -> None:
    ages = {0: "0", 199: "0", 200: "100", 2199: "100", 2200: "0"}
    assert [card for _, card in response(list(ages))] == list(ages.values())


def test_asked_for_everything_it_is_the_average_of_a_life(response: Response) -> None:
    life = 500_000  # ms that the process existed before its load
    (early, late) = response([2000, life], window=2 * life)
    assert (early[0], late[0]) == ("0", "0"), "2 s of 500 s and of 1000 s"


def test_utilization_of_a_running_load_comes_late_and_goes_late(
    h200: Any, eventually: Callable[[Callable[[], bool]], None]
) -> None:
    idle = h200.ask(UTILIZATION)
    load = h200.start("--kernel-us", "1000", "--seconds", "2.5", "--hold", "60", "--report-every", "0.05")
    load.until("running")
    eventually(lambda: h200.ask(UTILIZATION)["processes"].get(str(load.pid), 0) >= 90)
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
    eventually(lambda: list(h200.ask(UTILIZATION)["processes"]) == [str(load.pid)])
    load.process.kill()
    load.process.wait()
    eventually(lambda: not h200.ask(UTILIZATION)["processes"])


def test_samples_older_than_asked_for_are_not_given(h200: Any) -> None:
    load = h200.start("--memory", "64MiB", "--hold", "60")
    load.until("allocated")
    later = int((time.time() + 3600) * 1e6)
    code = f"answer = value(n.nvmlDeviceGetProcessUtilization, n.nvmlDeviceGetHandleByIndex(0), {later})"
    assert h200.ask(code) == "Not Found"


SAMPLES = """
from ctypes import byref, c_uint, c_ulonglong
card = n.nvmlDeviceGetHandleByIndex(0)
get = n._nvmlGetFunctionPointer("nvmlDeviceGetSamples")
size, kind, room = c_uint(), c_uint(99), c_uint(3)
some = (n.c_nvmlSample_t * 3)()
asked = get(card, 1, c_ulonglong(0), byref(kind), byref(size), None)
cut = get(card, 1, c_ulonglong(0), byref(kind), byref(room), some)
_, found = n.nvmlDeviceGetSamples(card, n.NVML_GPU_UTILIZATION_SAMPLES, 0)
stamps = [one.timeStamp for one in found]
again = n.nvmlDeviceGetSamples(card, n.NVML_GPU_UTILIZATION_SAMPLES, 0)[1]
newer = value(n.nvmlDeviceGetSamples, card, n.NVML_GPU_UTILIZATION_SAMPLES, stamps[0])
answer = {
    "calls": [asked, size.value, kind.value, cut, room.value],
    "cut": [one.timeStamp for one in some],
    "values": [one.sampleValue.uiVal for one in found],
    "stamps": stamps,
    "again": [one.timeStamp for one in again],
    "newer": [one.timeStamp for one in newer[1]],
    "wall": time.time(),
    "none": value(n.nvmlDeviceGetSamples, card, n.NVML_GPU_UTILIZATION_SAMPLES, int((time.time() + 9) * 1e6)),
    "power": value(n.nvmlDeviceGetSamples, card, n.NVML_TOTAL_POWER_SAMPLES, 0),
    "bad": [
        get(card, 99, c_ulonglong(0), byref(kind), byref(size), None),
        get(card, 1, c_ulonglong(0), byref(kind), byref(c_uint(0)), some),
        get(card, 1, c_ulonglong(0), byref(kind), None, some),
    ],
}
"""


def test_the_card_keeps_its_samples_for_a_while(
    h200: Any, eventually: Callable[[Callable[[], bool]], None]
) -> None:
    load = h200.start("--kernel-us", "1000", "--seconds", "1", "--hold", "60", "--report-every", "0.05")
    load.until("running")
    eventually(lambda: h200.ask(UTILIZATION)["card"] >= 90)
    eventually(lambda: h200.ask(UTILIZATION)["card"] == 0)
    seen = h200.ask("import time\n" + SAMPLES)
    stamps = seen["stamps"]
    assert seen["calls"] == [0, 11, 1, 0, 3], "size, unsigned values, and what fits"
    assert len(stamps) <= 11
    assert {later - earlier for earlier, later in itertools.pairwise(stamps)} == {200_000}
    assert seen["cut"] == sorted(seen["cut"])
    assert seen["cut"][0] <= stamps[0], "the oldest first"
    assert {*seen["again"]} & {*stamps}, "a sample keeps its stamp"
    assert seen["newer"][0] in stamps[1:]
    assert 0 <= seen["wall"] - stamps[-1] / 1e6 < 2
    assert max(seen["values"]) >= 90
    assert seen["values"][-1] == 0
    assert (seen["none"], seen["power"], seen["bad"]) == ("Not Found", "Not Supported", [2, 2, 2])
