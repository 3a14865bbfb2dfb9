"""The limiter inside a program that has nothing to do with it: the program does not notice."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import hatch_build
from limiter import headers
from limiter.pages import ControlDevice

from .conftest import LIBRARY, SOURCES, Compile, MakeSlice, Run

SHARED = ("-shared", "-fPIC")


@pytest.fixture
def lookups(compile_program: Compile) -> Path:
    compile_program("inner", output="hidden/libhidden.so", flags=SHARED)
    inner = compile_program("inner", output="libinner.so", flags=SHARED)
    runpath = f"-Wl,--enable-new-dtags,-rpath,{inner.parent}/hidden"
    caller = compile_program("caller", output="libcaller.so", flags=(*SHARED, runpath))
    here = f"-Wl,-rpath,{inner.parent}"
    return compile_program(
        "lookups", flags=("-rdynamic", "-Wl,--no-as-needed", str(caller), str(inner), here)
    )


@pytest.mark.parametrize("preload", ["", str(LIBRARY)])
def test_lookups_without_a_gpu_find_what_they_find_without_the_limiter(
    lookups: Path, make_slice: MakeSlice, run: Run, preload: str
) -> None:
    slice_ = make_slice(ControlDevice(uuid=bytes(16), memory_limit=1 << 30))
    result = run(lookups, environment={"LD_PRELOAD": preload, "WEIR_SLICE_DIR": str(slice_.path)})
    assert result.stdout == ""  # no page is mapped
    assert result.stderr == ""
    assert slice_.stats.processes == ()


def test_an_ordinary_program_runs_unchanged(run: Run, make_slice: MakeSlice) -> None:
    slice_ = make_slice(ControlDevice(uuid=bytes(16)))
    environment = {"LD_PRELOAD": str(LIBRARY), "WEIR_SLICE_DIR": str(slice_.path)}
    result = run("/bin/sh", "-c", "echo out; echo err >&2; exit 3", environment=environment, code=3)
    assert (result.stdout, result.stderr) == ("out\n", "err\n")


@pytest.mark.parametrize(("sanitizer", "runtime"), [("thread", "libtsan.so"), ("undefined", "libubsan.so")])
def test_a_program_with_a_sanitizer_starts(
    compile_program: Compile, run: Run, make_slice: MakeSlice, sanitizer: str, runtime: str
) -> None:
    """Sanitizers look functions up before they are ready to be called themselves."""
    command = [*hatch_build.compiler(), f"-print-file-name={runtime}"]
    if subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == runtime:
        pytest.skip(f"this compiler has no {runtime}")
    flags = (f"-fsanitize={sanitizer}",)
    program = compile_program("sanitized", output=f"sanitized-{sanitizer}", flags=flags)
    slice_ = make_slice(ControlDevice(uuid=bytes(16)))
    run(program, environment={"LD_PRELOAD": str(LIBRARY), "WEIR_SLICE_DIR": str(slice_.path)})


def declared() -> set[str]:
    """The hooks, as the preprocessor sees the list."""
    compiler = [*hatch_build.compiler(), *hatch_build.include_flags(), f"-I{SOURCES}"]
    lists = headers.lists(compiler, "hooks.h")
    return {symbol for name in headers.leaves(lists, "WEIR_ALL_HOOKS") for symbol in lists[name]}


def test_the_library_exports_its_hooks_and_the_lookups_and_nothing_else() -> None:
    output = subprocess.run(
        ["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True
    )
    exported = {line.split()[-1] for line in output.stdout.splitlines()}
    assert exported == declared() | {"dlsym", "dlvsym", "dlopen", "dlmopen"}


def test_the_library_needs_libc_only() -> None:
    output = subprocess.run(["readelf", "-d", LIBRARY], capture_output=True, text=True, check=True)
    needed = set(re.findall(r"NEEDED.*\[(.+)\]", output.stdout))
    assert "libc.so.6" in needed
    assert all(name.startswith("ld-linux") for name in needed - {"libc.so.6"})  # the linker's own list
