"""What a person asked of which cards, checked: the options of `weir run` as values.

Pure: cards and what is free on them are arguments. Every refusal names the option, the value and what is
allowed. Whether it fits beside the other slices is admission.py's question.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deviceplugin.contexts import context_bytes
from limiter import layout
from limiter.identity import Share
from weir.errors import NoGpuError, UsageError
from weir.nvml import Gpu
from weir.units import format_bytes, parse_cores, parse_memory

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options as they were typed; None where they were not."""

    memory: str | None = None
    cores: str | None = None
    gpu: str | None = None
    context: str = "counted"  # or "free"


def choose(wanted: str | None, gpus: Sequence[Gpu], free: Mapping[str, int]) -> tuple[Gpu, ...]:
    """The cards that `--gpu` names; without it the one with most memory free. Raises WeirError."""
    if not gpus:
        raise NoGpuError("the driver knows no GPU here; --simulate h200 runs on a simulated one")
    if wanted is None:
        whole = [gpu for gpu in gpus if not gpu.mig_mode]
        if not whole:
            raise NoGpuError(
                "every GPU here is in MIG mode; slices are made of whole cards (nvidia-smi -mig 0)"
            )
        return (max(whole, key=lambda gpu: (free.get(gpu.uuid, 0), -gpu.index)),)
    by_name = {str(gpu.index): gpu for gpu in gpus} | {gpu.uuid: gpu for gpu in gpus}
    names = [name.strip() for name in wanted.split(",")]
    allowed = f"GPUs 0 to {len(gpus) - 1}" if len(gpus) > 1 else "GPU 0"
    for name in names:
        if name not in by_name:
            uuids = ", ".join(gpu.uuid for gpu in gpus)
            raise UsageError("--gpu", name or wanted, f"this machine has {allowed} (by UUID: {uuids})")
    chosen = tuple(by_name[name] for name in names)
    if any(gpu.mig_mode for gpu in chosen):
        raise UsageError("--gpu", wanted, "a card that is not in MIG mode; slices are made of whole cards")
    if len({gpu.uuid for gpu in chosen}) < len(chosen):
        raise UsageError("--gpu", wanted, "each card once")
    if len(chosen) > layout.MAX_DEVICES:
        raise UsageError("--gpu", wanted, f"at most {layout.MAX_DEVICES} cards")
    return chosen


def shares(wanted: Wanted, chosen: Sequence[Gpu]) -> tuple[Share, ...]:
    """The slice's share of each chosen card. Raises UsageError."""
    cores = None if wanted.cores is None else parse_cores("--cores", wanted.cores)
    return tuple(_share(wanted, cores, gpu) for gpu in chosen)


def _share(wanted: Wanted, cores: int | None, gpu: Gpu) -> Share:
    context = context_bytes(gpu.name) if wanted.context == "free" else 0
    return Share(
        uuid=gpu.uuid,
        index=gpu.index,
        memory_bytes=None if wanted.memory is None else memory_of(wanted.memory, context, gpu),
        cores_bp=cores or layout.FULL_CORES,
        guarantee_bp=cores or 0,
        context_bytes=0 if wanted.memory is None else context,
    )


def memory_of(text: str, granted: int, gpu: Gpu) -> int:
    """Bytes of `--memory` on this card. Raises UsageError.

    `granted`: bytes that come on top, for a context that does not count.
    """
    size = parse_memory("--memory", text, gpu.capacity)
    context = context_bytes(gpu.name)
    takes = f"a program's context alone takes {format_bytes(context)} on this card ({gpu.name})"
    if size + granted <= context:
        raise UsageError("--memory", text, takes)
    if size + granted > gpu.capacity:
        raise UsageError("--memory", text, f"at most {format_bytes(gpu.capacity - granted)}: {takes}")
    return size


def check_name(name: str) -> str:
    """`name` if it can be a slice's (it names a directory and becomes a label). Raises UsageError."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            "--name", name, "1 to 63 letters, digits, dots, dashes, underscores; no dash or dot first"
        )
    return name


def default_name(command: str, pid: int) -> str:
    """A name made of the command's own and a process ID."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", command.rsplit("/", 1)[-1]).strip("-._")[:40]
    return f"{stem or 'slice'}-{pid}"
