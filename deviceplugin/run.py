"""`weir run`: puts a command into a slice of a GPU, and is its supervisor.

The order is: check everything that was typed, then, under the box's admission lock, see what is left and make
the slice directory, then start the command. Whatever goes wrong before or after, the directory goes with it.
While the command runs this process stands for the agent's office (office.py).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from deviceplugin import child, mps
from deviceplugin.admission import admission, admit, room
from deviceplugin.agent import Agent
from deviceplugin.auditor import CardRoom
from deviceplugin.cards import Wanted, check_name, choose, default_name, shares
from deviceplugin.contexts import context_bytes
from deviceplugin.office import Office
from deviceplugin.options import frame_option, parse_frame
from limiter import library_path
from limiter.identity import BACKENDS, Identity
from limiter.pages import ControlPage
from limiter.slices import create, first_control, observe, observe_one, remove, slices_root, sweep
from weir.errors import HostError, UsageError
from weir.nvml import Gpu, Nvml
from weir.options import Whole, box_options
from weir.roots import make_box_root
from weir.simulation import open_nvml

CONTAINER_SLICE = "/run/weir/slice"  # where a container finds its own


@dataclass(frozen=True, slots=True)
class Terms:
    """How a slice is held, beside how much of each card it has."""

    policy: str = "fixed"
    priority: int = 1
    frame_ms: int = 0
    unaccounted: str = "count"
    backend: str = "weir"
    mps_pipes: str = ""


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice that was made: its directory, who it is, its cards, and the descriptor that holds its lock."""

    path: Path
    identity: Identity
    gpus: tuple[Gpu, ...]
    lock: int


def check(wanted: Wanted, gpus: Sequence[Gpu]) -> None:
    """Raise for what no card here could ever give, before anything is made."""
    shares(wanted, choose(wanted.gpu, gpus, {gpu.uuid: gpu.capacity for gpu in gpus}))


def make_slice(box: Path, nvml: Nvml, wanted: Wanted, name: str, terms: Terms) -> Slice:
    """Admit and make a slice. Raises UsageError, NoGpuError, DoesNotFitError, HostError."""
    gpus = nvml.gpus()
    with admission(box):
        sweep(box)
        taken = observe_one(slices_root(box) / name)
        if taken is not None:
            who = "a slice of this name lives" if taken.state in ("live", "orphan") else taken.problem
            raise UsageError("--name", name, f"{who}; give another name")
        found = observe(box)
        used = {gpu.uuid: nvml.reading(gpu.uuid).memory_used for gpu in gpus}
        rooms = {gpu.uuid: room(gpu, used[gpu.uuid], found) for gpu in gpus}
        chosen = choose(wanted.gpu, gpus, {uuid: left.memory for uuid, left in rooms.items()})
        asked = shares(wanted, chosen)
        admit(asked, [rooms[gpu.uuid] for gpu in chosen])
        identity = Identity(
            name=name,
            generation=time.time_ns(),
            created=time.time(),
            devices=asked,
            container=name,
            policy=terms.policy,
            priority=terms.priority,
            frame_ms=terms.frame_ms,
            unaccounted=terms.unaccounted,
            backend=terms.backend,
            mps_pipes=terms.mps_pipes,
        )
        path, lock = create(box, identity, _first_control(identity, chosen, used))
    return Slice(path, identity, chosen, lock)


def _first_control(identity: Identity, gpus: Sequence[Gpu], used: Mapping[str, int]) -> ControlPage:
    """The page that a slice of these cards starts with, of which NVML says how many bytes are used."""
    contexts = [context_bytes(gpu.name) for gpu in gpus]
    control = first_control(identity, [gpu.capacity for gpu in gpus], contexts)
    rooms = [CardRoom(gpu.capacity, max(0, gpu.capacity - used[gpu.uuid])) for gpu in gpus]
    now = time.monotonic_ns()
    devices = (room.onto(card, now) for room, card in zip(rooms, control.devices, strict=True))
    return replace(control, devices=tuple(devices))


def program_environment(environment: Mapping[str, str], made: Slice, library: Path) -> dict[str, str]:
    """What the command gets: the limiter before other preloads, its slice, its cards and no others."""
    preloads = [part for part in environment.get("LD_PRELOAD", "").replace(":", " ").split() if part]
    client = mps.client_environment(environment, made.identity) if made.identity.backend == "mps" else {}
    return {
        **environment,
        **client,
        "LD_PRELOAD": ":".join(dict.fromkeys([str(library), *preloads])),
        "WEIR_SLICE_DIR": str(made.path),
        "CUDA_VISIBLE_DEVICES": ",".join(gpu.uuid for gpu in made.gpus),
    }


