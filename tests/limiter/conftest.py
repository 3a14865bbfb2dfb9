"""What the limiter's tests share: compiled test programs, slice directories, and the simulated machine.

Programs are small C files in `programs/`, compiled here by the compiler that builds the limiter. A slice is
made by the writer of this room, so the pages are the real ones.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import hatch_build
from limiter.pages import ControlDevice, ControlPage, StatsPage, read_stats, uuid_bytes
from limiter.writer import create_control, create_stats, update_control
from simgpu.machines import simulate

from . import variant
from .pacer import build as build_pacer
from .world import PACING, World, Worlds, worlds_of

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).parent / "programs"
SOURCES = ROOT / "limiter/src"
LIBRARY = variant.LIBRARY
MIB = 1 << 20
CONTEXT = 518 * MIB  # what a bare one takes of an H200
LIMIT = 2048 * MIB

Compile = Callable[..., Path]


@pytest.fixture(scope="session")
def pacer(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The pacer's arithmetic, without the rest of the limiter."""
    return build_pacer(tmp_path_factory.mktemp("pacer"))


@pytest.fixture(scope="session")
def compile_program(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """Compiles `programs/NAME.c`, with sources of the limiter if named, once a session for each output.

    What is loaded into the tests' own process cannot be `sanitized`: a sanitizer is there from the start.
    """
    directory = tmp_path_factory.mktemp("programs")
    done: set[Path] = set()

    def compile_one(
        name: str,
        *,
        output: str = "",
        sources: Sequence[str] = (),
        flags: Sequence[str] = (),
        sanitized: bool = True,
    ) -> Path:
        target = directory / (output or name)
        if target not in done:
            target.parent.mkdir(exist_ok=True)
            includes = [f"-isystem{path}" for path in hatch_build.include_directories()]
            command = [*hatch_build.compiler(), *hatch_build.COMMON, "-Werror", "-pthread", f"-I{SOURCES}"]
            command += variant.flags(variant.SANITIZER if sanitized else "")
            command += [*includes, "-o", str(target), str(PROGRAMS / f"{name}.c")]
            command += [str(SOURCES / source) for source in sources]
            result = subprocess.run([*command, *flags, "-ldl"], capture_output=True, text=True, check=False)
            assert result.returncode == 0, result.stderr
            done.add(target)
        return target

    return compile_one


@dataclass
class Slice:
    """A slice directory that a test made, and its control page as last written."""

    path: Path
    control: ControlPage

    @property
    def stats(self) -> StatsPage:
        """What the limiter has written."""
        return read_stats(self.path / "rw/stats")

    def update(self, device: int = 0, **fields: int) -> None:
        """Write the control page anew, with these fields of one device changed."""
        devices = list(self.control.devices)
        devices[device] = replace(devices[device], **fields)  # type: ignore[arg-type]
        self.control = replace(self.control, devices=tuple(devices))
        update_control(self.path / "control", self.control)


MakeSlice = Callable[..., Slice]


@pytest.fixture
def make_slice(tmp_path: Path) -> MakeSlice:
    """Makes a slice directory; one ControlDevice for each of its cards."""

    def make(*devices: ControlDevice, name: str = "slice", refuse_unknown: int = 0) -> Slice:
        path = tmp_path / name
        (path / "rw").mkdir(parents=True)
        control = ControlPage(generation=7, devices=devices, refuse_unknown=refuse_unknown)
        create_control(path / "control", control)
        create_stats(path / "rw/stats", 7, len(devices))
        return Slice(path, control)

    return make


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run() -> Run:
    """Runs a program with an environment and gives what it printed; fails the test if it fails."""

    def run_program(
        *command: str | Path, environment: dict[str, str] | None = None, code: int = 0
    ) -> subprocess.CompletedProcess[str]:
        result = subprocess.run(
            [str(part) for part in command],
            env={**os.environ, **(environment or {})},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert result.returncode == code, f"{result.returncode}: {result.stdout}{result.stderr}"
        return result

    return run_program


UUIDS = "import pynvml as n; n.nvmlInit()\n" + (
    "for i in range(n.nvmlDeviceGetCount()): print(n.nvmlDeviceGetUUID(n.nvmlDeviceGetHandleByIndex(i)))"
)


@dataclass
class Machine:
    """A simulated machine of the test's own, and programs of `programs/` in slices of it."""

    environment: dict[str, str]
    compile_program: Compile

    def uuids(self) -> list[bytes]:
        """The cards, as the control page names them."""
        result = subprocess.run(
            [sys.executable, "-c", UUIDS],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=True,
        )
        return [uuid_bytes(line) for line in result.stdout.split()]

    def inside(self, slice_: Slice | None) -> dict[str, str]:
        """The environment of a program in a slice, or with the limiter loaded and no slice."""
        limited = {
            "LD_PRELOAD": variant.preload(LIBRARY),
            **({"WEIR_SLICE_DIR": str(slice_.path)} if slice_ else {}),
        }
        return {**os.environ, **self.environment, **limited}

    def start(
        self, slice_: Slice | None, *commands: str, name: str = "memory_client"
    ) -> subprocess.Popen[str]:
        """Starts a program in a slice, with pipes."""
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [self.compile_program(name), *commands],
            env=self.inside(slice_),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            text=True,
        )

    def run(self, slice_: Slice | None, *commands: str) -> list[tuple[str, ...]]:
        """Runs `memory_client` to its end and gives the words of each line that it printed."""
        process = self.start(slice_, *commands)
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 0, f"{process.returncode}: {output}{errors}"
        return [tuple(line.split()) for line in output.splitlines()]


@pytest.fixture
def machine(tmp_path: Path, compile_program: Compile) -> Iterator[Machine]:
    """A machine with two simulated H200s."""
    state = Path("/dev/shm") / f"weir-limiter-{os.getpid()}-{tmp_path.name}"
    simulated = simulate("h200:2", libraries=variant.DRIVERS).environment
    environment = {**simulated, **variant.ENVIRONMENT, "SIMGPU_STATE": str(state)}
    yield Machine(environment, compile_program)
    state.unlink(missing_ok=True)


@pytest.fixture
def slice_(machine: Machine, make_slice: MakeSlice) -> Slice:
    """2 GiB of the first card."""
    return make_slice(ControlDevice(uuid=machine.uuids()[0], memory_limit=LIMIT, context_bytes=CONTEXT))


@pytest.fixture(scope="session")
def pacing_world(compile_program: Compile) -> Path:
    """The program that holds a virtual GPU and its tenants."""
    sources = [f"{name}.c" for name in PACING]
    return compile_program("pacing_world", sources=sources, flags=["-DWEIR_VIRTUAL_CLOCK"])


@pytest.fixture
def worlds(pacing_world: Path, run: Run) -> Worlds:
    """Runs several programs side by side."""
    return worlds_of(pacing_world, run)


@pytest.fixture
def world(worlds: Worlds) -> World:
    """Runs one program, alone on the card."""
    return lambda **settings: worlds(**settings)[0]
