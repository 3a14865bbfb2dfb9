"""A simulated machine of its own for each test, and programs that run on it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import sysconfig
import time
import uuid
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import hatch_build
from simgpu.load import PROGRAM
from simgpu.machines import LIBRARIES, simulate

PROGRAMS = Path(__file__).parent / "programs"
ENGINE = hatch_build.ROOT / "simgpu/src/engine"

ASK = """
import json, pynvml as n
n.nvmlInit()
def value(call, *arguments):
    try:
        return call(*arguments)
    except n.NVMLError as error:
        return str(error)
{code}
print(json.dumps(answer))
"""


class Load:
    """A running weir-load and the lines it has reported so far."""

    def __init__(self, environment: dict[str, str], arguments: tuple[str, ...]) -> None:
        self.process = subprocess.Popen(
            [PROGRAM, *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.pid = self.process.pid
        self.lines: list[dict[str, Any]] = []

    def until(self, phase: str) -> dict[str, Any]:
        """The next line of this phase."""
        assert self.process.stdout is not None
        for text in self.process.stdout:
            self.lines.append(json.loads(text))
            if self.lines[-1]["phase"] == phase:
                return self.lines[-1]
        assert self.process.stderr is not None
        raise AssertionError(f"no line {phase!r}; {self.lines}; {self.process.stderr.read()}")

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(30)


class Machine:
    """Programs started by this are on the machine; nothing in the test's own process is."""

    def __init__(self, spec: str, state: Path) -> None:
        self.spec = spec
        self.state = state
        self.library = simulate(spec).nvml_library
        self.environment = {**os.environ, **simulate(spec).environment, "SIMGPU_STATE": str(state)}
        self.processes: list[subprocess.Popen[str]] = []

    def run(self, *command: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
        environment = {**self.environment, **more}
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    def ask(self, code: str, **more: str) -> Any:
        """Run Python with `n` = pynvml, initialised; what it leaves in `answer` comes back."""
        result = self.run(sys.executable, "-c", ASK.format(code=code), **more)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    def start_python(self, code: str) -> subprocess.Popen[str]:
        """As `ask`, but running: what it prints, reads and leaves is the caller's business."""
        process = subprocess.Popen(
            [sys.executable, "-c", ASK.format(code=code)],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process

    def faults(self, *arguments: str) -> None:
        result = self.run(sys.executable, "-m", "simgpu.faults", *arguments)
        assert result.returncode == 0, result.stderr

    def load(self, *arguments: str) -> list[dict[str, Any]]:
        """Run weir-load to its end; its lines."""
        result = self.run(PROGRAM, *arguments)
        assert result.returncode == 0, result.stderr
        return [json.loads(line) for line in result.stdout.splitlines()]

    def start(self, *arguments: str, **more: str) -> Load:
        load = Load({**self.environment, **more}, arguments)
        self.processes.append(load.process)
        return load

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()
        self.state.unlink(missing_ok=True)


@pytest.fixture
def machine_of() -> Iterator[Callable[[str], Machine]]:
    """Makes machines: `machine_of("h200:2")`."""
    with contextlib.ExitStack() as stack:

        def make(spec: str) -> Machine:
            machine = Machine(spec, Path(f"/dev/shm/simgpu-test-{uuid.uuid4().hex}"))
            stack.callback(machine.close)
            return machine

        yield make


@pytest.fixture
def h200(machine_of: Callable[[str], Machine]) -> Machine:
    return machine_of("h200")


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], None]:
    """Waits until a condition holds, at most 20 s."""

    def wait(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < deadline, "did not come about within 20 s"
            time.sleep(0.05)

    return wait


CompileC = Callable[..., Path]


@pytest.fixture(scope="session")
def compile_c(tmp_path_factory: pytest.TempPathFactory) -> CompileC:
    """Compiles programs/NAME.c: against the simulated libcuda, or with the engine's own sources in it.

    `compile_c("graphs")`, `compile_c("timeline", engine=True)`; each once a session. `headers` are those of
    CUDA 13, or "cuda_runtime": CUDA 12's, from the package of that name.
    """
    directory = tmp_path_factory.mktemp("programs")

    @cache
    def compiled(name: str, engine: bool = False, headers: str = "cu13") -> Path:
        output = directory / f"{name}-{headers}"
        sources = [PROGRAMS / f"{name}.c", *(sorted(ENGINE.glob("*.c")) if engine else [])]
        libraries = [] if engine else [str(LIBRARIES / f"lib{one}.so.1") for one in ("cuda", "nvidia-ml")]
        nvidia = Path(sysconfig.get_path("purelib")) / "nvidia"
        includes = [
            f"-I{PROGRAMS}",
            f"-I{ENGINE}",
            f"-isystem{nvidia / headers / 'include'}",
            *(f"-isystem{one}" for one in hatch_build.include_directories()),
        ]
        command = [
            *hatch_build.compiler(),
            "-std=gnu17",
            "-O1",
            "-g",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wl,--as-needed",
            *includes,
        ]
        subprocess.run([*command, "-o", output, *sources, *libraries, "-lpthread"], check=True)
        return output

    return compiled
