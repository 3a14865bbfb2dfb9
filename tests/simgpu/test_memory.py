"""Device memory: what each kind costs on the card and in NVML, who may use and free it, what is refused."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MIB = 1 << 20
CONTEXT = 518 * MIB
USABLE = 143_155 * MIB
HEADERS = ["cu13", "cuda_runtime"]  # CUDA 13's and CUDA 12's, by the folders of their packages
PROGRAMS = Path(__file__).parent / "programs"

NVML_USED = """
h = n.nvmlDeviceGetHandleByIndex(0)
answer = {
    "card": n.nvmlDeviceGetMemoryInfo(h, version=n.nvmlMemory_v2).used,
    "processes": {p.pid: p.usedGpuMemory for p in n.nvmlDeviceGetComputeRunningProcesses(h)},
}
"""

# kind, pieces, bytes each; MiB of the card, MiB in NVML's figure, MiB kept when freed, until one waits.
# The rows of "alloc", "async" and "module" are measured on the H200; others follow from the same rounding.
COSTS = [
    ("alloc", 64, 512, 2, 2, 0),
    ("alloc", 64, MIB, 64, 64, 0),
    ("alloc", 64, MIB + 1, 128, 128, 0),
    ("alloc", 64, 2 * MIB + 1, 256, 256, 0),
    ("alloc", 3, 1024 * MIB, 3072, 3072, 0),
    ("pitch", 1, 32 * MIB, 32, 32, 0),
    ("managed", 1, 64 * MIB, 64, 0, 0),
    ("managed", 16, 512, 2, 0, 0),
    ("module", 1, MIB, 2, 2, 0),
    ("module", 1, 8 * MIB, 8, 8, 0),
    ("module", 20, 16, 0, 0, 0),
    ("host", 2, 64 * MIB, 0, 0, 0),
    ("registered", 2, MIB, 0, 0, 0),
    ("async", 1, 512, 32, 32, 32),
    ("async", 1, 33 * MIB, 64, 64, 64),
    ("async", 5, 7 * MIB, 64, 64, 64),
    ("async", 1, 100 * MIB + 1, 128, 128, 128),
    ("async", 3, 32 * MIB + 1, 192, 192, 192),
    ("async-freed-by-cuMemFree", 2, 1000, 32, 32, 32),
    ("pool", 3, 1000, 32, 32, 32),
    ("vmm", 5, 2 * MIB, 10, 10, 0),
    ("vmm-host", 2, 4 * MIB, 0, 0, 0),
    ("array", 1, 4 * MIB, 4, 4, 0),
    ("array3d", 2, 4 * MIB, 8, 8, 0),
    ("layered", 3, 4096, 2, 2, 0),
    ("mipmap", 1, 4 * MIB, 6, 6, 0),
    ("graph", 2, 32 * MIB + 1, 68, 68, 68),
]
RULES = ["rules", "pools", "mapping", "copies", "pointers", "share", "share_pools"]  # programs/memory_….c


def cases(name: str) -> list[str]:
    """The cases that a program lists at its end."""
    return re.findall(r"CASE\((\w+)\)", (PROGRAMS / f"{name}.c").read_text())


@pytest.mark.parametrize("headers", HEADERS)
@pytest.mark.parametrize(("kind", "count", "size", "card", "nvml", "kept"), COSTS)
def test_a_kind_of_memory_costs_what_the_card_charges(
    h200: Any,
    compile_c: Callable[..., Path],
    headers: str,
    kind: str,
    count: int,
    size: int,
    card: int,
    nvml: int,
    kept: int,
) -> None:
    program = compile_c("memory_kinds", headers=headers)
    result = h200.run(program, kind, str(count), str(size))
    assert (result.returncode, result.stderr) == (0, "")
    held, freed, trimmed = (
        [int(value) / MIB for value in line.split()] for line in result.stdout.splitlines()
    )
    assert held == [card, nvml]
    assert freed == [kept, kept]
    assert trimmed == [0, 0]


@pytest.mark.parametrize("headers", HEADERS)
@pytest.mark.parametrize(
    ("program", "case"),
    [(program, case) for program in RULES for case in cases(f"memory_{program}")],
)
def test_memory(
    machine_of: Callable[[str], Any], compile_c: Callable[..., Path], headers: str, program: str, case: str
) -> None:
    result = machine_of("h200:2").run(compile_c(f"memory_{program}", headers=headers), case)
    assert (result.returncode, result.stderr) == (0, "")


def test_a_program_without_address_space_is_told_so(h200: Any, compile_c: Callable[..., Path]) -> None:
    command = f"ulimit -v 4000000; exec {compile_c('memory_kinds')} alloc 1 512"
    result = h200.run("sh", "-c", command)
    assert result.returncode == 1
    assert "simgpu: no address space for device memory; it needs 128 GiB (see ulimit -v)\n" in result.stderr
    assert "(&piece->pointer, size) is 2, not 0" in result.stderr


# ---- many at once ----


@pytest.fixture
def fill(h200: Any, compile_c: Callable[..., Path]) -> Callable[[int, int], list[subprocess.Popen[str]]]:
    """Starts processes that take pieces of so many bytes until the card is full."""

    def start(processes: int, step: int) -> list[subprocess.Popen[str]]:
        command = [compile_c("memory_storm"), "fill", str(step)]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        started = [subprocess.Popen(command, env=h200.environment, **pipes) for _ in range(processes)]
        h200.processes += started
        assert [said(process) for process in started] == ["ready"] * processes
        for process in started:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        return started

    return start


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_processes_that_ask_at_once_get_the_card_and_no_byte_more(
    h200: Any, fill: Callable[[int, int], list[subprocess.Popen[str]]]
) -> None:
    step = 256 * MIB
    processes = fill(8, step)
    counts = {process.pid: int(said(process)) for process in processes}
    seen = h200.ask(NVML_USED)
    assert {int(pid): used for pid, used in seen["processes"].items()} == {
        pid: CONTEXT + count * step for pid, count in counts.items()
    }
    assert USABLE - step < seen["card"] == sum(seen["processes"].values()) <= USABLE


def test_what_a_killed_process_held_is_free_again(
    h200: Any, fill: Callable[[int, int], list[subprocess.Popen[str]]]
) -> None:
    step = 1024 * MIB
    (victim,) = fill(1, step)
    most = int(said(victim))
    victim.kill()
    victim.wait()
    assert h200.ask(NVML_USED) == {"card": 0, "processes": {}}
    (next_one,) = fill(1, step)
    assert int(said(next_one)) == most


@pytest.mark.parametrize("processes", [1, 3])
def test_the_ledger_is_exact_after_any_order_of_frees(
    h200: Any, compile_c: Callable[..., Path], processes: int
) -> None:
    program = compile_c("memory_storm")
    storms = [
        subprocess.Popen(
            [program, "churn", str(seed)], env=h200.environment, stderr=subprocess.PIPE, text=True
        )
        for seed in range(processes)
    ]
    h200.processes += storms
    complaints = [storm.stderr.read() for storm in storms if storm.stderr]
    assert complaints == [""] * processes
    assert [storm.wait(60) for storm in storms] == [0] * processes
    assert h200.ask(NVML_USED) == {"card": 0, "processes": {}}


# ---- a real client ----

BINDINGS = """
from cuda.bindings import driver as d
import sys

