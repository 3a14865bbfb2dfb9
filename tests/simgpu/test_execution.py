"""Execution as programs see it: C clients (programs/*.c), cuda-bindings, several processes on a card."""

from __future__ import annotations

import re
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path(__file__).parent / "programs"
CLIENTS = (
    "execution",
    "modules",
    "streams",
    "words",
    "words_ends",
    "words_graphs",
    "graphs",
    "graph_updates",
    "captures",
    "capture_rules",
    "threads",
)


def cases(name: str) -> list[str]:
    """The cases that a program lists at its end."""
    return re.findall(r"CASE\((\w+)\)", (PROGRAMS / f"{name}.c").read_text())


@pytest.mark.parametrize(("program", "case"), [(name, case) for name in CLIENTS for case in cases(name)])
def test_execution(h200: Any, compile_c: Callable[..., Path], program: str, case: str) -> None:
    result = h200.run(compile_c(program), case)
    assert (result.returncode, result.stderr) == (0, "")


BINDINGS = """
from cuda.bindings import driver as d
import ctypes

def ok(result):
    error, *values = result
    assert error == d.CUresult.CUDA_SUCCESS, d.cuGetErrorName(error)[1]
    return values[0] if len(values) == 1 else values

ok(d.cuInit(0))
"""

LAUNCH = (
    BINDINGS
    + """
print(ok(d.cuDeviceGetName(64, 0)).split(b"\\0")[0].decode(), ok(d.cuDeviceGetCount()))
ok(d.cuCtxCreate(None, 0, 0))
ptx = b".version 8.0\\n.target sm_90\\n.visible .entry weir_spin(.param .u64 ns) { ret; }\\0"
kernel = ok(d.cuModuleGetFunction(ok(d.cuModuleLoadData(ptx)), b"weir_spin"))
stream, start, end = ok(d.cuStreamCreate(0)), ok(d.cuEventCreate(0)), ok(d.cuEventCreate(0))

def spin(ns):
    ok(d.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, ((ns,), (ctypes.c_uint64,)), 0))

spin(300_000_000)
ok(d.cuEventRecord(start, stream))
spin(12_500_000)
ok(d.cuEventRecord(end, stream))
assert d.cuEventQuery(end)[0] == d.CUresult.CUDA_ERROR_NOT_READY
ok(d.cuEventSynchronize(end))
print(round(ok(d.cuEventElapsedTime(start, end)), 4))
"""
)


def test_cuda_bindings_run_unchanged(h200: Any) -> None:
    result = h200.run(sys.executable, "-c", LAUNCH)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["NVIDIA H200 1", "12.5"]


UUIDS = (
    BINDINGS
    + "print(*(bytes(ok(d.cuDeviceGetUuid(i)).bytes).hex() for i in range(ok(d.cuDeviceGetCount()))))"
)


def visible(machine: Any, devices: str | None) -> list[str] | str:
    """UUIDs of the cards a program sees, or the error it gets."""
    result = machine.run(
        sys.executable, "-c", UUIDS, **({} if devices is None else {"CUDA_VISIBLE_DEVICES": devices})
    )
    if result.returncode == 0:
        return list(result.stdout.split())
    return str(result.stderr.splitlines()[-1])


def test_cuda_visible_devices_chooses_and_orders_cards(machine_of: Callable[[str], Any]) -> None:
    machine = machine_of("a100-40g:3")
    cards = visible(machine, None)
    assert isinstance(cards, list)
    assert len(set(cards)) == 3
    third = str(uuid.UUID(cards[2]))
    assert visible(machine, "2,0") == [cards[2], cards[0]]
    assert visible(machine, f"GPU-{third},1") == [cards[2], cards[1]]
    assert visible(machine, f"GPU-{third[:8]}") == [cards[2]]
    assert visible(machine, "1,7,0") == [cards[1]]
    assert "CUDA_ERROR_NO_DEVICE" in visible(machine, "")
    assert "CUDA_ERROR_NO_DEVICE" in visible(machine, "1,1")


ATTRIBUTES = (
    BINDINGS
    + """
a = d.CUdevice_attribute
for name in ("MULTIPROCESSOR_COUNT", "COMPUTE_CAPABILITY_MAJOR", "COMPUTE_CAPABILITY_MINOR", "WARP_SIZE"):
    print(ok(d.cuDeviceGetAttribute(getattr(a, "CU_DEVICE_ATTRIBUTE_" + name), 0)))
bus = ok(d.cuDeviceGetPCIBusId(32, 1)).split(b"\\0")[0]
peers = [ok(d.cuDeviceCanAccessPeer(0, 1)), ok(d.cuDeviceCanAccessPeer(1, 1))]
print(int(ok(d.cuDeviceGetByPCIBusId(bus))), *peers)
atomics = d.CUdevice_P2PAttribute.CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED
print(ok(d.cuDeviceGetP2PAttribute(atomics, 0, 1)))
"""
)


@pytest.mark.parametrize(
    ("model", "answers"),
    [
        ("h200:2", ["132", "9", "0", "32", "1 1 0", "1"]),
        ("a100-40g:2", ["108", "8", "0", "32", "1 1 0", "1"]),
        ("t4:2", ["40", "7", "5", "32", "1 1 0", "0"]),
    ],
)
def test_each_model_says_what_it_is(machine_of: Callable[[str], Any], model: str, answers: list[str]) -> None:
    result = machine_of(model).run(sys.executable, "-c", ATTRIBUTES)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == answers


@pytest.mark.parametrize(("call", "ns"), [("launches", 3500), ("barriers", 750)])
def test_a_call_costs_what_it_does_on_the_machine_if_asked(
    h200: Any, compile_c: Callable[..., Path], call: str, ns: int
) -> None:
    # Of the model; a busy host can only add to that.
    assert float(h200.run(compile_c("storm"), call, SIMGPU_HOST_COSTS="1").stdout) >= ns


LOST = (
    BINDINGS
    + """
from simgpu.faults import fail_calls, lose_device, restore_device
first, second = ok(d.cuCtxCreate(None, 0, 0)), ok(d.cuCtxCreate(None, 0, 1))

def errors():
    answer = []
    for context in first, second:
        ok(d.cuCtxSetCurrent(context))
        calls = d.cuStreamCreate(0), d.cuEventCreate(0), d.cuCtxSynchronize(), d.cuMemAlloc(1)
        answer.append({str(error.name) for error, *_ in calls})
    return answer

print(*errors())
lose_device(0)
print(*errors(), d.cuCtxCreate(None, 0, 0)[0].name)
restore_device(0)
print(*errors())
fail_calls("cuStreamCreate", 700, calls=2)
print(*(d.cuStreamCreate(0)[0].name for _ in range(3)))
"""
)


def test_calls_fail_on_a_lost_card_and_as_injected(machine_of: Callable[[str], Any]) -> None:
    result = machine_of("h200:2").run(sys.executable, "-c", LOST)
    assert result.returncode == 0, result.stderr
    fine, gone = "{'CUDA_SUCCESS'}", "{'CUDA_ERROR_DEVICE_UNAVAILABLE'}"
    assert result.stdout.splitlines() == [
        f"{fine} {fine}",
        f"{gone} {fine} CUDA_ERROR_DEVICE_UNAVAILABLE",
        f"{fine} {fine}",
        "CUDA_ERROR_ILLEGAL_ADDRESS CUDA_ERROR_ILLEGAL_ADDRESS CUDA_SUCCESS",
    ]
