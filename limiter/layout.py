"""The layout of the two pages as limiter/src/page.h has it: names, offsets and constants, and nothing else.

Every structure has the C structure's field names in the C structure's order; tests/limiter/test_pages.py
compiles the header and compares each offset. What the fields mean is said in the header alone. Reading and
writing them is pages.py's work.
"""

from __future__ import annotations

from ctypes import LittleEndianStructure, c_char, c_int64, c_uint8, c_uint16, c_uint32, c_uint64
from enum import IntEnum

CONTROL_MAGIC = int.from_bytes(b"WEIRCTRL", "little")
STATS_MAGIC = int.from_bytes(b"WEIRSTAT", "little")
MAJOR = 1
MINOR = 0

MAX_DEVICES = 16
SLOTS = 512
INTENTS = 8
NO_LIMIT = 2**64 - 1
COVERED = 6  # intervals of GPU time that the processes of a slice remember together
FULL_CORES = 10_000
DEADLINE_REACH = 3_600 * 10**9

UNIT = 512
WORD_SUM_SHIFT = 30
WORD_INTENT_SHIFT = 18
WORD_INTENT_MASK = 0xFFF
WORD_SEQUENCE_MASK = 0x3FFFF
KINDS = 8
APIS = 8

SHARED_OFFSET = 1 << 48  # of the locks on what a slot's process lends to siblings
SHARED_NUMBERS = 1 << 32


class Policy(IntEnum):
    """What happens to time that a slice does not use."""

    FIXED = 0
    BURST = 1


class Kind(IntEnum):
    """What device memory is held for."""

    CONTEXT = 0
    BUFFER = 1
    MANAGED = 2
    POOL = 3
    VMM = 4
    MODULE = 5
    OTHER = 6


class Api(IntEnum):
    """What a call was for that takes device memory which the ledger does not cover."""

    MEMORY = 0
    SHARED = 1
    CODE = 2
    TABLE = 3


class SlotState(IntEnum):
    """Whether a process has taken this slot; whether it lives, only the lock on its byte tells."""

    FREE = 0
    ATTACHED = 1


class ControlHeader(LittleEndianStructure):
    """struct weir_control_header."""

    _fields_ = (
        ("magic", c_uint64),
        ("major", c_uint16),
        ("minor", c_uint16),
        ("header_size", c_uint32),
        ("device_count", c_uint32),
        ("device_stride", c_uint32),
        ("generation", c_uint64),
        ("sequence", c_uint32),
        ("policy", c_uint32),
        ("refuse_unknown", c_uint32),
        ("forgeries", c_uint32),
        ("reserved", c_uint32 * 20),
    )


class ControlDevice(LittleEndianStructure):
    """struct weir_control_device."""

    _fields_ = (
        ("uuid", c_uint8 * 16),
        ("memory_limit", c_uint64),
        ("context_bytes", c_uint64),
        ("core_limit", c_uint32),
        ("core_guarantee", c_uint32),
        ("lease_deadline", c_uint64),
        ("lease_memory_limit", c_uint64),
        ("lease_core_limit", c_uint32),
        ("gate", c_uint32),
        ("gate_deadline", c_uint64),
        ("slot_deadline", c_uint64),
        ("slot_frame", c_uint64),
        ("slot_offset", c_uint64),
        ("slot_length", c_uint64),
        ("unaccounted", c_uint64),
        ("unaccounted_deadline", c_uint64),
        ("loan_deadline", c_uint64),
        ("loan_core_limit", c_uint32),
        ("reserved_core", c_uint32),
        ("card_total", c_uint64),
        ("card_room", c_uint64),
        ("card_deadline", c_uint64),
        ("beside_deadline", c_uint64),
        ("reserved", c_uint64 * 11),
    )


class StatsHeader(LittleEndianStructure):
    """struct weir_stats_header."""

    _fields_ = (
        ("magic", c_uint64),
        ("major", c_uint16),
        ("minor", c_uint16),
        ("header_size", c_uint32),
        ("device_count", c_uint32),
        ("device_stride", c_uint32),
        ("slot_count", c_uint32),
        ("slot_stride", c_uint32),
        ("generation", c_uint64),
        ("heartbeat", c_uint64),
        ("reaped", c_uint64),
        ("limiter_version", c_char * 32),
        ("uncovered_calls", c_uint64 * APIS),
        ("reserved", c_uint64 * 13),
    )


class StatsDevice(LittleEndianStructure):
    """struct weir_stats_device."""

    _fields_ = (
        ("used", c_uint64),
        ("peak_bytes", c_uint64),
        ("balance", c_uint64),
        ("gpu_time", c_uint64),
        ("throttled_time", c_uint64),
        ("periods", c_uint64),
        ("throttled_periods", c_uint64),
        ("launches", c_uint64),
        ("last_launch", c_uint64),
        ("waiting", c_uint64),
        ("longest_kernel", c_uint64),
        ("allocations", c_uint64),
        ("frees", c_uint64),
        ("denied_limit", c_uint64),
        ("denied_device", c_uint64),
        ("denied_policy", c_uint64),
        ("denied_bytes", c_uint64),
        ("uncovered", c_uint64),
        ("hook_errors", c_uint64),
        ("intent_waits", c_uint64),
        ("drain", c_uint64),
        ("launch_errors", c_uint64),
        ("covered", c_uint64 * COVERED),
        ("balance_limit", c_uint64),
        ("longest_seen", c_uint64),
        ("queue", c_uint64),
        ("reserved", c_uint64 * (7 - COVERED)),
    )


class Intent(LittleEndianStructure):
    """struct weir_intent."""

    _fields_ = (
        ("sequence", c_uint64),
        ("delta", c_int64),
        ("device", c_uint32),
        ("kind", c_uint32),
        ("applied", c_uint64),
        ("folded", c_uint64),
    )


class SlotHeader(LittleEndianStructure):
    """struct weir_slot_header."""

    _fields_ = (
        ("state", c_uint32),
        ("pid", c_uint32),
        ("attached", c_uint64),
        ("intents", Intent * INTENTS),
        ("reserved", c_uint64 * 22),
    )


class SlotDevice(LittleEndianStructure):
    """struct weir_slot_device."""

    _fields_ = (
        ("used", c_uint64),
        ("kind_bytes", c_uint64 * KINDS),
        ("lent", c_uint64),
        ("reserved", c_uint64 * 6),
    )


STRUCTURES: dict[str, type[LittleEndianStructure]] = {
    "weir_control_header": ControlHeader,
    "weir_control_device": ControlDevice,
    "weir_stats_header": StatsHeader,
    "weir_stats_device": StatsDevice,
    "weir_intent": Intent,
    "weir_slot_header": SlotHeader,
    "weir_slot_device": SlotDevice,
}
