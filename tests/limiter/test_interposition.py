"""Hooks are reached whichever way a program finds the driver's functions, and are what it asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from limiter.pages import ControlDevice
from simgpu.machines import LIBRARIES

from .conftest import CONTEXT, LIBRARY, MIB, ROOT, Compile, Machine, MakeSlice, Run, Slice

TRACE = ROOT / "tests/simgpu/data/cudart13_getproc_trace.txt"


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


DRIVER = "libcuda.so.1"


def owners(machine: Machine, slice_: Slice | None, program: Path, *arguments: str | Path) -> list[str]:
    """Whose function each looked-up name leads to."""
    return [line.split()[3] for line in execute(machine, slice_, program, *arguments).splitlines()]


def test_dlsym_gives_hooks_for_what_is_hooked_and_the_driver_for_the_rest(
    machine: Machine, slice_: Slice, compile_program: Compile
) -> None:
    names = ("cuMemAlloc_v2", "cuMemGetInfo_v2", "cuCtxGetDevice", "cuMemcpyHtoD_v2", "cuNoSuchThing")
    found = owners(machine, slice_, compile_program("pointers"), "names", "-", *names)
    assert found == [LIBRARY.name, LIBRARY.name, DRIVER, DRIVER, "-"]


def test_dlvsym_gives_hooks_for_the_version_that_is_there_and_nothing_for_another(
    machine: Machine, slice_: Slice, compile_program: Compile, tmp_path: Path
) -> None:
    script = tmp_path / "versions.map"
    script.write_text("DRIVER_1 { global: cu*; };\n")
    flags = ("-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", f"-Wl,--version-script={script}")
    driver = compile_program("old_driver", output="versioned/libcuda.so.1", flags=flags)
    machine.environment["LD_LIBRARY_PATH"] = str(driver.parent)
    program = compile_program("pointers")
    names = ("cuMemGetInfo_v2", "cuInit", "cuNoSuchThing")
    assert owners(machine, slice_, program, "versions", "DRIVER_1", *names) == [LIBRARY.name, DRIVER, "-"]
    assert owners(machine, slice_, program, "versions", "DRIVER_2", *names) == ["-", "-", "-"]


@pytest.mark.parametrize("way", ["deepbind", "space", "next"])
def test_a_library_that_comes_late_or_keeps_to_itself_is_held_too(
    machine: Machine, slice_: Slice, compile_program: Compile, way: str
) -> None:
    plugin = compile_program("deep", output="libdeep.so", flags=("-shared", "-fPIC"))
    program = compile_program("pointers")
    assert owners(machine, slice_, program, way, plugin, "cuMemAlloc_v2") == [LIBRARY.name]
    assert owners(machine, None, program, way, plugin, "cuMemAlloc_v2") == ["-" if way == "next" else DRIVER]


def test_namespaces_come_and_go_and_what_is_taken_in_one_is_charged(
    machine: Machine, slice_: Slice, compile_program: Compile
) -> None:
    plugin = compile_program("deep", output="libdeep.so", flags=("-shared", "-fPIC"))
    assert execute(machine, slice_, compile_program("spaces"), plugin) == "5\n"
    assert execute(machine, None, compile_program("spaces"), plugin) == "100\n"


def test_a_driver_in_a_namespace_of_its_own_is_held_from_outside_too(
    machine: Machine, slice_: Slice, compile_program: Compile
) -> None:
    names = ("cuMemAlloc_v2", "cuInit", "cuNoSuchThing")
    found = owners(machine, slice_, compile_program("pointers"), "spacedriver", "-", *names)
    assert found == [LIBRARY.name, DRIVER, "-"]


def test_the_program_s_own_handle_leads_to_hooks_where_there_is_a_driver(
    machine: Machine, slice_: Slice, compile_program: Compile
) -> None:
    program = compile_program("pointers")
    assert owners(machine, slice_, program, "program", "-", "cuMemAlloc_v2", "cuInit") == [LIBRARY.name, "-"]
    assert owners(machine, slice_, program, "only", "libc.so.6", "cuMemAlloc_v2") == ["-"]


@pytest.fixture
def copied_driver(tmp_path: Path) -> Path:
    """The driver under another name, in the file and in what it says of itself."""
    copy = tmp_path / "libmine.so"
    text = (LIBRARIES / DRIVER).read_bytes()
    assert text.count(b"\0libcuda.so.1\0") == 1
    copy.write_bytes(text.replace(b"\0libcuda.so.1\0", b"\0libmine.so.1\0"))
    copy.chmod(0o755)
    return copy


def test_a_copy_of_the_driver_leads_to_the_one_that_is_there_already(
    machine: Machine, slice_: Slice, compile_program: Compile, copied_driver: Path
) -> None:
    names = ("cuMemAlloc_v2", "cuInit", "cuGetProcAddress_v2", "cuNoSuchThing")
    found = owners(machine, slice_, compile_program("pointers"), "copy", copied_driver, *names)
    assert found == [LIBRARY.name, DRIVER, LIBRARY.name, "-"]


def test_a_copy_of_the_driver_that_comes_first_is_the_driver(
    machine: Machine, slice_: Slice, compile_program: Compile, copied_driver: Path
) -> None:
    program = compile_program("pointers")
    found = owners(machine, slice_, program, "only", copied_driver, "cuMemAlloc_v2", "cuInit")
    assert found == [LIBRARY.name, copied_driver.name]


def test_without_a_slice_every_pointer_is_the_driver_s(machine: Machine, compile_program: Compile) -> None:
    program = compile_program("pointers")
    environment = {key: value for key, value in machine.inside(None).items() if key != "WEIR_SLICE_DIR"}
    command = [program, "trace", TRACE]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert LIBRARY.name not in result.stdout
    assert result.stdout == execute(machine, None, program, "trace", TRACE)


def test_threads_whose_first_calls_come_at_once_all_find_the_driver(
    machine: Machine, slice_: Slice, compile_program: Compile, run: Run
) -> None:
    program = compile_program("first_calls", flags=(f"-L{LIBRARIES}", "-l:libcuda.so.1"))
    slice_.update(memory_limit=10 * CONTEXT)
    for _ in range(5):
        assert run(program, environment=machine.inside(slice_)).stdout.split() == ["0"] * 8


def test_a_program_linked_against_the_driver_is_held(
    machine: Machine, slice_: Slice, compile_program: Compile
) -> None:
    program = compile_program("linked", flags=(f"-L{LIBRARIES}", "-l:libcuda.so.1"))
    assert execute(machine, slice_, program) == "5\n"


def test_another_tool_s_hook_keeps_its_place_before_the_limiter(
    machine: Machine, slice_: Slice, compile_program: Compile
) -> None:
    shim = compile_program("shim", output="libshim.so", flags=("-shared", "-fPIC"))
    program = compile_program("linked", flags=(f"-L{LIBRARIES}", "-l:libcuda.so.1"))
    environment = {**machine.inside(slice_), "LD_PRELOAD": f"{shim}:{LIBRARY}"}
    result = subprocess.run([program], env=environment, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "5\n", "6 allocations\n")


def test_neither_the_driver_nor_the_limiter_can_be_unloaded_from_under_the_hooks(
    machine: Machine, slice_: Slice, compile_program: Compile
) -> None:
    assert execute(machine, slice_, compile_program("unloading"), LIBRARY) == "5\n"


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
