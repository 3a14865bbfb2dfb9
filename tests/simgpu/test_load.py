"""The load generator on the simulated card: it does what its options say, and reports what it did."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hatch_build
from simgpu.load import PROGRAM
from weir.units import parse_memory

MIB = 1 << 20


@pytest.mark.parametrize(
    "shape",
    [
        (),
        ("--wait",),
        ("--wait-every", "7"),
        ("--wait-every", "7", "--streams", "3", "--events"),
        ("--queue", "1"),
        ("--queue", "7"),
        ("--streams", "3"),
        ("--ptds",),
        ("--ptds", "--dlsym"),
        ("--dlsym", "--wait"),
        ("--cooperative",),
        ("--extended",),
        ("--events",),
        ("--grid", "528"),
        ("--kernel-us", "0"),
    ],
    ids=" ".join,
)
def test_it_launches_as_often_as_asked_in_every_shape(h200: Any, shape: tuple[str, ...]) -> None:
    (line,) = h200.load("--kernel-us", "20", "--no-calibrate", "--launches", "100", *shape)
    assert (line["phase"], line["launches"], line["kernels"], line["errors"]) == ("done", 100, 100, {})
    assert line["kernel_seconds"] == pytest.approx(0 if "0" in shape else 0.002)


def test_a_graph_counts_all_its_kernels(h200: Any) -> None:
    (line,) = h200.load("--kernel-us", "20", "--no-calibrate", "--launches", "10", "--graph", "5", "--events")
    assert (line["launches"], line["kernels"]) == (10, 50)
    assert line["event_seconds"] >= 50 * 20e-6


def test_kernels_take_their_time_on_the_card(h200: Any) -> None:
    (line,) = h200.load("--kernel-us", "1000", "--no-calibrate", "--launches", "200", "--events")
    assert line["t"] >= 0.2
    assert line["event_seconds"] == pytest.approx(0.2, rel=0.02)


def test_it_tells_what_launches_took(h200: Any) -> None:
    (line,) = h200.load("--kernel-us", "2000", "--no-calibrate", "--launches", "50", "--wait", "--latency")
    assert 1990 <= line["p50_us"] <= line["p99_us"]


def test_launches_that_arrive_at_random_wait_for_those_before_them(h200: Any) -> None:
    shape = ("--kernel-us", "2000", "--no-calibrate", "--wait", "--latency", "--launches", "100")
    (rare,) = h200.load(*shape, "--every-ms", "10")
    assert rare["t"] == pytest.approx(1.0, rel=0.5)
    (crowded,) = h200.load(*shape, "--every-ms", "1")  # twice what the card can do: the last waits for half
    assert crowded["p99_us"] > 50_000 > rare["p50_us"]


def test_it_thinks_after_each_launch_and_waits_only_where_it_is_told(h200: Any) -> None:
    shape = ("--kernel-us", "5000", "--no-calibrate", "--launches", "30", "--think-us", "5000")
    (waits,) = h200.load(*shape, "--wait-every", "1")
    assert waits["t"] >= 30 * 0.010
    (ahead,) = h200.load(*shape, "--wait-every", "30")
    assert 30 * 0.005 <= ahead["t"] < waits["t"]


def test_it_stops_after_its_seconds(h200: Any) -> None:
    (line,) = h200.load("--kernel-us", "1000", "--seconds", "0.5", "--queue", "4")
    assert 0.5 <= line["t"] < 5
    assert 0 < line["kernel_seconds"] <= line["t"] + 0.01
    assert line["launches_per_second"] == pytest.approx(line["launches"] / line["t"], rel=0.05)


def test_a_warm_up_is_not_counted(h200: Any) -> None:
    (line,) = h200.load("--kernel-us", "100", "--warmup", "0.2", "--launches", "10")
    assert (line["launches"], line["kernels"]) == (10, 10)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_its_last_line(h200: Any, how: signal.Signals) -> None:
    load = h200.start("--kernel-us", "500", "--report-every", "0.05")
    first = load.until("running")
    load.process.send_signal(how)
    last = load.until("done")
    assert load.process.wait(30) == 0
    assert last["kernels"] == last["launches"] > first["kernels"]
    assert last["t"] > first["t"]


def test_it_reports_what_was_allocated_and_holds_it(h200: Any) -> None:
    load = h200.start("--memory", "64MiB,2GiB,4096", "--hold", "60")
    assert load.until("allocated")["allocated"] == 64 * MIB + 2048 * MIB + 4096
    assert load.stop() == 0


SIZED = "4096,4096B,3K,3KB,3Ki,3KiB,1.5M,2GiB,2GB"


def test_sizes_are_read_as_weir_run_reads_them(h200: Any) -> None:
    load = h200.start("--memory", SIZED, "--hold", "60")
    assert load.until("allocated")["allocated"] == sum(
        parse_memory("", size, 1 << 40) for size in SIZED.split(",")
    )
    assert load.stop() == 0


def test_it_allocates_until_the_card_is_full(h200: Any) -> None:
    (full, done) = h200.load("--allocate-step", "1GiB")
    assert full["errors"] == {"CUDA_ERROR_OUT_OF_MEMORY": 1}
    assert full["allocated"] == done["allocated"]
    assert (143_155 - 518 - 1024) * MIB < full["allocated"] <= (143_155 - 518) * MIB


def test_an_allocation_that_must_succeed_and_does_not_is_a_failure(h200: Any) -> None:
    result = h200.run(PROGRAM, "--memory", "200GiB")
    assert result.returncode == 1
    assert result.stderr == "weir-load: --memory: 214748364800 bytes: CUDA_ERROR_OUT_OF_MEMORY\n"


def test_each_of_its_processes_reports_to_one_file(h200: Any, tmp_path: Path) -> None:
    report = tmp_path / "report"
    assert h200.load(
        "--processes", "4", "--kernel-us", "50", "--launches", "20", "--no-calibrate", "--report", str(report)
    ) == []  # fmt: skip
    lines = [json.loads(line) for line in report.read_text().splitlines()]
    assert sorted(line["process"] for line in lines) == [0, 1, 2, 3]
    assert len({line["pid"] for line in lines}) == 4
    assert all(line["kernels"] == 20 for line in lines)


@pytest.mark.parametrize("arguments", ["--help", "--launches 1", "--seconds 60 --report-every 0.05"])
def test_output_that_cannot_be_written_ends_it_in_one_line(h200: Any, arguments: str) -> None:
    result = h200.run("sh", "-c", f'"$0" {arguments} >/dev/full', PROGRAM)
    why = "No space left on device; give it a place that can be written to"
    assert (result.returncode, result.stderr) == (5, f"weir-load: standard output: {why}\n")


@pytest.mark.parametrize(
    ("file", "why"), [("/dev/full", "No space left on device"), ("/none/report", "No such file or directory")]
)
def test_a_report_that_cannot_be_written_ends_it_in_one_line(h200: Any, file: str, why: str) -> None:
    result = h200.run(PROGRAM, "--launches", "1", "--report", file)
    assert (result.returncode, result.stderr) == (5, f"weir-load: --report: {file}: {why}\n")


@pytest.mark.parametrize("arguments", ["--help", "--launches 1"])
def test_an_output_that_was_closed_is_no_failure(h200: Any, arguments: str) -> None:
    assert h200.run("sh", "-c", f'"$0" {arguments} >&- 2>&-', PROGRAM).returncode == 0


def test_a_signal_to_the_first_process_ends_them_all(
    h200: Any, eventually: Callable[[Callable[[], bool]], None]
) -> None:
    load = h200.start("--processes", "3", "--kernel-us", "500", "--report-every", "0.05")
    while len({line["process"] for line in load.lines}) < 3:
        load.until("running")
    assert load.stop() == 0
    pids = {line["pid"] for line in load.lines}
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


def test_kernels_are_as_long_as_asked_where_a_limiter_holds_their_launches(tmp_path: Path) -> None:
    source = Path(__file__).parent / "programs/held_card.c"
    command = [*hatch_build.compiler(), "-std=gnu17", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    subprocess.run([*command, "-o", tmp_path / "libcuda.so.1", source], check=True)
    result = subprocess.run(
        [PROGRAM, "--kernel-us", "1000", "--launches", "10"],
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert int(result.stderr) == pytest.approx(1e6, rel=0.01)


def test_it_runs_on_the_card_that_was_asked_for(machine_of: Callable[[str], Any]) -> None:
    machine = machine_of("t4:2")
    load = machine.start("--device", "1", "--memory", "8MiB", "--hold", "60")
    assert load.until("allocated")["device"] == 1
    code = """