def supervise(box: Path, nvml: Nvml, made: Slice, start: Callable[[Mapping[str, str]], child.Child]) -> int:
    """Start the command in its slice; its exit code. The slice goes too, unless a process of it lives on."""
    try:
        program = start(program_environment(os.environ, made, library_path()))
        with mps.watched(made.identity, _say), Office(box, Agent(box, nvml)) as office:
            return program.wait(office.resign, office.resume)
    finally:
        left = observe_one(made.path)
        if left is None or left.stats is None or not left.stats.processes:
            remove(made.path)
        os.close(made.lock)


def _say(line: str) -> None:
    click.echo(line, err=True)


def held_by(backend: str, terms: Terms, environment: Mapping[str, str], simulate: str | None) -> Terms:
    """The terms with the backend that `--backend` stands for. Raises UsageError for what MPS has not got."""
    if backend != "mps":
        return replace(terms, backend="weir")  # also `auto`: only this one holds a share of time
    mps.require_daemon(environment, simulate)
    if terms.policy != "fixed":
        raise UsageError("--policy", terms.policy, "fixed with --backend mps, which lends nothing")
    if terms.priority != 1:
        raise UsageError("--priority", terms.priority, "1 with --backend mps, where nobody waits for a turn")
    if terms.frame_ms:
        raise UsageError("--frame", terms.frame_ms, "none with --backend mps, which has no time slots")
    return replace(terms, backend="mps", mps_pipes=str(mps.pipe_directory(environment).absolute()))


def refuse_nesting(environment: Mapping[str, str]) -> None:
    """Raise where this process is in a slice already: a slice inside would be held by the inner one alone."""
    for directory in (CONTAINER_SLICE, environment.get("WEIR_SLICE_DIR", "")):
        if directory and Path(directory).is_dir():
            raise HostError(f"already in a slice ({directory}): a slice is not cut again; start this outside")


@click.command(
    context_settings={"allow_interspersed_args": False}, short_help="Run a command in a slice of a GPU."
)
@click.option("--memory", metavar="SIZE", help="As 4GiB, or 25% of the card. Not given: the whole card.")
@click.option("--cores", metavar="PERCENT", help="1 to 100. Not given: no cap, only what others leave.")
@click.option(
    "--gpu", metavar="GPU", help="Index or UUID, or several as 0,1. Not given: the one with most room."
)
@click.option("--name", metavar="NAME", help="What the slice is called. Not given: the command and a number.")
@click.option(
    "--policy",
    type=click.Choice(["fixed", "burst"]),
    default="fixed",
    show_default=True,
    help="fixed: never more than the share; burst: also what busy neighbours leave.",
)
@click.option(
    "--priority",
    type=Whole(0, 1),
    default=1,
    show_default=True,
    help="0 goes before 1 where both want what nobody was promised.",
)
@frame_option("20, more on a card that is promised almost whole", envvar="WEIR_FRAME")
@click.option(
    "--context",
    "context_counts",
    type=click.Choice(["counted", "free"]),
    default="counted",
    show_default=True,
    help="free: one CUDA context comes on top of --memory, and is kept free for it on the card.",
)
@click.option(
    "--unaccounted",
    type=click.Choice(["count", "refuse"]),
    default="count",
    show_default=True,
    help="Calls that take memory which cannot be accounted for: count them, or refuse them.",
)
@click.option(
    "--backend",
    type=click.Choice(["auto", *BACKENDS]),
    default="auto",
    show_default=True,
    help="Who holds --cores: weir, or the MPS daemon that you started (a share of multiprocessors, not of "
    "time; measured all the same). auto: weir.",
)
@box_options
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def run(
    context: click.Context,
    memory: str | None,
    cores: str | None,
    gpu: str | None,
    name: str | None,
    policy: str,
    priority: int,
    frame: str | None,
    context_counts: str,
    unaccounted: str,
    backend: str,
    simulate: str | None,
    root: Path | None,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND in a slice of a GPU: so much memory, so much of its time."""
    refuse_nesting(os.environ)
    if not command:
        raise UsageError("COMMAND", "", "give a command: weir run --memory 4GiB -- python train.py")
    name = check_name(name) if name is not None else default_name(command[0], os.getpid())
    file = child.resolve(command[0], os.environ.get("PATH", os.defpath))
    library_path()
    terms = Terms(policy, priority, parse_frame(frame) or 0, unaccounted)
    terms = held_by(backend, terms, os.environ, simulate)
    nvml = open_nvml(simulate)
    wanted = Wanted(memory, cores, gpu, context_counts)
    check(wanted, nvml.gpus())
    box = make_box_root(root, simulate)
    mask = child.block()
    child.adopt_orphans()
    made = make_slice(box, nvml, wanted, name, terms)
    context.exit(
        supervise(box, nvml, made, lambda environment: child.Child(file, command, environment, mask))
    )
