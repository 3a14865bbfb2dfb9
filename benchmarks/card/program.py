"""One load that runs on while its limit is changed: started bare or by `weir run`, read line by line.

A load writes a JSON line every tenth of a second (`at`: CLOCK_MONOTONIC seconds; `kernel_seconds` where it
knows them, `steps` else) until SIGTERM. One warm process serves many rows, so a card's time goes into
windows and not into starts. Limits are changed as `weir set` does it: slice.json is rewritten and the agent
rung."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

from benchmarks.card.bench import Bench, LoadError
from benchmarks.card.curves import Curve
from deviceplugin.change import Change, change_slice, put_into_force
from limiter.pages import read_stats
from limiter.slices import slices_root

PATIENCE = 120.0  # seconds until a load must work: PyTorch's first import on a cold disk


def weir() -> str:
    """The installed command, beside this interpreter or on the path."""
    beside = Path(sys.executable).with_name("weir")
    return str(beside) if beside.exists() else shutil.which("weir") or "weir"


def environment(bench: Bench) -> dict[str, str]:
    """What programs get. Of this tree nothing: a program is served by the Weir that is installed."""
    return {**os.environ, "PYTHONUNBUFFERED": "1"}


class Program:
    """A load in a slice of its own, or bare where it is given no limit. A context manager."""

    def __init__(
        self,
        bench: Bench,
        name: str,
        command: Sequence[str],
        cores: int | None,
        memory: str | None = None,
        frame: int | None = None,
        *,
        backend: str | None = None,
        more: Mapping[str, str] = MappingProxyType({}),
        patience: float = PATIENCE,
    ) -> None:
        """`more`: of the environment; `patience`: seconds until it must work."""
        self._bench = bench
        self.name = name
        given = {"--cores": cores, "--memory": memory, "--frame": frame}
        limits = [text for option, value in given.items() if value for text in (option, str(value))]
        self.sliced = bool(limits)
        self._patience = patience
        self.began = round(time.time(), 3)  # tells it from another process of the same load
        self.lines: list[dict[str, Any]] = []
        held = ["--backend", backend] if backend else []
        run = [weir(), "run", *bench.options(), "--name", name, *held, *limits, "--"]
        whole = [*run, *command] if self.sliced else list(command)
        self._errors = (bench.journal.directory / f"{name}.stderr").open("w+")
        self._process = subprocess.Popen(
            whole,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**environment(bench), **more},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            if line.startswith("{"):
                self.lines.append(json.loads(line))

    @property
    def stats(self) -> Path:
        """The limiter's counters of this slice."""
        return slices_root(self._bench.box) / self.name / "rw/stats"

    @property
    def control(self) -> Path:
        """What the agent tells the limiter of this slice."""
        return slices_root(self._bench.box) / self.name / "control"

    @property
    def supervisor(self) -> int:
        """The process that was started."""
        return self._process.pid

    def pids(self) -> list[int]:
        """The processes of its slice that use the card; bare, the one that was started."""
        return [one.pid for one in read_stats(self.stats).processes] if self.sliced else [self.supervisor]

    def curve(self, key: str) -> Curve:
        """A counter of the load's own over time."""
        return [(line["at"], line[key]) for line in list(self.lines) if key in line]

    def await_line(self, phase: str = "running", after: int = 0) -> dict[str, Any]:
        """The first line of this phase since line number `after`. Raises LoadError."""
        return self._await(lambda line: line.get("phase") == phase, after)

    def await_key(self, key: str) -> dict[str, Any]:
        """The first line that has this key. Raises LoadError."""
        return self._await(lambda line: key in line, 0)

    def _await(self, wanted: Callable[[dict[str, Any]], bool], after: int) -> dict[str, Any]:
        end = time.monotonic() + self._patience
        ended = False
        while time.monotonic() < end:
            for line in self.lines[after:]:
                if wanted(line):
                    return line
            if ended:
                break
            if ended := self._process.poll() is not None:
                self._reader.join(5)  # its last line may be on the way
            time.sleep(0.02)
        raise LoadError(f"{self.name}: {self.last_words() or 'never began to work'}")

    def last_words(self) -> str:
        """The last line that it wrote to stderr."""
        self._errors.seek(0)
        lines = self._errors.read().strip().splitlines()
        return lines[-1] if lines else ""

    def set_cores(self, cores: int) -> None:
        """Give the slice another limit; in force when this returns."""
        box = self._bench.box
        path, wanted = change_slice(box, self._bench.nvml, self.name, Change(cores=str(cores)))
        put_into_force(box, path, wanted)

    def profile(self, seconds: float) -> dict[str, Any] | None:
        """What torch_load.py says of so many seconds of its work under CUPTI; None where none are wanted."""
        if not seconds or self._process.stdin is None:
            return None
        after = len(self.lines)
        self._process.stdin.write(f"profile {seconds}\n")
        self._process.stdin.flush()
        return self.await_line("profiled", after)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(5)
        self._errors.close()
