"""Processes that share device memory, line by line as a test tells them (programs/shared_client.c)."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable, Iterator

import pytest

from limiter.pages import ControlDevice

from .conftest import CONTEXT, LIMIT, MIB, Machine, MakeSlice, Slice

BIG = 64 * MIB
REST = LIMIT - 2 * CONTEXT
OUT_OF_MEMORY = 2


class Sharer:
    """A process that shares memory with others, line by line (programs/shared_client.c)."""

    def __init__(
        self, machine: Machine, slice_: Slice | None, ends: tuple[socket.socket, socket.socket]
    ) -> None:
        numbers = [end.fileno() for end in ends]
        self.process = subprocess.Popen(
            [machine.compile_program("shared_client"), *map(str, numbers)],
            env=machine.inside(slice_),
            pass_fds=numbers,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.ask("open") == 0

    def ask(self, line: str) -> int:
        """The result of one line."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def attempt(self, line: str) -> bool:
        """Whether it lived to do it."""
        try:
            return self.ask(line) == 0
        except (BrokenPipeError, ValueError):
            return False

    def do(self, *lines: str) -> None:
        """All of them, which succeed."""
        assert [self.ask(line) for line in lines] == [0] * len(lines), lines

    def end(self, *, kill: bool = False) -> None:
        if kill:
            self.process.kill()
        self.process.communicate(timeout=30)


Start = Callable[[Slice | None], Sharer]


@pytest.fixture
def start(machine: Machine) -> Iterator[Start]:
    """Starts sharers that can reach each other."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    started: list[Sharer] = []

    def one(slice_: Slice | None) -> Sharer:
        started.append(Sharer(machine, slice_, ends))
        return started[-1]

    yield one
    for sharer in started:
        sharer.end(kill=True)
    for end in ends:
        end.close()


def used(slice_: Slice) -> int:
    """MiB that are charged beyond contexts, of which each living process has one."""
    card = slice_.stats.devices[0]
    return (card.used - len(slice_.stats.processes) * CONTEXT) // MIB


def make_another(machine: Machine, make_slice: MakeSlice) -> Slice:
    """Another slice of the same card."""
    card = ControlDevice(uuid=machine.uuids()[0], memory_limit=LIMIT, context_bytes=CONTEXT)
    return make_slice(card, name="other")


def lend(payer: Sharer, guest: Sharer) -> None:
    """The payer's handle 0 and descriptor 1; the guest's descriptor 0 and handle 1."""
    payer.do(f"create:{BIG}", "export:0", "send:1")
    guest.do("recv", "import:0")
