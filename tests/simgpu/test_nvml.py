"""What NVML says of simulated machines, asked through nvidia-ml-py by programs that run on them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MIB = 1 << 20
CONTEXT = 518 * MIB

CARDS = """
def card(index):
    h = n.nvmlDeviceGetHandleByIndex(index)
    memory = n.nvmlDeviceGetMemoryInfo(h, version=n.nvmlMemory_v2)
    return {
        "name": n.nvmlDeviceGetName(h),
        "uuid": n.nvmlDeviceGetUUID(h),
        "serial": n.nvmlDeviceGetSerial(h),
        "bus": n.nvmlDeviceGetPciInfo(h).busId,
        "usable": memory.total - memory.reserved,
        "used": memory.used,
        "free": memory.free,
        "v1": [getattr(n.nvmlDeviceGetMemoryInfo(h), f) for f in ("total", "used", "free")],
        "processes": {p.pid: p.usedGpuMemory for p in n.nvmlDeviceGetComputeRunningProcesses(h)},
        "capability": n.nvmlDeviceGetCudaComputeCapability(h),
        "mig": value(n.nvmlDeviceGetMigMode, h),
        "links": value(n.nvmlDeviceGetNvLinkState, h, 0),
    }
answer = [card(index) for index in range(n.nvmlDeviceGetCount())]
"""


@pytest.mark.parametrize(
    ("spec", "count", "name", "usable", "capability", "mig", "link"),
    [
        ("h200", 1, "NVIDIA H200", 143_155, [9, 0], [0, 0], 1),
        ("a100-40g:2", 2, "NVIDIA A100-SXM4-40GB", 40_386, [8, 0], [0, 0], 1),
        ("t4:3", 3, "Tesla T4", 14_910, [7, 5], "Not Supported", "Not Supported"),
    ],
)
def test_a_machine_has_the_cards_of_its_name(
    machine_of: Callable[[str], Any],
    spec: str,
    count: int,
    name: str,
    usable: int,
    capability: list[int],
    mig: Any,
    link: Any,
) -> None:
    cards = machine_of(spec).ask(CARDS)
    assert (
        len(cards) == count == len({card["uuid"] for card in cards}) == len({card["bus"] for card in cards})
    )
    for card in cards:
        assert (card["name"], card["usable"]) == (name, usable * MIB)
        assert (card["capability"], card["mig"], card["links"]) == (capability, mig, link)
        assert re.fullmatch(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", card["uuid"])
        assert (card["used"], card["free"], card["processes"]) == (0, card["usable"], {})
        total, used, free = card["v1"]
        assert (used, free) == (total - card["usable"], card["usable"])


def test_every_way_to_a_card_leads_to_the_same_one(machine_of: Callable[[str], Any]) -> None:
    answer = machine_of("h200:2").ask("""
answer = []
for index in range(2):
    h = n.nvmlDeviceGetHandleByIndex(index)
    ways = [
        n.nvmlDeviceGetHandleByUUID(n.nvmlDeviceGetUUID(h)),
        n.nvmlDeviceGetHandleBySerial(n.nvmlDeviceGetSerial(h)),
        n.nvmlDeviceGetHandleByPciBusId(n.nvmlDeviceGetPciInfo(h).busId),
    ]
    answer += [[n.nvmlDeviceGetIndex(way), n.nvmlDeviceGetMinorNumber(way)] for way in ways]
""")
    assert answer == [[0, 0]] * 3 + [[1, 1]] * 3


def test_refusals_are_nvmls_own(h200: Any) -> None:
    answer = h200.ask("""
