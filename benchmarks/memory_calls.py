"""Microseconds of driver calls about memory, as a program finds them: allocate and free 2 MiB, and a query.

Prints one JSON line; each figure is the quickest of several rounds, with the cost of ctypes in it (the same
in every run, so ratios are a little too kind and differences are right).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

from memory_ways import call

ROUNDS, CALLS = 12, 200


def allocate_and_free() -> None:
    """One buffer of 2 MiB."""
    pointer = c_uint64()
    call("cuMemAlloc_v2", byref(pointer), c_size_t(2 << 20))
    call("cuMemFree_v2", pointer)


def query() -> None:
    """What is free."""
    call("cuMemGetInfo_v2", byref(c_size_t()), byref(c_size_t()))


def quickest(act: Callable[[], None]) -> float:
    """Microseconds for one call in the quickest round."""
    rounds = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for _ in range(CALLS):
            act()
        rounds.append((time.perf_counter() - started) / CALLS * 1e6)
    return min(rounds)


def main() -> None:
    """Measure in one context."""
    context = c_void_p()
    call("cuInit", c_uint(0))
    call("cuDevicePrimaryCtxRetain", byref(context), c_int(0))
    call("cuCtxSetCurrent", context)
    print(json.dumps({"allocate_and_free_us": quickest(allocate_and_free), "query_us": quickest(query)}))


if __name__ == "__main__":
    main()
