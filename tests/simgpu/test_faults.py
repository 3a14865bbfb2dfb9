"""Injected faults reach every process of the machine, and only that machine."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

GPU_IS_LOST = "GPU is lost"
OUT_OF_MEMORY, ECC_UNCORRECTABLE = 2, 214

LOOK = """
handles = [value(n.nvmlDeviceGetHandleByIndex, index) for index in range(n.nvmlDeviceGetCount())]
answer = [h if isinstance(h, str) else n.nvmlDeviceGetIndex(h) for h in handles]
"""

WAIT = """
import sys
cards = [n.nvmlDeviceGetHandleByIndex(i) for i in {devices}]
events = n.nvmlEventSetCreate()
for card in cards:
    n.nvmlDeviceRegisterEvents(card, n.nvmlEventTypeXidCriticalError, events)
print("ready", flush=True)
sys.stdin.readline()
answer = []
for _ in range({count}):
    event = value(n.nvmlEventSetWait_v2, events, {timeout})
    answer.append(event if isinstance(event, str) else event.eventData)
n.nvmlEventSetFree(events)
"""


def test_a_lost_card_is_lost_for_all_and_comes_back(machine_of: Callable[[str], Any]) -> None:
    machine = machine_of("h200:2")
    assert machine.ask(LOOK) == [0, 1]
    machine.faults("lose", "1")
    assert machine.ask(LOOK) == [0, GPU_IS_LOST]
    machine.faults("restore", "1")
    assert machine.ask(LOOK) == [0, 1]


def test_weirs_own_nvml_leaves_a_lost_card_out_and_names_it_when_asked(
    machine_of: Callable[[str], Any],
) -> None:
    machine = machine_of("h200:2")
    uuid = machine.ask("answer = n.nvmlDeviceGetUUID(n.nvmlDeviceGetHandleByIndex(0))")
    machine.faults("lose", "0")
    code = f"""
from weir.errors import NoGpuError
from weir.nvml import DriverNvml
nvml = DriverNvml()
print([gpu.index for gpu in nvml.gpus()])
try:
    nvml.reading({uuid!r})
except NoGpuError as error:
    print(error)
"""
    result = machine.run(sys.executable, "-c", code)
    assert result.stdout.splitlines() == ["[1]", f"{uuid}: this card does not answer (GPU is lost)"]


def test_a_client_of_a_lost_card_fails_and_says_why(h200: Any) -> None:
    load = h200.start("--kernel-us", "100", "--report-every", "0.05")
    load.until("running")
    h200.faults("lose", "0")
    assert load.process.wait(30) == 1
    assert "CUDA_ERROR_" in load.process.stderr.read()


def test_a_named_call_fails_as_often_as_asked(h200: Any) -> None:
    h200.faults("fail", "nvmlDeviceGetCount", "999", "--calls", "2")
    code = (
        "answer = [value(n.nvmlDeviceGetCount) for _ in range(3)] + [value(n.nvmlDeviceGetHandleByIndex, 9)]"
    )
    assert h200.ask(code) == ["Unknown Error", "Unknown Error", 1, "Invalid Argument"]


def test_a_fault_can_be_for_whatever_is_called_next(h200: Any) -> None:
    h200.faults("fail", "*", "999", "--calls", "1")
    result = h200.run(sys.executable, "-c", "import pynvml; pynvml.nvmlInit()")
    assert "Unknown Error" in result.stderr
    assert h200.ask(LOOK) == [0]


def test_an_injected_result_is_what_a_client_gets(h200: Any) -> None:
    h200.faults("fail", "cuMemAlloc", str(OUT_OF_MEMORY))
    lines = h200.load("--allocate-step", "64MiB", "--allocate-until", "128MiB", "--launches", "1")
    assert lines[0]["errors"] == {"CUDA_ERROR_OUT_OF_MEMORY": 1}
    assert lines[0]["allocated"] == 0
    assert h200.load("--allocate-step", "64MiB", "--allocate-until", "128MiB")[0]["allocated"] == 128 << 20


def test_a_fault_can_be_for_one_process(h200: Any) -> None:
    victim, other = (h200.start("--kernel-us", "100", "--report-every", "0.05") for _ in range(2))
    for load in (victim, other):
        load.until("running")
    h200.faults("fail", "cuLaunchKernel", str(ECC_UNCORRECTABLE), "--pid", str(victim.pid))
    assert victim.process.wait(30) == 1
    assert "CUDA_ERROR_ECC_UNCORRECTABLE" in victim.process.stderr.read()
    assert other.stop() == 0


def test_faults_can_be_forgotten(h200: Any) -> None:
    h200.faults("fail", "*", "999", "--calls", "1000")
    h200.faults("lose", "0")
    h200.faults("clear")
    assert h200.ask(LOOK) == [0]


def waiting(machine: Any, devices: list[int], count: int, faults: list[list[str]], timeout: int) -> Any:
    """What an event set of these devices gives, when the faults are made while it waits."""
    code = WAIT.format(devices=devices, count=count, timeout=timeout)
    process = machine.start_python(code)
    assert process.stdout.readline() == "ready\n"
    process.stdin.write("\n")
    process.stdin.flush()
    thread = threading.Thread(target=lambda: [machine.faults(*fault) for fault in faults])
    thread.start()
    output, errors = process.communicate(timeout=30)
    thread.join()
    assert process.returncode == 0, errors
    return json.loads(output)


def test_an_event_set_is_woken_by_the_xids_of_its_cards(machine_of: Callable[[str], Any]) -> None:
    machine = machine_of("h200:2")
    machine.faults("xid", "1", "13")  # before anybody registered
    faults = [["xid", "0", "31"], ["xid", "1", "48"], ["xid", "1", "94"]]
    assert waiting(machine, [1], 2, faults, 20_000) == [48, 94]


def test_a_card_that_falls_off_is_an_xid_and_then_lost(h200: Any) -> None:
    assert waiting(h200, [0], 2, [["lose", "0"]], 20_000) == [79, GPU_IS_LOST]


def test_a_wait_without_an_event_times_out(h200: Any) -> None:
    assert waiting(h200, [0], 1, [], 50) == ["Timeout"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fail", "cuMemAlloc", "2", "--calls", "0"), "calls: 0: not allowed; a whole number from 1"),
        (("fail", "cuMemAlloc", "0"), "result: 0: not allowed; the number of an error"),
        (("lose", "3"), "No such device"),
        (("--machine", "h300", "clear"), "--simulate: h300: not allowed; one of h200, a100-40g, t4"),
    ],
)
def test_a_fault_that_cannot_be_is_refused(h200: Any, arguments: tuple[str, ...], message: str) -> None:
    result = h200.run(sys.executable, "-m", "simgpu.faults", *arguments)
    assert result.returncode != 0
    assert message in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "command",
    [("lose", "-1"), ("lose", "9" * 20), ("xid", "0", "x"), ("fail", "cuInit", "x"), ("restore", "")],
)
def test_a_number_that_cannot_be_is_refused_in_one_line(command: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "simgpu.faults", command[0], "--", *command[1:]],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "not allowed; a whole number from " in done.stderr
