"""Leases: limits that are lower for a while and end by themselves, whoever dies meanwhile.

`weir set NAME --lease 30s --cores 10` writes one into slice.json; the agent puts it into the control page
with its own deadline, which the limiter heeds. A lease only lowers, so it is admitted without asking for
room, and memory that the slice holds beyond it stays: nothing new is given. The page has one deadline for
what a lease and a time slot lower: while a slot caps the slice too it is the slot's, renewed with it. Under a
lease the limiter holds a slice of MPS too, to a share of time beside that of multiprocessors.
"""

from __future__ import annotations

import re
from dataclasses import replace

from limiter import layout
from limiter.identity import Identity, Lease
from limiter.pages import ControlDevice, in_force
from weir.errors import UsageError

_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}
LONGEST = layout.DEADLINE_REACH // 10**9  # a deadline further off is no deadline


def parse_lease(text: str | None) -> int | None:
    """Seconds, None where nothing was asked; 0 ends a lease. Raises UsageError."""
    if text is None:
        return None
    match = re.fullmatch(r"([0-9]{1,4})([smh]?)", text.strip())
    if not match or int(match[1]) * _SECONDS[match[2]] > LONGEST:
        raise UsageError("--lease", text, "0, or a time up to 1h, as 30s or 5m")
    return int(match[1]) * _SECONDS[match[2]]


def lowers_memory(identity: Identity) -> bool:
    """Whether the slice's lease, while it lasts, is below what it may hold of some card."""
    least = _memory_limit(identity.lease)
    promised = [share.promised_bytes for share in identity.devices]
    return least != layout.NO_LIMIT and any(most is None or least < most for most in promised)


def lowers_cores(identity: Identity) -> bool:
    """… and below the most that it may get of some card's time, which `burst` does not bound."""
    burst = identity.policy == "burst"
    most = (layout.FULL_CORES if burst else identity.paced_bp(share) for share in identity.devices)
    return any(identity.lease.cores_bp < one for one in most)


def _memory_limit(lease: Lease) -> int:
    """As the control page says it."""
    return layout.NO_LIMIT if lease.memory_bytes is None else lease.memory_bytes


def with_lease(control: ControlDevice, lease: Lease, now: int) -> ControlDevice:
    """The control fields of a card, whose slot is in them already, under a lease."""
    if lease.deadline <= now:
        return replace(control, lease_memory_limit=layout.NO_LIMIT)
    capped = control.lease_core_limit < layout.FULL_CORES
    return replace(
        control,
        lease_memory_limit=_memory_limit(lease),
        lease_core_limit=min(control.lease_core_limit, lease.cores_bp),
        lease_deadline=control.lease_deadline if capped else lease.deadline,
    )


def obeys(control: ControlDevice, identity: Identity, now: int) -> bool:
    """Whether a card's fields say what the slice's lease says, or no more of one that has ended."""
    lease = identity.lease
    if lease.deadline > now:
        cores = control.core_limit_at(now)
        return control.memory_limit_at(now) <= _memory_limit(lease) and cores <= lease.cores_bp
    slotted = identity.backend == "weir" and in_force(control.slot_deadline, now)
    slot_caps = slotted and control.core_limit == layout.FULL_CORES
    return control.lease_memory_limit == layout.NO_LIMIT and (
        slot_caps or control.lease_core_limit == layout.FULL_CORES
    )
