"""The build for aarch64 does what this machine's does: the same programs, under qemu-user.

The driver is the null driver, for the simulated one reserves more addresses than qemu can keep account of.
What differs between processors is how lookups are passed on (arch.h), atomics, and the layout of the pages.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import hatch_build
from benchmarks.launch_cost import NATIVE, UUID
from limiter.pages import ControlDevice, DeviceStats

from .conftest import LIMIT, PROGRAMS, SOURCES, MakeSlice, Slice
from .world import H200, PACING, Settings, Worlds, worlds_of

MACHINE = "aarch64"
QEMU = f"qemu-{MACHINE}"
SYSROOT = Path(f"/usr/{MACHINE}-linux-gnu")
GIB = 1 << 30
Start = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def toolchain() -> hatch_build.Toolchain:
    pytest.importorskip("ziglang", reason="ziglang is not installed: `make install`")
    if platform.machine() == MACHINE or not (shutil.which(QEMU) and SYSROOT.is_dir()):
        pytest.skip(f"no {QEMU} or no {SYSROOT}: apt-get install qemu-user libc6-arm64-cross")
    made = hatch_build.portable(MACHINE)
    hatch_build.build(hatch_build.ARTIFACTS[0], made)
    return made


@pytest.fixture(scope="module")
def programs(toolchain: hatch_build.Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs of `programs/` and the null driver, for the other processor."""
    directory = tmp_path_factory.mktemp(MACHINE)
    shared = ["-shared", "-fPIC"]
    runpath = f"-Wl,--enable-new-dtags,-rpath,{directory}/hidden"
    needed = ["-Wl,--no-as-needed", f"{directory}/libcaller.so", f"{directory}/libinner.so"]
    (directory / "hidden").mkdir()
    sources = {
        "libcuda.so.1": [*shared, f"{NATIVE}/null_driver.c", f"{NATIVE}/null_defaults.c"],
        "hidden/libhidden.so": [*shared, f"{PROGRAMS}/inner.c"],
        "libinner.so": [*shared, f"{PROGRAMS}/inner.c"],
        "libcaller.so": [*shared, runpath, f"{PROGRAMS}/caller.c"],
        "lookups": ["-rdynamic", f"-Wl,-rpath,{directory}", f"{PROGRAMS}/lookups.c", *needed],
        "handlers": [f"{PROGRAMS}/handlers.c"],
        "memory_client": [f"{PROGRAMS}/memory_client.c"],
    }
    common = [*toolchain.compiler, *hatch_build.COMMON, f"-I{SOURCES}", *hatch_build.include_flags()]
    for output, rest in sources.items():
        subprocess.run([*common, "-o", str(directory / output), *rest, "-ldl", "-pthread"], check=True)
    return directory


@pytest.fixture(scope="module")
def worlds_there(toolchain: hatch_build.Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Worlds:
    """Virtual worlds on the other processor."""
    program = tmp_path_factory.mktemp(MACHINE) / "pacing_world"
    sources = [PROGRAMS / "pacing_world.c", *(SOURCES / f"{name}.c" for name in PACING)]
    flags = ["-DWEIR_VIRTUAL_CLOCK", f"-I{SOURCES}", *hatch_build.include_flags()]
    compiler = [*toolchain.compiler, *hatch_build.COMMON]
    subprocess.run([*compiler, *flags, "-o", program, *sources, "-lm"], check=True)

    def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
        there = [QEMU, "-L", str(SYSROOT), *command]
        return subprocess.run(there, capture_output=True, text=True, timeout=60, check=True)

    return worlds_of(program, run)


@pytest.fixture
def start(toolchain: hatch_build.Toolchain, programs: Path) -> Start:
    """Runs one of them in a slice."""

    def start_one(slice_: Slice, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        inside = {
            "LD_PRELOAD": toolchain.directory / "limiter/libweir.so",
            "LD_LIBRARY_PATH": programs,
            "WEIR_SLICE_DIR": slice_.path,
        }
        settings = [part for key, value in inside.items() for part in ("-E", f"{key}={value}")]
        command = [QEMU, "-L", str(SYSROOT), *settings, str(programs / name), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    return start_one


@pytest.fixture
def slice_(make_slice: MakeSlice) -> Slice:
    return make_slice(ControlDevice(uuid=UUID, memory_limit=LIMIT))


def ledger(slice_: Slice) -> DeviceStats:
    return slice_.stats.devices[0]


def test_memory_is_held_to_the_limit_and_the_page_says_so(slice_: Slice, start: Start) -> None:
    done = start(
        slice_, "memory_client", *(f"alloc:{GIB}",) * 3, "info", "free:0", "info", f"alloc:{2 * GIB}"
    )
    assert done.stderr == ""
    said = [
        "alloc 0",
        "alloc 0",
        "alloc 2",
        f"info 0 0 {LIMIT}",
        "free 0",
        f"info 0 {GIB} {LIMIT}",
        "alloc 2",
    ]
    assert done.stdout.splitlines() == said
    assert (ledger(slice_).allocations, ledger(slice_).denied_limit) == (2, 2)
    assert (ledger(slice_).peak_bytes, ledger(slice_).denied_bytes) == (LIMIT, 3 * GIB)


def test_a_child_of_fork_finds_what_its_parent_holds_charged(slice_: Slice, start: Start) -> None:
    done = start(
        slice_, "memory_client", f"alloc:{GIB}", "fork", "info", f"alloc:{2 * GIB}", f"alloc:{GIB}", "info"
    )
    assert done.stderr == ""
    said = ["alloc 0", f"info 0 {GIB} {LIMIT}", "alloc 2", "alloc 0", f"info 0 0 {LIMIT}"]
    assert done.stdout.splitlines() == said


@pytest.mark.parametrize("way", ["return", "jump"])
def test_a_signal_handler_may_allocate_and_jump_out_of_a_call(slice_: Slice, start: Start, way: str) -> None:
    done = start(slice_, "handlers", way, "20", "10000")
    assert (done.returncode, done.stderr) == (0, "")


WORLDS: dict[str, tuple[Settings, ...]] = {
    "alone": ({"limit": 3000, "kernel_us": 44},),
    "bound by its host": ({"limit": 1000, "kernel_us": 12, "host_us": 20, "functions": 2},),
    "in slots": (
        {"limit": 6000, "kernel_us": 1000, "frame_us": 20_000, "length_us": 13_200},
        {"limit": 3000, "kernel_us": 44, "frame_us": 20_000, "offset_us": 13_300, "length_us": 6_600},
    ),
}


@pytest.mark.parametrize("name", WORLDS)
def test_pacing_gives_the_same_shares(worlds: Worlds, worlds_there: Worlds, name: str) -> None:
    """But for the last digits: that processor multiplies and adds in one step."""
    here, there = (each(*WORLDS[name], seconds=2, **H200) for each in (worlds, worlds_there))
    for key in ("share", "claimed"):
        assert [one[key] for one in there] == pytest.approx([one[key] for one in here], abs=0.002)


def test_lookups_find_what_they_find_without_the_limiter(slice_: Slice, start: Start, programs: Path) -> None:
    """Without a driver: nothing here may wake the limiter."""
    driver = programs / "libcuda.so.1"
    hidden = driver.rename(programs / "elsewhere")
    done = start(slice_, "lookups")
    hidden.rename(driver)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
