"""A program of the tests that does something in a slice, step by step as it is told."""

from __future__ import annotations

import time

from .conftest import Machine, Slice

OK, OUT_OF_MEMORY = "0", "2"
OPEN = ("init", "retainprimary")  # to a context


class Client:
    """A program in the slice that does the next of its commands whenever it is told to."""

    def __init__(self, machine: Machine, slice_: Slice, *steps: tuple[str, ...]) -> None:
        commands = [command for step in steps for command in (*step, "wait")]
        self.process = machine.start(slice_, *commands)
        self.errors = ""
        self.told = self._read()

    def _read(self) -> list[str]:
        """Results up to where it waits."""
        assert self.process.stdout
        lines: list[str] = []
        while (line := self.process.stdout.readline().split()) and line[0] != "waiting":
            lines += line[1:2]
        assert line, self.process.communicate()
        return lines

    def go_on(self) -> list[str]:
        """The results of the next step."""
        assert self.process.stdin
        self.process.stdin.write("x")
        self.process.stdin.flush()
        return self._read()[1:]  # the first is of the wait that has ended

    def end(self) -> int:
        _, self.errors = self.process.communicate("x", timeout=30)
        return self.process.returncode


def await_held(slice_: Slice, used: int) -> None:
    """Until the page says so; ten seconds at most."""
    deadline = time.monotonic() + 10
    while slice_.stats.devices[0].used != used:
        assert time.monotonic() < deadline, slice_.stats
        time.sleep(0.02)


def look_again() -> None:
    """Programs look for new pages every 100 ms, when they do something."""
    time.sleep(0.12)
