"""Makes the two pages of a slice directory and writes the control page (limiter/src/page.h).

For the agent alone: a page appears whole or not at all, has one writer, and is never written through a
symbolic link. The sequence number is odd while a write is under way. It writes no stats page again after
making it: that one is the limiter's.
"""

from __future__ import annotations

import ctypes
import os
import struct
from dataclasses import fields
from pathlib import Path

from limiter import layout
from limiter.pages import OPEN_FLAGS, ControlDevice, ControlPage, CorruptPageError, header_of, opened


def create_control(path: Path, page: ControlPage) -> None:
    """Make the control page, whole or not at all. The caller owns the directory."""
    _create(path, _control_bytes(page, sequence=0), 0o644)


def update_control(path: Path, page: ControlPage) -> None:
    """Write `page` over the one that is there, which has as many cards. Raises PageError.

    A writer that died half-way left an odd sequence number: it is kept while this write repairs the rest.
    A page that an agent of another minor version made, with other sizes, is replaced: programs move to it.
    """
    at = layout.ControlHeader.sequence.offset
    with opened(path, os.O_RDWR) as descriptor:
        header = header_of(
            path, layout.ControlHeader, os.pread(descriptor, 4096, 0), layout.CONTROL_MAGIC, 48
        )
        if header.device_count != len(page.devices):
            raise CorruptPageError(f"{path}: made for other cards than these")
        if (header.header_size, header.device_stride) != (
            ctypes.sizeof(layout.ControlHeader),
            ctypes.sizeof(layout.ControlDevice),
        ):
            return create_control(path, page)
        writing = (header.sequence | 1) & 0xFFFFFFFF
        os.pwrite(descriptor, struct.pack("<I", writing), at)
        os.pwrite(descriptor, _control_bytes(page, writing), 0)
        os.pwrite(descriptor, struct.pack("<I", (writing + 1) & 0xFFFFFFFF), at)
    return None


def create_stats(path: Path, generation: int, devices: int) -> None:
    """Make an empty stats page that every process of the slice, whoever it runs as, may write."""
    header = layout.StatsHeader(
        magic=layout.STATS_MAGIC,
        major=layout.MAJOR,
        minor=layout.MINOR,
        header_size=ctypes.sizeof(layout.StatsHeader),
        device_count=devices,
        device_stride=ctypes.sizeof(layout.StatsDevice),
        slot_count=layout.SLOTS,
        slot_stride=ctypes.sizeof(layout.SlotHeader) + devices * ctypes.sizeof(layout.SlotDevice),
        generation=generation,
    )
    size = header.header_size + devices * header.device_stride + layout.SLOTS * header.slot_stride
    _create(path, bytes(header), 0o666, size)


def _create(path: Path, content: bytes, mode: int, size: int | None = None) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | OPEN_FLAGS, mode)
    try:
        os.fchmod(descriptor, mode)  # the umask is not ours to change
        os.pwrite(descriptor, content, 0)
        os.posix_fallocate(descriptor, 0, size or len(content))  # a hole could not be filled on a full disk
        partial.rename(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def _control_bytes(page: ControlPage, sequence: int) -> bytes:
    header = layout.ControlHeader(
        magic=layout.CONTROL_MAGIC,
        major=layout.MAJOR,
        minor=layout.MINOR,
        header_size=ctypes.sizeof(layout.ControlHeader),
        device_count=len(page.devices),
        device_stride=ctypes.sizeof(layout.ControlDevice),
        generation=page.generation,
        sequence=sequence,
        policy=page.policy,
        refuse_unknown=page.refuse_unknown,
        forgeries=page.forgeries,
    )
    devices = bytearray()
    for one in page.devices:
        raw = layout.ControlDevice(uuid=(ctypes.c_uint8 * 16)(*one.uuid))
        for field in fields(ControlDevice):
            if field.name != "uuid":
                setattr(raw, field.name, getattr(one, field.name))
        devices += bytes(raw)
    return bytes(header) + bytes(devices)