cards = [n.nvmlDeviceGetHandleByIndex(index) for index in range(2)]
answer = [len(n.nvmlDeviceGetComputeRunningProcesses(card)) for card in cards]
"""
    assert machine.ask(code) == [0, 1]


def test_two_loads_share_one_card_and_lose_a_tenth(h200: Any) -> None:
    loads = [h200.start("--kernel-us", "1000", "--warmup", "0.5", "--seconds", "3") for _ in range(2)]
    shares = [line["kernel_seconds"] / line["t"] for line in (load.until("done") for load in loads)]
    assert shares == pytest.approx([0.45, 0.45], abs=0.06)


NUMBER = "a number from 0.001 to 1000000000"
COUNT = "a whole number from 1 to 1000000"
SIZES = "up to 64 sizes separated by commas, as 64MiB,2GiB"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--queue=", f"--queue: '': not allowed; {COUNT}"),
        ("--queue 0", f"--queue: 0: not allowed; {COUNT}"),
        ("--queue 1.5", f"--queue: 1.5: not allowed; {COUNT}"),
        ("--wait --wait-every 2", "--wait-every: with --wait: not allowed; one of the two"),
        ("--wait-every 0", f"--wait-every: 0: not allowed; {COUNT}"),
        ("--think-us -1", "--think-us: -1: not allowed; a number from 0 to 1000000"),
        ("--seconds nan", f"--seconds: nan: not allowed; {NUMBER}"),
        ("--seconds -1", f"--seconds: -1: not allowed; {NUMBER}"),
        ("--memory 4XB", f"--memory: 4XB: not allowed; {SIZES}"),
        ("--memory 4iB", f"--memory: 4iB: not allowed; {SIZES}"),
        ("--memory 4Gb", f"--memory: 4Gb: not allowed; {SIZES}"),
        ("--memory 1,,2", f"--memory: 1,,2: not allowed; {SIZES}"),
        ("--memory B", f"--memory: B: not allowed; {SIZES}"),
        (
            "--allocate-step -5",
            "--allocate-step: -5: not allowed; bytes, as 1048576, 512KiB, 64MiB or 2GiB",
        ),
        (
            "--allocate-until 1MiB",
            "--allocate-until: alone: not allowed; together with --allocate-step",
        ),
        (
            "--ptds --streams 2",
            "--streams: more than 1: not allowed; one stream with --ptds: the thread's own",
        ),
        ("more", "argument: more: not allowed; options only, see --help"),
    ],
)
def test_a_bad_option_is_refused_in_one_line(arguments: str, message: str) -> None:
    result = subprocess.run([PROGRAM, *arguments.split()], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (2, f"weir-load: {message}\n")


def test_without_a_driver_it_says_so() -> None:
    environment = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
    result = subprocess.run([PROGRAM], env=environment, capture_output=True, text=True, check=False)
    if "no GPU driver here" not in result.stderr:
        pytest.skip("this host has a driver")
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert "weir run --simulate h200 -- weir load" in result.stderr


def test_weir_load_is_the_program() -> None:
    weir = Path(sys.executable).parent / "weir"
    result = subprocess.run([weir, "load", "--queue", "0"], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr.startswith("weir-load: --queue: 0")
