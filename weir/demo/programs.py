"""The processes of the demo: started as a user would, stopped in reverse order, none left behind.

Each is the leader of its own session, so Ctrl-C reaches the demo alone and it ends them in order: SIGTERM,
a bounded wait, SIGKILL. Should the demo itself be killed, the kernel sends each of them SIGTERM.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from weir.errors import WeirError

WEIR = (sys.executable, "-P", "-m", "weir")  # -P: never the source tree that happens to be the current folder
_PR_SET_PDEATHSIG = 1
_STOP_SECONDS = 5.0
_LIBC = ctypes.CDLL(None)


def _end_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


@dataclass(frozen=True)
class Program:
    """A started program, where its output goes, and what to do about some of its exit codes."""

    name: str
    process: subprocess.Popen[bytes]
    output: Path
    advice: Mapping[int, str] = field(default_factory=dict)

    def said(self) -> str:
        """All it has said."""
        return self.output.read_text(errors="replace")

    def last_line(self) -> str:
        """The last thing it said."""
        lines = (line.strip() for line in reversed(self.said().split("\n")))
        return next((line.removeprefix("weir: ") for line in lines if line), "")

    def check(self) -> None:
        """Raise WeirError if it has ended with an error."""
        if code := self.process.poll():
            said = self.last_line() or "it said nothing"
            advice = f"; {self.advice[code]}" if code in self.advice else ""
            raise WeirError(f"{self.name}: ended with {code}: {said}{advice}")


class Programs:
    """Starts programs; leaving the context stops them all."""

    def __init__(self, directory: Path, environment: Mapping[str, str] | None = None) -> None:
        self._directory = directory
        self._environment = dict(os.environ if environment is None else environment)
        self._started: list[Program] = []

    def __enter__(self) -> Programs:
        return self

    def __exit__(self, *_: object) -> None:
        # A second Ctrl-C must not leave half of them behind; the waits below are bounded.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            for program in reversed(self._started):
                program.process.terminate()
            for program in reversed(self._started):
                _reap(program)
        finally:
            signal.signal(signal.SIGINT, before)

    def start(self, name: str, arguments: Sequence[str], advice: Mapping[int, str] | None = None) -> Program:
        """Run `weir ARGUMENTS`; `advice`: what to do if it ends with that exit code."""
        output = self._directory / f"{name}.log"
        with output.open("wb") as log:
            process = subprocess.Popen(
                [*WEIR, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )
        program = Program(name, process, output, advice or {})
        self._started.append(program)
        return program

    def check(self) -> None:
        """Raise WeirError if any has ended with an error."""
        for program in self._started:
            program.check()


def _reap(program: Program) -> None:
    """Wait for a program that was told to end, and end it the hard way if it does not."""
    try:
        program.process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program.process.pid, signal.SIGKILL)
        program.process.wait()
