"""What `weir doctor` looks at on this host, one small function for each question.

A finding is `ok`, `note` (held, but know this) or `fail` (nothing can be held), with what to do about it. The
functions look and change nothing on the host but temporary files; nothing here prints.
"""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deviceplugin import dmem, mps, reconcile
from deviceplugin.office import asleep
from limiter import layout, library_path
from limiter.belonging import Origin, read_origin, tell
from limiter.pages import StatsPage
from limiter.slices import Observation
from weir.errors import HostError
from weir.mps import daemon_lives
from weir.nvml import Nvml, in_host_pid_namespace
from weir.roots import check_private
from weir.units import format_bytes

OK, NOTE, FAIL = "ok", "note", "fail"
_LOAD_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Finding:
    """One answer. `advice` is empty where there is nothing to do."""

    subject: str
    state: str
    found: str
    advice: str = ""


def library() -> Finding:
    """The limiter is built, and a program starts with it."""
    try:
        path = library_path()
    except HostError as error:
        return Finding("limiter", FAIL, str(error), "run `make native`")
    program = "import sys; sys.exit('libweir' not in open('/proc/self/maps').read())"
    try:
        tried = subprocess.run(
            [sys.executable, "-S", "-c", program],
            env={"LD_PRELOAD": str(path)},
            capture_output=True,
            text=True,
            timeout=_LOAD_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("limiter", FAIL, f"a program with it does not run: {error}", "run `make native`")
    if tried.returncode or tried.stderr:
        why = tried.stderr.strip().splitlines()[:1] or ["it is not in the program's memory"]
        return Finding(
            "limiter", FAIL, f"{path}: cannot be preloaded: {why[0]}", "compile it on this machine"
        )
    return Finding("limiter", OK, f"{path} can be preloaded")


def root(box: Path) -> Finding:
    """Slice directories can be made where they belong."""
    there = next(path for path in (box, *box.parents) if os.path.exists(path))  # noqa: PTH110  Path's may raise
    try:
        for path in (box, box.parent):
            if path in (there, *there.parents):
                check_private(path)
        tempfile.TemporaryDirectory(
            dir=there
        ).cleanup()  # modes and owners do not say it of every file system
    except HostError as error:
        return Finding("slice root", FAIL, str(error), "give another with --root")
    except OSError as error:
        why = f"{there}: no directory can be made in it: {error.strerror}"
        return Finding("slice root", FAIL, why, "give another with --root")
    return Finding("slice root", OK, f"{box}{'' if there == box else ' (made by the first weir run)'}")


def locks() -> Finding:
    """The kernel has open-file-description locks, by which dead processes are told from living ones."""
    with tempfile.TemporaryFile() as file:
        try:
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 1, 0))
        except OSError as error:
            return Finding(
                "kernel locks", FAIL, f"F_OFD_SETLK: {error.strerror}", "Linux 3.15 or newer is needed"
            )
    return Finding("kernel locks", OK, "open-file-description locks work")


def cards(nvml: Nvml) -> Iterator[Finding]:
    """The driver, and each card with what is used of it."""
    yield Finding("driver", OK, f"{nvml.driver_version}, CUDA {nvml.cuda_version}")
    gpus = nvml.gpus()
    if not gpus:
        yield Finding("cards", FAIL, "the driver knows no GPU", "--simulate h200 runs on a simulated one")
    for gpu in gpus:
        used = nvml.reading(gpu.uuid).memory_used
        found = f"{gpu.name}, {format_bytes(used)} of {format_bytes(gpu.capacity)} used, {gpu.uuid}"
        if gpu.mig_mode:
            yield Finding(
                f"GPU {gpu.index}", NOTE, f"{found}; MIG is on", "slices are made of whole cards only"
            )
        else:
            yield Finding(f"GPU {gpu.index}", OK, found)


def outsiders(nvml: Nvml, seen: Sequence[Observation]) -> Finding:
    """Programs on the cards that are in no slice: nothing holds them."""
    found: dict[int, int] = defaultdict(int)
    households = reconcile.households(seen)
    look = read_origin if nvml.names_our_processes else Origin
    for gpu in nvml.gpus():
        on_card = {one.pid: one.used for one in nvml.processes(gpu.uuid)}
        for pid, belongs in tell({pid: look(pid) for pid in on_card}, households).items():
            if not belongs.slot:
                found[pid] += on_card[pid]
    if not found:
        return Finding("other programs", OK, "none on the cards without the limiter")
    which = ", ".join(f"{pid} ({format_bytes(used)})" for pid, used in sorted(found.items())[:5])
    return Finding(
        "other programs",
        NOTE,
        f"{len(found)} on the cards without the limiter: {which}",
        "start them with weir run; their memory counts as gone, their GPU time is not held",
    )


