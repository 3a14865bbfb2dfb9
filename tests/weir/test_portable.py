"""What a wheel brings into other people's containers: built for either processor, and for old C libraries."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

import hatch_build

pytest.importorskip("ziglang", reason="ziglang is not installed: `make install`")
OTHER = "aarch64"
ELF_NAMES = {"x86_64": "x64", "aarch64": "AArch64"}


@dataclass(frozen=True)
class Elf:
    """What a library or program asks of the machine that it is loaded on."""

    machine: str
    libraries: frozenset[str]
    versions: frozenset[str]  # of symbols, as GLIBC_2.17


def read_elf(path: Path) -> Elf:
    with path.open("rb") as file:
        elf = ELFFile(file)
        needs = [one for one in elf.iter_sections() if isinstance(one, GNUVerNeedSection)]
        tags = elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")
        return Elf(
            elf.get_machine_arch(),
            frozenset(tag.needed for tag in tags),
            frozenset(one.name for need in needs for _, names in need.iter_versions() for one in names),
        )


def too_new(elf: Elf) -> set[str]:
    """The versions that the oldest C library we promise does not have. Private ones are nobody's promise."""
    oldest = [int(part) for part in hatch_build.GLIBC.split(".")]

    def is_there(version: str) -> bool:
        name, _, numbers = version.partition("_")
        parts = numbers.split(".")
        return name == "GLIBC" and all(map(str.isdigit, parts)) and [int(part) for part in parts] <= oldest

    return {version for version in elf.versions if not is_there(version)}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel for the processor that this machine may not have, built as a user builds it."""
    directory = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(directory)],
        cwd=hatch_build.ROOT,
        env={key: value for key, value in os.environ.items() if key != "CC"} | {"WEIR_TARGET": OTHER},
        check=True,
        capture_output=True,
    )
    (made,) = directory.iterdir()
    return made


@pytest.fixture
def unpacked(wheel: Path, tmp_path: Path) -> Path:
    """The files of the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    return tmp_path


def test_a_wheel_says_on_which_machines_it_runs(wheel: Path, unpacked: Path) -> None:
    assert wheel.name.endswith(f"-py3-none-manylinux_2_17_{OTHER}.manylinux2014_{OTHER}.whl")
    (about,) = unpacked.glob("*.dist-info/WHEEL")
    assert f"Tag: py3-none-manylinux_2_17_{OTHER}\n" in about.read_text()


@pytest.mark.parametrize("artifact", hatch_build.ARTIFACTS, ids=lambda one: Path(one.output).name)
def test_all_that_a_wheel_brings_runs_with_an_old_c_library(
    unpacked: Path, artifact: hatch_build.Artifact
) -> None:
    elf = read_elf(unpacked / artifact.output)
    assert elf.machine == ELF_NAMES[OTHER]
    assert too_new(elf) == set()


@pytest.mark.parametrize("machine", hatch_build.MACHINES)
def test_the_limiter_needs_nothing_but_an_old_c_library(machine: str) -> None:
    toolchain, limiter = hatch_build.portable(machine), hatch_build.ARTIFACTS[0]
    hatch_build.build(limiter, toolchain)
    elf = read_elf(toolchain.directory / limiter.output)
    assert elf.machine == ELF_NAMES[machine]
    assert too_new(elf) == set()
    assert elf.libraries <= {"libc.so.6", "libpthread.so.0", "libdl.so.2"}


def test_symbols_that_an_old_c_library_lacks_are_found() -> None:
    late = {"GLIBC_2.18", "GLIBC_2.34", "GLIBC_PRIVATE", "GCC_3.0"}
    assert too_new(Elf("x64", frozenset(), frozenset({"GLIBC_2.2.5", "GLIBC_2.17", *late}))) == late
