"""What a driver's calls do to a capture: the simulated card answers as an H200 did, call by call."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import hatch_build

ASK = hatch_build.ROOT / "benchmarks/capture_calls.py"
H200 = Path(__file__).parent / "data/h200_captures.txt"  # by the same calls, driver 580.159.04


def test_calls_disturb_a_capture_as_on_an_h200(h200: Any) -> None:
    result = h200.run(sys.executable, ASK)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines() == H200.read_text().splitlines()


UPLOADS = """
import sys
sys.path.insert(0, {folder!r})
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p
from capture_cases import Card, MIB
from memory_ways import call, graph_with_node, graph_upload

def reserved():
    value = c_uint64()
    call("cuDeviceGetGraphMemAttribute", c_int(0), c_int(2), byref(value))
    return value.value // MIB

card = Card()
call("cuStreamSynchronize", card.other)
call("cuDeviceGraphMemTrim", c_int(0))
seen = [reserved()]
for _ in range(2):
    graph_upload()
    seen.append(reserved())
for _ in range(2):
    call("cuGraphLaunch", graph_with_node(), card.other)
    seen.append(reserved())
print(*seen)
"""


def test_uploaded_graphs_share_a_reserve_which_launches_use_up(h200: Any) -> None:
    result = h200.run(sys.executable, "-c", UPLOADS.format(folder=str(ASK.parent)))
    assert result.stdout.split() == ["0", "64", "64", "64", "128"], result.stderr