def pid_namespace(simulated: bool, namespace: Path = Path("/proc/self/ns/pid")) -> Finding:
    """Whether NVML's process IDs, which are the host's, mean anything here."""
    if simulated or in_host_pid_namespace(namespace):
        return Finding("process IDs", OK, "NVML's are the same as here")
    return Finding(
        "process IDs",
        NOTE,
        "this is a PID namespace of its own, NVML gives the host's: ledgers may not be held against it",
        "run the container with the host's PID namespace, or trust the ledgers",
    )


def mps_daemon(environment: Mapping[str, str]) -> Finding:
    """Whether an MPS daemon serves this user's programs."""
    pipes = mps.pipe_directory(environment)
    if not daemon_lives(pipes):
        return Finding("MPS", OK, f"no daemon at {pipes}")
    return Finding(
        "MPS",
        NOTE,
        f"a daemon lives at {pipes}: programs of all slices are its clients, one client's fault "
        "ends all, and its server shows as a program without the limiter",
        "weir run --backend mps lets it hold a share of multiprocessors; "
        "stop it (echo quit | nvidia-cuda-mps-control) if nobody wants it",
    )


def kernel_limits(nvml: Nvml, root: Path = dmem.CGROUPS, membership: Path = dmem.MEMBERSHIP) -> Finding:
    """Whether the kernel could hold the cards' memory, and to what it holds programs that start from here."""
    found = dmem.regions(root, membership)
    if found is None:
        return Finding("kernel memory limits", OK, "no dmem controller here, so none are used")
    regions = [one for gpu in nvml.gpus() for one in dmem.of_card(found, gpu.pci_bus_id)]
    if not regions:
        return Finding("kernel memory limits", OK, "dmem is there, but knows no card of these: not used")
    return Finding(
        "kernel memory limits",
        NOTE,
        f"dmem knows {', '.join(map(_region, regions))}: not used by weir run",
        "a limit that root sets (nvidia-smi memory-limits) holds as well, for all of a cgroup together",
    )


def _region(one: dmem.Region) -> str:
    if one.limit is None:
        return f"{one.name} (no limit here)"
    return f"{one.name} ({format_bytes(one.used)} of {format_bytes(one.limit)} used here)"


def agent(box: Path, seen: Sequence[Observation]) -> Iterator[Finding]:
    """An agent that was stopped and that nobody has succeeded, or none while slices go on."""
    orphans = ", ".join(one.path.name for one in seen if one.state == "orphan")
    if orphans and not any(one.supervised for one in seen):
        yield Finding(
            "agent",
            NOTE,
            f"none, for what started {orphans} is gone: quotas alone hold, burst slices get no more than "
            "their share, and memory that only NVML shows is not taken off",
            "the next weir run here takes over",
        )
    if held := asleep(box):
        yield Finding(
            "agent",
            NOTE,
            f"process {held.pid} has not looked at the slices for {held.age:.0f} s; until it does, quotas "
            "alone hold, and no change of limits is obeyed",
            f"kill -CONT {held.pid}; the next weir run or weir set here takes over as well",
        )


def slices(seen: Sequence[Observation]) -> Iterator[Finding]:
    """Directories that are no slice's, slices that lost their daemon, or took memory unaccounted for."""
    for one in seen:
        if one.state in ("corrupt", "version_mismatch"):
            yield Finding("slices", NOTE, one.problem, f"remove {one.path}")
            continue
        if one.identity and one.identity.mps_pipes and not daemon_lives(Path(one.identity.mps_pipes)):
            yield Finding(
                f"slice {one.path.name}",
                NOTE,
                f"its MPS daemon at {one.identity.mps_pipes} is gone: what starts in it now has no share",
                "start the daemon again as this user (nvidia-cuda-mps-control -d), or start the slice anew",
            )
        if one.stats and (met := unaccounted_calls(one.stats)):
            yield Finding(
                f"slice {one.path.name}",
                NOTE,
                f"calls that took memory unaccounted for: {met}",
                "weir run --unaccounted refuse refuses them (docs/coverage.md)",
            )


def unaccounted_calls(stats: StatsPage) -> str:
    """What a slice met of the calls that can be refused; every program loads code, which cannot."""
    words = {layout.Api.MEMORY: "to allocate", layout.Api.SHARED: "for memory from elsewhere"}
    counts = ((stats.uncovered_calls[api], word) for api, word in words.items())
    return ", ".join(f"{count} {word}" for count, word in counts if count)