import ctypes
card = n.nvmlDeviceGetHandleByIndex(0)
forged = ctypes.cast(ctypes.create_string_buffer(64), type(card))
answer = [
    value(n.nvmlDeviceGetHandleByIndex, 1),
    value(n.nvmlDeviceGetHandleByUUID, "GPU-00000000-0000-0000-0000-000000000000"),
    value(n.nvmlDeviceGetHandleByPciBusId, "00000000:77:00.0"),
    value(n.nvmlDeviceGetHandleByPciBusId, "nonsense"),
    value(n.nvmlDeviceGetName, forged),
    value(n.nvmlDeviceGetMemoryInfo, card, 7),
    value(n.nvmlSystemGetProcessName, 1),
]
n.nvmlShutdown()
answer.append(value(n.nvmlDeviceGetCount))
""")
    invalid = "Invalid Argument"
    assert answer == [
        invalid, "Not Found", "Not Found", invalid, invalid, "Version mismatch", "Not Found", "Uninitialized",
    ]  # fmt: skip


def test_versions_are_the_driver_of_the_measured_card(h200: Any) -> None:
    code = "answer = [n.nvmlSystemGetDriverVersion(), n.nvmlSystemGetCudaDriverVersion_v2()]"
    assert h200.ask(code) == ["580.159.04", 13000]


def test_a_process_is_charged_with_its_context_and_its_blocks(h200: Any) -> None:
    load = h200.start("--memory", "64MiB,1MiB,1", "--hold", "60")
    load.until("allocated")
    (card,) = h200.ask(CARDS)
    used = card["processes"][str(load.pid)]
    assert used == card["used"] == card["usable"] - card["free"]
    assert used == CONTEXT + 64 * MIB + 2 * MIB, "1 MiB and 1 B share one block of 2 MiB"


def test_memory_of_a_killed_process_is_free_again(h200: Any) -> None:
    load = h200.start("--memory", "2GiB", "--hold", "60")
    load.until("allocated")
    assert h200.ask(CARDS)[0]["used"] > 2048 * MIB
    load.process.kill()
    load.process.wait()
    (card,) = h200.ask(CARDS)
    assert (card["processes"], card["used"]) == ({}, 0)


def test_each_of_two_cards_lists_its_own_processes(machine_of: Callable[[str], Any]) -> None:
    machine = machine_of("h200:2")
    loads = [machine.start("--memory", "8MiB", "--hold", "60", "--device", str(card)) for card in (0, 1)]
    for load in loads:
        load.until("allocated")
    cards = machine.ask(CARDS)
    assert [list(card["processes"]) for card in cards] == [[str(load.pid)] for load in loads]


def test_processes_are_told_by_host_ids(h200: Any) -> None:
    load = h200.start("--memory", "8MiB", "--hold", "60", SIMGPU_PID_OFFSET="1000000")
    load.until("allocated")
    assert list(h200.ask(CARDS)[0]["processes"]) == [str(load.pid + 1_000_000)]
    name = h200.ask(f"answer = n.nvmlSystemGetProcessName({load.pid + 1_000_000})")
    assert Path(name).name == "weir-load"


def test_older_process_queries_tell_the_same(h200: Any) -> None:
    load = h200.start("--memory", "8MiB", "--hold", "60")
    load.until("allocated")
    answer = h200.ask("""
import ctypes
library = ctypes.CDLL("libnvidia-ml.so.1")
card = n.nvmlDeviceGetHandleByIndex(0)
class First(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong)]
count, one = ctypes.c_uint(1), First()
status = library.nvmlDeviceGetComputeRunningProcesses(card, ctypes.byref(count), ctypes.byref(one))
none = ctypes.c_uint(0)
short = library.nvmlDeviceGetComputeRunningProcesses(card, ctypes.byref(none), None)
graphics = n.nvmlDeviceGetGraphicsRunningProcesses(card)
answer = [status, count.value, one.pid, one.used, short, none.value, len(graphics)]
""")
    success, insufficient_size = 0, 7
    assert answer == [success, 1, load.pid, CONTEXT + 8 * MIB, insufficient_size, 1, 0]


def test_mig_devices_are_found_named_and_sized(machine_of: Callable[[str], Any]) -> None:
    answer = machine_of("h200:2,mig=1g.18gb*7").ask("""
card = n.nvmlDeviceGetHandleByIndex(1)
migs = [n.nvmlDeviceGetMigDeviceHandleByIndex(card, i) for i in range(n.nvmlDeviceGetMaxMigDeviceCount(card))]
answer = {
    "mode": n.nvmlDeviceGetMigMode(card),
    "uuids": [n.nvmlDeviceGetUUID(mig) for mig in migs],
    "instances": [[n.nvmlDeviceGetGpuInstanceId(mig), n.nvmlDeviceGetComputeInstanceId(mig)] for mig in migs],
    "found": [n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByUUID(n.nvmlDeviceGetUUID(mig))) for mig in migs],
    "parents": [n.nvmlDeviceGetIndex(n.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig)) for mig in migs],
    "memory": n.nvmlDeviceGetAttributes_v2(migs[0]).memorySizeMB,
    "multiprocessors": n.nvmlDeviceGetAttributes_v2(migs[0]).multiprocessorCount,
    "whole": value(n.nvmlDeviceGetGpuInstanceId, card),
}
""")
    assert answer["mode"] == [1, 1]
    assert len(set(answer["uuids"])) == 7
    assert all(uuid.startswith("MIG-") for uuid in answer["uuids"])
    assert answer["instances"] == [[i, 0] for i in range(1, 8)]
    assert answer["found"] == list(range(7))
    assert answer["parents"] == [1] * 7
    assert (answer["memory"], answer["multiprocessors"]) == (143_155 // 8, 16)
    assert answer["whole"] == "Invalid Argument"


@pytest.mark.parametrize(
    ("spec", "nvlink", "pci"), [("h200:4", 0, 5), ("t4:2", 5, 0)], ids=["switched", "host bridge"]
)
def test_cards_are_linked_as_the_model_is(
    machine_of: Callable[[str], Any], spec: str, nvlink: int, pci: int
) -> None:
    answer = machine_of(spec).ask("""
