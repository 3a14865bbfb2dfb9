"""In an image of musl's, where no driver can be loaded, programs start as if the limiter were not there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

import hatch_build
from limiter.pages import ControlDevice

from .conftest import MIB, PROGRAMS, MakeSlice

LOADER = Path("/lib/ld-musl-x86_64.so.1")
LIMITER = hatch_build.ARTIFACTS[0]
SAID = "printf 1, none 1, driver 1\nchild 7\n"
TOP = [sys.executable, "-m", "weir", "top", "--json", "--simulate", "h200", "--interval", "0.1", "--root"]

pytestmark = pytest.mark.skipif(not LOADER.exists(), reason=f"{LOADER} is not there: apt-get install musl")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("musl") / "program"
    flags = ["-nostdlib", "-fno-builtin", "-fno-stack-protector", "-Wl,--no-as-needed"]
    flags += [
        f"-Wl,-dynamic-linker,{LOADER}",
        "-o",
        str(made),
        str(PROGRAMS / "musl.c"),
        str(LOADER.resolve()),
    ]
    subprocess.run([*hatch_build.compiler(), *hatch_build.COMMON, "-Werror", *flags], check=True)
    return made


@pytest.fixture(scope="module", params=["working tree", "x86_64"])
def library(request: pytest.FixtureRequest) -> Path:
    """The limiter as the working tree has it, or a wheel for some processor."""
    if request.param == "working tree":
        return hatch_build.ROOT / LIMITER.output
    pytest.importorskip("ziglang", reason="ziglang is not installed: `make install`")
    toolchain = hatch_build.portable(request.param)
    hatch_build.build(LIMITER, toolchain)
    return toolchain.directory / LIMITER.output


def test_a_program_starts_unchanged_and_silent(program: Path, library: Path, make_slice: MakeSlice) -> None:
    slice_ = make_slice(ControlDevice(uuid=bytes(range(16)), memory_limit=MIB))
    environment = {**os.environ, "LD_PRELOAD": str(library), "WEIR_SLICE_DIR": str(slice_.path)}
    alone = subprocess.run([program], input="", capture_output=True, text=True, check=False)
    inside = subprocess.run([program], input="", capture_output=True, text=True, check=False, env=environment)
    assert (alone.returncode, alone.stdout, alone.stderr) == (3, SAID, "")
    assert (inside.returncode, inside.stdout, inside.stderr) == (3, SAID, "")
    assert slice_.stats.processes == ()


def test_in_weir_run_it_shows_as_a_slice_in_which_nothing_is_held(program: Path, tmp_path: Path) -> None:
    weir = [
        sys.executable,
        "-m",
        "weir",
        "run",
        "--simulate",
        "h200",
        "--memory",
        "2GiB",
        "--root",
        str(tmp_path),
    ]
    pipe = subprocess.PIPE
    with subprocess.Popen([*weir, "--", program], stdin=pipe, stdout=pipe, stderr=pipe, text=True) as running:
        assert running.stdout
        assert "".join(running.stdout.readline() for _ in range(2)) == SAID
        top = subprocess.run([*TOP, str(tmp_path)], capture_output=True, check=True)
        _, errors = running.communicate("", timeout=30)
    assert (running.returncode, errors) == (3, "")
    (shown,) = json.loads(top.stdout)["slices"]
    assert (shown["claims"]["processes"], shown["claims"]["limiter_version"]) == ([], "")
    assert shown["audit"]["memory_driver_used_bytes"] == 0


@pytest.mark.parametrize("library", ["working tree", *hatch_build.MACHINES], indirect=True)
def test_the_limiter_calls_nothing_that_musl_lacks(library: Path) -> None:
    """Its names are the same for every processor."""
    with LOADER.resolve().open("rb") as file:
        there = {one.name for one in ELFFile(file).get_section_by_name(".dynsym").iter_symbols()}
    with library.open("rb") as file:
        symbols = list(ELFFile(file).get_section_by_name(".dynsym").iter_symbols())
    asked = {
        one.name
        for one in symbols
        if one["st_shndx"] == "SHN_UNDEF" and one["st_info"]["bind"] == "STB_GLOBAL"
    }
    assert asked - there == set()
    assert "snprintf" in asked
