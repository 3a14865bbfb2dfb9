"""`weir set`: changes what a running slice is promised, if that fits beside the others, or leases it less.

It writes slice.json and nothing else; the agent is the control page's one writer, and is rung to write it
now. Where no agent lives (a program left in the background) this process stands for the office itself, as
long as it takes. The command ends when the page says what was asked, so what follows it can count on it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from deviceplugin.admission import admission, admit, room
from deviceplugin.agent import Agent, promised
from deviceplugin.cards import check_name, memory_of
from deviceplugin.lease import lowers_cores, lowers_memory, obeys, parse_lease
from deviceplugin.office import Office, holder, open_bell, ring
from deviceplugin.options import frame_option, parse_frame
from limiter import layout
from limiter.identity import Identity, Lease, Share, rewrite
from limiter.pages import ControlPage
from limiter.slices import Observation, observe, observe_one, slices_root
from weir.errors import HostError, UsageError
from weir.nvml import Gpu, Nvml
from weir.options import Whole, box_options
from weir.roots import box_root
from weir.simulation import open_nvml
from weir.units import format_bytes, parse_cores

_PATIENCE = 5.0  # seconds; a page is written within milliseconds, and by a successor within a second
_LOOK = 0.002


@dataclass(frozen=True, slots=True)
class Change:
    """The options as they were typed; None where they were not."""

    memory: str | None = None
    cores: str | None = None
    policy: str | None = None
    priority: int | None = None
    frame_ms: int | None = None  # 0: no wish any more
    lease_s: int | None = None  # the limits are a lease's, for so many seconds


def changed(identity: Identity, change: Change, gpus: Sequence[Gpu]) -> Identity:
    """The slice as it is to be. `gpus`: its cards. Raises UsageError."""
    if change.lease_s is not None:
        return replace(identity, lease=_lease(identity, change, gpus))
    if identity.backend != "weir":
        refuse_what_is_fixed(change)
    devices = tuple(_share(share, change, gpu) for share, gpu in zip(identity.devices, gpus, strict=True))
    return replace(
        identity,
        devices=devices,
        policy=change.policy or identity.policy,
        priority=identity.priority if change.priority is None else change.priority,
        frame_ms=identity.frame_ms if change.frame_ms is None else change.frame_ms,
    )


def refuse_what_is_fixed(change: Change) -> None:
    """Raise where the driver was told at the program's start, and cannot be told again."""
    for option, value in (
        ("--memory", change.memory),
        ("--cores", change.cores),
        ("--policy", change.policy),
        ("--priority", change.priority),
        ("--frame", "none" if change.frame_ms == 0 else change.frame_ms),
    ):
        if value is not None:
            raise UsageError(option, value, "nothing: MPS holds this slice to what it was started with")


def _lease(identity: Identity, change: Change, gpus: Sequence[Gpu]) -> Lease:
    """The lease that is asked for: what is not named it does not lower."""
    asked = f"{change.lease_s}s"
    if change.policy or change.priority is not None or change.frame_ms is not None:
        raise UsageError("--lease", asked, "with --memory and --cores only")
    if change.memory is None and change.cores is None:
        if change.lease_s:
            raise UsageError("--lease", asked, "say what to lower, as --cores 10")
        return Lease()
    if not change.lease_s:
        raise UsageError(
            "--lease", asked, "alone, to end a lease; with --memory or --cores a time from 1s on"
        )
    return Lease(
        time.monotonic_ns() + (change.lease_s or 0) * 10**9,
        None if change.memory is None else _leased_memory(identity.devices[0], change.memory, gpus),
        layout.FULL_CORES if change.cores is None else parse_cores("--cores", change.cores),
    )


def _leased_memory(share: Share, text: str, gpus: Sequence[Gpu]) -> int:
    smallest = min(gpus, key=lambda gpu: gpu.capacity)
    return memory_of(text, share.context_bytes, smallest) + share.context_bytes


def _share(share: Share, change: Change, gpu: Gpu) -> Share:
    if change.memory is not None:
        share = replace(share, memory_bytes=memory_of(change.memory, share.context_bytes, gpu))
    if change.cores is not None:
        cores = parse_cores("--cores", change.cores)
        share = replace(share, cores_bp=cores, guarantee_bp=cores)
    return share


def refuse_less_than_held(found: Observation, wanted: Identity) -> None:
    """Raise where a card's new limit is below what the slice holds on it: nothing could take it back."""
    if found.stats is None:
        return
    for share, stats in zip(wanted.devices, found.stats.devices, strict=True):
        if share.promised_bytes is not None and share.promised_bytes < stats.used:
            raise UsageError(
                "--memory",
                format_bytes(share.promised_bytes),
                f"at least the {format_bytes(stats.used)} that the slice holds on GPU {share.index}",
            )