one, two = n.nvmlDeviceGetHandleByIndex(0), n.nvmlDeviceGetHandleByIndex(1)
answer = {
    "nvlink": n.nvmlDeviceGetP2PStatus(one, two, n.NVML_P2P_CAPS_INDEX_NVLINK),
    "pci": n.nvmlDeviceGetP2PStatus(one, two, n.NVML_P2P_CAPS_INDEX_PCI),
    "ancestor": n.nvmlDeviceGetTopologyCommonAncestor(one, two) == n.NVML_TOPOLOGY_HOSTBRIDGE,
    "near": len(n.nvmlDeviceGetTopologyNearestGpus(one, n.NVML_TOPOLOGY_HOSTBRIDGE)),
    "count": n.nvmlDeviceGetCount(),
    "far_ends": [
        getattr(value(n.nvmlDeviceGetNvLinkRemotePciInfo, card, 0), "busId", "none") for card in (one, two)
    ],
}
""")
    assert answer["far_ends"] == ["none" if nvlink else "00000000:05:00.0"] * 2, "one switch for all"
    assert (answer["nvlink"], answer["pci"], answer["ancestor"]) == (nvlink, pci, True)
    assert answer["near"] == answer["count"] - 1


def test_a_forks_child_can_go_on_asking(h200: Any) -> None:
    answer = h200.ask("""
import os
if (child := os.fork()) == 0:
    os._exit(0 if n.nvmlDeviceGetCount() == 1 else 1)
answer = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
""")
    assert answer == 0


def test_every_function_of_the_header_is_there(h200: Any) -> None:
    listed = Path(__file__).parents[2] / "simgpu/src/nvml/generated_entry_points.h"
    names = re.findall(r"ENTRY\((\w+)\)", listed.read_text())
    code = f"import ctypes, json; library = ctypes.CDLL({str(h200.library)!r}); " + (
        "print(json.dumps([name for name in json.load(open(0)) if not hasattr(library, name)]))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(names),
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(names) > 380
    assert result.stdout.strip() == "[]"


def test_what_is_not_simulated_says_so_by_name_once(h200: Any) -> None:
    code = (
        "import pynvml as n\nn.nvmlInit()\ncard = n.nvmlDeviceGetHandleByIndex(0)\n"
        "for _ in range(3):\n"
        "    try: n.nvmlDeviceGetFanSpeed(card)\n"
        "    except n.NVMLError_NotSupported: print('refused')\n"
    )
    result = h200.run(sys.executable, "-c", code)
    assert result.stdout.split() == ["refused"] * 3
    assert result.stderr == "simgpu: nvmlDeviceGetFanSpeed is not simulated\n"


def test_weirs_own_nvml_reads_the_machine(h200: Any) -> None:
    load = h200.start("--memory", "64MiB", "--hold", "60")
    load.until("allocated")
    code = f"""
import json
from pathlib import Path
from weir.nvml import DriverNvml
nvml = DriverNvml(Path({str(h200.library)!r}))
(gpu,) = nvml.gpus()
reading = nvml.reading(gpu.uuid)
print(json.dumps([nvml.driver_version, nvml.cuda_version, gpu.name, gpu.capacity, gpu.mig_mode,
    reading.memory_used, reading.utilization, [[p.pid, p.used] for p in nvml.processes(gpu.uuid)],
    nvml.utilization_by_process(gpu.uuid).get({load.pid}, 0.0)]))
"""
    result = h200.run(sys.executable, "-c", code, LD_LIBRARY_PATH="")
    assert result.returncode == 0, result.stderr
    used = CONTEXT + 64 * MIB
    assert json.loads(result.stdout) == [
        "580.159.04", "13.0", "NVIDIA H200", 143_155 * MIB, False, used, 0.0, [[load.pid, used]],
        0.0,
    ]  # fmt: skip
