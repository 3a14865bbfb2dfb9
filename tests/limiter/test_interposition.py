"""Hooks are reached whichever way a program finds the driver's functions, and are what it asked for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from limiter.pages import ControlDevice
from simgpu.machines import LIBRARIES

from .conftest import LIBRARY, MIB, ROOT, Compile, Machine, MakeSlice, Slice

TRACE = ROOT / "tests/simgpu/data/cudart13_getproc_trace.txt"
CONTEXT = 518 * MIB

Pointers = Callable[..., list[list[str]]]


@pytest.fixture
def slice_(machine: Machine, make_slice: MakeSlice) -> Slice:
    """1 GiB of the first card."""
    return make_slice(ControlDevice(uuid=machine.uuids()[0], memory_limit=1 << 30, context_bytes=CONTEXT))


def execute(machine: Machine, slice_: Slice | None, *command: str | Path) -> str:
    """The output of a program in the slice, or with no limiter at all."""
    environment = machine.inside(slice_) if slice_ else machine.environment
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_a_start_of_the_cuda_runtime_gets_the_driver_s_own_versions_and_stream_variants(
    machine: Machine, slice_: Slice, compile_program: Compile
) -> None:
    program = compile_program("pointers")
    bare = [line.split() for line in execute(machine, None, program, "trace", TRACE).splitlines()]
    held = [line.split() for line in execute(machine, slice_, program, "trace", TRACE).splitlines()]
    assert len(held) == 439
    assert [line[:3] for line in held] == [line[:3] for line in bare]  # the same function, by its full name
    hooked = {line[2] for line in held if line[3] == LIBRARY.name}
    assert {"cuMemAlloc_v2", "cuMemAllocAsync", "cuMemAllocAsync_ptsz", "cuGetProcAddress_v2"} <= hooked
    assert {"cuLaunchKernel", "cuLaunchKernel_ptsz", "cuLaunchKernelEx_ptsz", "cuGraphLaunch_ptsz"} <= hooked
    assert not {line[2] for line in held if line[3] != LIBRARY.name} & hooked


def test_dlsym_gives_hooks_for_what_is_hooked_and_the_driver_for_the_rest(
    machine: Machine, slice_: Slice, compile_program: Compile
) -> None:
    names = ("cuMemAlloc_v2", "cuMemGetInfo_v2", "cuCtxGetDevice", "cuMemcpyHtoD_v2", "cuNoSuchThing")
    output = execute(machine, slice_, compile_program("pointers"), "names", *names)
    assert [line.split()[3] for line in output.splitlines()] == [
        LIBRARY.name,
        LIBRARY.name,
        "libcuda.so.1",
        "libcuda.so.1",
        "-",
    ]


def test_a_library_opened_with_deepbind_is_held_too(
    machine: Machine, slice_: Slice, compile_program: Compile
) -> None:
    plugin = compile_program("deep", output="libdeep.so", flags=("-shared", "-fPIC"))
    output = execute(machine, slice_, compile_program("pointers"), "deepbind", plugin)
    assert output.split() == ["cuMemAlloc_v2", "0", "cuMemAlloc_v2", LIBRARY.name]


def test_without_a_slice_every_pointer_is_the_driver_s(machine: Machine, compile_program: Compile) -> None:
    program = compile_program("pointers")
    environment = {key: value for key, value in machine.inside(None).items() if key != "WEIR_SLICE_DIR"}
    command = [program, "trace", TRACE]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert LIBRARY.name not in result.stdout
    assert result.stdout == execute(machine, None, program, "trace", TRACE)


def test_a_program_linked_against_the_driver_is_held(
    machine: Machine, slice_: Slice, compile_program: Compile
) -> None:
    program = compile_program("linked", flags=(f"-L{LIBRARIES}", "-l:libcuda.so.1"))
    assert execute(machine, slice_, program) == "5\n"


def test_a_driver_without_a_function_is_complained_of_once_and_answers_not_found(
    machine: Machine, slice_: Slice, compile_program: Compile
) -> None:
    flags = ("-shared", "-fPIC", "-Wl,-soname,libcuda.so.1")
    driver = compile_program("old_driver", output="old/libcuda.so.1", flags=flags)
    program = compile_program(
        "linked", output="linked-old", flags=(f"-L{LIBRARIES}", "-l:libcuda.so.1", "-Wl,-z,lazy")
    )
    environment = {**machine.inside(slice_), "LD_LIBRARY_PATH": str(driver.parent)}
    result = subprocess.run([program], env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert "libcuda.so.1: no cu" in result.stderr


BINDINGS = """
from cuda.bindings import driver as d
d.cuInit(0)
error, context = d.cuDevicePrimaryCtxRetain(0)
d.cuCtxSetCurrent(context)
print(d.cuMemAlloc(600 << 20)[0].name)
error, pointer = d.cuMemAlloc(400 << 20)
print(error.name, *d.cuMemGetInfo()[1:])
print(d.cuMemFree(pointer)[0].name, *d.cuMemGetInfo()[1:])
"""


def test_cuda_bindings_run_unchanged(machine: Machine, slice_: Slice) -> None:
    output = execute(machine, slice_, sys.executable, "-c", BINDINGS)
    assert output.splitlines() == [
        "CUDA_ERROR_OUT_OF_MEMORY",
        f"CUDA_SUCCESS {(1 << 30) - CONTEXT - 400 * MIB} {1 << 30}",
        f"CUDA_SUCCESS {(1 << 30) - CONTEXT} {1 << 30}",
    ]