def change_slice(box: Path, nvml: Nvml, name: str, change: Change) -> tuple[Path, Identity]:
    """Admit the change and write it down. Raises UsageError, DoesNotFitError, HostError."""
    path = slices_root(box) / name
    with admission(box):
        found = observe_one(path)
        if found is None or found.identity is None or found.state not in ("live", "orphan"):
            alive = [one.path.name for one in observe(box, processes=False) if one.state == "live"]
            raise _unknown(name, box, alive)
        gpus = {gpu.uuid: gpu for gpu in nvml.gpus()}
        if missing := [share.uuid for share in found.identity.devices if share.uuid not in gpus]:
            raise HostError(f"{missing[0]}: this card of the slice does not answer")
        cards = [gpus[share.uuid] for share in found.identity.devices]
        wanted = changed(found.identity, change, cards)
        if change.lease_s is None:  # a lease only lowers, and what is held stays
            refuse_less_than_held(found, wanted)
            others = observe(box)
            admit(
                [_more(new, old) for new, old in zip(wanted.devices, found.identity.devices, strict=True)],
                [room(gpu, nvml.reading(gpu.uuid).memory_used, others, leaving=path) for gpu in cards],
            )
        rewrite(path, wanted)
    return path, wanted


def _unknown(name: str, box: Path, alive: Sequence[str]) -> UsageError:
    where = f"none (in {box}: --simulate and --root say where)"
    return UsageError("NAME", name, f"slices here: {', '.join(alive) or where}")


def _more(new: Share, old: Share) -> Share:
    """What has to be admitted: a promise that does not grow is not asked for again."""
    memory = new.memory_bytes if (new.promised_bytes or 0) > (old.promised_bytes or 0) else None
    cores = new.guarantee_bp if new.guarantee_bp > old.guarantee_bp else 0
    return replace(new, memory_bytes=memory, guarantee_bp=cores)


def in_force(page: ControlPage, wanted: Identity, now: int) -> bool:
    """Whether a control page says what the slice was promised, and its lease."""
    return promised(page, wanted) == page and all(obeys(card, wanted, now) for card in page.devices)


def remarks(wanted: Identity, change: Change, now: int) -> Iterator[str]:
    """What is not as asked, though it was done: a lease lowers nothing, or still lowers what was set."""
    left = (wanted.lease.deadline - now) / 1e9
    if left <= 0:
        return
    for option, value, lowers in (
        ("--memory", change.memory, lowers_memory(wanted)),
        ("--cores", change.cores, lowers_cores(wanted)),
    ):
        if value and change.lease_s and not lowers:
            yield f"{option} {value} lowers nothing: its own limit is no higher"
        if value and not change.lease_s and lowers:
            yield f"{option} {value} holds when its lease ends, in {left:.0f} s; --lease 0 ends it now"


def _obeyed(path: Path, wanted: Identity, now: Callable[[], float] = time.monotonic) -> bool:
    """Whether the control page carries the promise before patience ends, or the slice has ended."""
    end = now() + _PATIENCE
    while now() < end:
        found = observe_one(path, processes=False)
        if found is None:
            return True
        if found.control and in_force(found.control, wanted, time.monotonic_ns()):
            return True
        time.sleep(_LOOK)
    return False


def put_into_force(box: Path, path: Path, wanted: Identity, office: Office | None = None) -> None:
    """Ring the agent for a change that is written down, and return when it is obeyed. Raises HostError."""
    bell = open_bell(box)
    ring(bell)
    os.close(bell)
    if not _obeyed(path, wanted):
        why = office.problem if office and office.held else _not_ours(box)
        raise HostError(
            f"slice {path.name}: written down, but not in force after {_PATIENCE:.0f} s: "
            f"{why or 'its control page cannot be written'}"
        )


def _not_ours(box: Path) -> str:
    """Who should have put a change into force, and what to do about it."""
    found = holder(box)
    if found is None:
        return f"no agent holds {box}/agent.lock"
    return f"process {found.pid}, the agent, does not obey; end that weir run, and another takes over"


@click.command("set", short_help="Change what a running slice may use.")
@click.argument("name")
@click.option("--memory", metavar="SIZE", help="As 4GiB, or 25% of the card; not below what it holds.")
@click.option("--cores", metavar="PERCENT", help="1 to 100.")
@click.option("--policy", type=click.Choice(["fixed", "burst"]), help="As for weir run.")
@click.option("--priority", type=Whole(0, 1), help="As for weir run.")
@frame_option("as before")
@click.option(
    "--lease",
    metavar="TIME",
    help="For so long, as 30s or 5m, --memory and --cores lower its limits and no more; 0 ends that.",
)
@box_options
def set_slice(
    name: str,
    memory: str | None,
    cores: str | None,
    policy: str | None,
    priority: int | None,
    frame: str | None,
    lease: str | None,
    simulate: str | None,
    root: Path | None,
) -> None:
    """Change what the running slice NAME may use; in force when the command ends."""
    change = Change(memory, cores, policy, priority, parse_frame(frame), parse_lease(lease))
    if change == Change():
        options = "--memory, --cores, --policy, --priority, --frame, --lease"
        raise UsageError("OPTIONS", "", f"say what to change, with one or more of {options}")
    check_name(name)
    nvml, box = open_nvml(simulate), box_root(root, simulate)
    if not box.is_dir():
        raise _unknown(name, box, [])
    path, wanted = change_slice(box, nvml, name, change)
    with Office(box, Agent(box, nvml)) as office:
        put_into_force(box, path, wanted, office)
    for remark in remarks(wanted, change, time.monotonic_ns()):
        click.echo(f"weir: slice {name}: {remark}", err=True)
