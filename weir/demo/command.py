"""The order of the demo: exporter, two busy slices, a greedy third, a verdict; and whatever happens, an end.

The shares are measured over the last `--seconds`, after the slices have settled. The third slice comes a
quarter into that time and stays at its limit, so its neighbours are measured beside it. The exit code is 1 if
the numbers are off.
"""

from __future__ import annotations

import shlex
import signal
import socket
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import click
from rich.console import Console

from weir.demo.programs import Programs
from weir.demo.session import PERIOD, Session, plans
from weir.demo.show import Show
from weir.demo.view import final
from weir.errors import NoGpuError, UsageError, WeirError
from weir.nvml import DriverNvml
from weir.options import Number, box_options
from weir.simulation import open_nvml, simulated_machine

PORT = 9840
_SETTLE_SECONDS = 2.0
_START_SECONDS = 15.0  # for a program to show its first number, on a machine that is busy otherwise
_CAROL_COMES = 0.25  # of the measured time
_PLAIN_WIDTH = 120


@dataclass(frozen=True)
class Target:
    """The card to be on: a simulated machine's, else one of this host's; `why` says it to the user."""

    simulate: str | None
    gpu: str  # one card by name, or the slices could be put on different ones
    why: str = ""

    @property
    def exporter_options(self) -> tuple[str, ...]:
        """As weir exporter takes it."""
        return ("--simulate", self.simulate) if self.simulate else ()

    @property
    def run_options(self) -> tuple[str, ...]:
        """As weir run takes it."""
        return (*self.exporter_options, "--gpu", self.gpu)


def choose_target(simulate: str | None, gpu: str | None) -> Target:
    """A simulated card if asked for, or if none was asked for and no driver answers.

    Raises UsageError for a machine nobody knows, NoGpuError for a card that was asked for without a driver.
    """
    if simulate is not None:
        simulated_machine(simulate)
        return Target(simulate, "0" if gpu is None else gpu, "simulated, as asked: no GPU is touched")
    try:
        DriverNvml()
    except NoGpuError:
        if gpu is not None:
            raise
        return Target("h200", "0", "no GPU driver answers here: every number is a simulated card's")
    return Target(None, "0" if gpu is None else gpu)


def check_card(target: Target) -> None:
    """Raise UsageError for a card that the machine has not got, before anything starts."""
    gpus = open_nvml(target.simulate).gpus()
    names = [name for gpu in gpus for name in (str(gpu.index), gpu.uuid)]
    if target.gpu not in names:
        raise UsageError("--gpu", target.gpu, f"one of {', '.join(names) or 'none'}")


def looking(target: Target, root: Path | None) -> str:
    """The command that shows what is on the card."""
    return shlex.join(["weir", "top", *target.exporter_options, *(("--root", str(root)) if root else ())])


def free_port(preferred: int) -> int:
    """The preferred port of the loopback, or 0 (any free one) if it is taken."""
    with socket.socket() as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind(("127.0.0.1", preferred))
        except OSError:
            return 0
    return preferred


@click.command()
@click.option("--seconds", type=Number(4, 600), default=12.0, show_default=True, help="How long to measure.")
@box_options
@click.option("--gpu", metavar="N", help="Use this card.")
def demo(seconds: float, simulate: str | None, gpu: str | None, root: Path | None) -> int:
    """Hold three slices on one GPU and judge the result. Exits with 1 if the numbers are off.

    It needs 90 % of the card's time and 15 GiB of its memory: end the card's other slices first.
    """
    target = choose_target(simulate, gpu)
    check_card(target)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _PLAIN_WIDTH
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    with tempfile.TemporaryDirectory(prefix="weir-demo-") as directory, Programs(Path(directory)) as programs:
        show = Show(console, target.simulate is not None, target.why)
        session = Session(programs, Path(directory), target.run_options, root, looking(target, root))
        with show:
            _measure(session, show, seconds, target)
        judgements = [session.judge(plan, own_counts=show.simulated) for plan in session.shown]
        rows = [session.row(plan) for plan in session.shown]
    console.print(final(show.head, rows, judgements, show.where, session.top))
    return 0 if all(one.held for one in judgements) else 1


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _measure(session: Session, show: Show, seconds: float, target: Target) -> None:
    """Everything from the exporter's start to the last reading."""
    alice, bob, carol = plans(seconds + _SETTLE_SECONDS + 2 * _START_SECONDS)
    clock = _Progress(session, show, target.gpu, seconds + _SETTLE_SECONDS)

    exporter = session.begin_exporter(free_port(PORT), target.exporter_options)
    clock.until("starting the exporter", lambda: session.find_address(exporter))
    show.address = session.address
    clock.until("collecting for the first time", lambda: bool(session.readings))
    for plan in (alice, bob):
        session.begin(plan)
    clock.until("starting alice and bob", lambda: session.working(alice) and session.working(bob))

    clock.for_seconds("letting them settle", _SETTLE_SECONDS)
    session.measure()
    clock.for_seconds("measuring alice and bob", seconds * _CAROL_COMES)
    session.begin(carol)
    clock.for_seconds("measuring, while carol asks for too much", seconds * (1 - _CAROL_COMES))
    clock.until("waiting for carol", lambda: session.working(carol))


class _Progress:
    """Keeps reading and showing while time passes. Only time that is planned moves the bar."""

    def __init__(self, session: Session, show: Show, gpu: str, planned: float) -> None:
        self._session = session
        self._show = show
        self._gpu = gpu
        self._planned = planned
        self._done = 0.0

    def until(self, doing: str, ready: Callable[[], bool]) -> None:
        """Wait for something that takes as long as it takes, within bounds."""
        deadline = time.monotonic() + _START_SECONDS
        while not ready():
            if time.monotonic() > deadline:
                raise WeirError(f"demo: {doing}: not done within {_START_SECONDS:.0f} s")
            self._step(doing, self._done)

    def for_seconds(self, doing: str, seconds: float) -> None:
        """Let so much of the planned time pass."""
        begin = time.monotonic()
        while (passed := time.monotonic() - begin) < seconds:
            self._step(doing, self._done + passed)
        self._done += seconds

    def _step(self, doing: str, done: float) -> None:
        self._session.programs.check()
        self._session.read()
        self._show.machine = self._session.machine(self._gpu)
        self._show.step(doing, min(done / self._planned, 1.0), self._session.rows())
        time.sleep(PERIOD)