def ok(answer):
    assert answer[0] == 0, answer[0]
    return answer[1] if len(answer) == 2 else answer[1:] or None

ok(d.cuInit(0))
ok(d.cuCtxSetCurrent(ok(d.cuDevicePrimaryCtxRetain(0))))
before, total = ok(d.cuMemGetInfo())
pointer = ok(d.cuMemAlloc(1 << 20))
data, back = bytes(range(256)) * 16, bytearray(4096)
ok(d.cuMemcpyHtoD(pointer, data, 4096))
ok(d.cuMemcpyDtoH(back, pointer, 4096))
assert back == data
assert int(ok(d.cuMemGetAddressRange(int(pointer) + 5))[0]) == int(pointer)
kind = d.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
assert ok(d.cuPointerGetAttribute(kind, pointer)) == d.CUmemorytype.CU_MEMORYTYPE_DEVICE
ok(d.cuMemFree(pointer))
assert d.cuMemFree(pointer)[0] == d.CUresult.CUDA_ERROR_INVALID_VALUE
assert d.cuMemAlloc(total)[0] == d.CUresult.CUDA_ERROR_OUT_OF_MEMORY

stream = ok(d.cuStreamCreate(1))
pool = ok(d.cuDeviceGetDefaultMemPool(0))
pointer = ok(d.cuMemAllocAsync(40 << 20, stream))
reserved = d.CUmemPool_attribute.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT
assert int(ok(d.cuMemPoolGetAttribute(pool, reserved))) == 64 << 20
ok(d.cuMemFreeAsync(pointer, stream))
ok(d.cuStreamSynchronize(stream))
assert int(ok(d.cuMemPoolGetAttribute(pool, reserved))) == 0

prop = d.CUmemAllocationProp()
prop.type = d.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
prop.location.type = d.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
size = ok(d.cuMemGetAllocationGranularity(
    prop, d.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM))
handle = ok(d.cuMemCreate(size, prop, 0))
address = ok(d.cuMemAddressReserve(size, 0, 0, 0))
ok(d.cuMemMap(address, size, 0, handle, 0))
access = d.CUmemAccessDesc()
access.location = prop.location
access.flags = d.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
ok(d.cuMemSetAccess(address, size, [access], 1))
ok(d.cuMemsetD32(address, 7, 16))
ok(d.cuMemcpyDtoH(back, address, 64))
assert back[:64] == bytes([7, 0, 0, 0]) * 16
assert ok(d.cuMemGetInfo())[0] == before - size
ok(d.cuMemUnmap(address, size))
ok(d.cuMemRelease(handle))
ok(d.cuMemAddressFree(address, size))
assert ok(d.cuMemGetInfo())[0] == before
"""


def test_cuda_bindings_allocate_copy_pool_and_map(h200: Any) -> None:
    result = h200.run(sys.executable, "-c", BINDINGS)
    assert (result.returncode, result.stderr) == (0, "")
