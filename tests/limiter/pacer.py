"""pacer.c by itself, loaded into the tests: its structures, its functions, and the values that they share."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import hatch_build
from limiter.layout import ControlDevice

SOURCES = Path(__file__).resolve().parents[2] / "limiter/src"
US, MS, S = 1_000, 1_000_000, 1_000_000_000
NOW = 5_000 * S  # a multiple of every frame in the tests


class Rule(ctypes.Structure):
    _fields_ = (
        ("limit", ctypes.c_uint32),
        ("guarantee", ctypes.c_uint32),
        ("gate_until", ctypes.c_uint64),
        ("frame", ctypes.c_uint64),
        ("offset", ctypes.c_uint64),
        ("length", ctypes.c_uint64),
        ("beside", ctypes.c_bool),
    )


class State(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("balance", "drain", "rest_until", "early")),
        ("shared", ctypes.c_bool),
    )


class Verdict(ctypes.Structure):
    _fields_ = (
        ("passes", ctypes.c_bool),
        ("wait_until", ctypes.c_uint64),
        ("grant", ctypes.c_uint64),
        ("expires", ctypes.c_uint64),
    )


def build(directory: Path) -> ctypes.CDLL:
    """Compile pacer.c by itself, with warnings as errors, and say what its functions take."""
    library = directory / "pacer.so"
    command = [*hatch_build.compiler(), *hatch_build.COMMON, "-Werror", "-shared", "-fPIC", f"-I{SOURCES}"]
    subprocess.run([*command, "-o", str(library), str(SOURCES / "pacer.c")], check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.pacer_decide.restype = Verdict
    loaded.pacer_decide.argtypes = [ctypes.POINTER(State), ctypes.POINTER(Rule)] + [ctypes.c_uint64] * 2
    loaded.pacer_rule.restype = Rule
    loaded.pacer_rule.argtypes = [ctypes.POINTER(ControlDevice), ctypes.c_uint64]
    loaded.pacer_balance_after.restype = ctypes.c_uint64
    loaded.pacer_balance_after.argtypes = [ctypes.c_uint64, ctypes.c_int64, ctypes.c_uint32, ctypes.c_uint64]
    loaded.pacer_balance_at.restype = ctypes.c_uint64
    loaded.pacer_balance_at.argtypes = [
        ctypes.c_uint64,
        ctypes.c_uint32,
        ctypes.c_uint32,
        ctypes.c_uint64,
    ]
    loaded.pacer_drain_after.restype = ctypes.c_uint64
    loaded.pacer_drain_after.argtypes = [ctypes.c_uint64, ctypes.c_int64, ctypes.c_uint64]
    loaded.pacer_charge_balance.argtypes = [
        ctypes.POINTER(ctypes.c_uint64),
        ctypes.c_int64,
        ctypes.c_uint32,
        ctypes.c_uint64,
    ]
    return loaded


def decide(pacer: Any, state: State, rule: Rule, now: int = NOW, estimate: int = 1 * MS) -> Verdict:
    verdict: Verdict = pacer.pacer_decide(ctypes.byref(state), ctypes.byref(rule), now, estimate)
    return verdict


def quota(limit: int) -> Rule:
    return Rule(limit=limit)


def slot(limit: int = 6000, frame: int = 20 * MS, offset: int = 0, length: int = 12 * MS) -> Rule:
    return Rule(limit=limit, guarantee=limit, frame=frame, offset=offset, length=length)
