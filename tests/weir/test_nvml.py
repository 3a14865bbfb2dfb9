"""NVML through nvidia-ml-py, on a simulated machine; each test asks in a process of its own."""

import json
import os
import subprocess
import sys

import pytest

from simgpu.machines import simulate

MIB = 1 << 20


@pytest.fixture
def ask(tmp_path):
    """Evaluates an expression of `nvml` in a new process."""

    def one(expression, machine="h200", before=""):
        code = (
            "import json\nfrom dataclasses import asdict\nfrom weir.simulation import open_nvml\n"
            f"{before}\nnvml = open_nvml({machine!r})\nprint(json.dumps({expression}))"
        )
        environment = {**os.environ, "SIMGPU_STATE": str(tmp_path / "machine")}
        shown = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        )
        return json.loads(shown.stdout)

    return one


def test_versions(ask):
    assert ask("[nvml.driver_version, nvml.cuda_version]") == ["580.159.04", "13.0"]


def test_every_card_with_its_usable_bytes(ask):
    found = ask("[asdict(gpu) for gpu in nvml.gpus()]", "h200:2")
    assert [gpu["index"] for gpu in found] == [0, 1]
    assert {gpu["capacity"] for gpu in found} == {143_155 * MIB}
    assert len({gpu["uuid"] for gpu in found}) == 2
    assert all(gpu["uuid"].startswith("GPU-") and gpu["name"] == "NVIDIA H200" for gpu in found)


def test_an_idle_card_has_no_process_and_nothing_used(ask):
    uuid = "nvml.gpus()[0].uuid"
    reading = ask(f"asdict(nvml.reading({uuid}))")
    assert (reading["memory_used"], reading["utilization"]) == (0, 0)
    assert ask(f"[len(nvml.processes({uuid})), nvml.utilization_by_process({uuid})]") == [0, {}]


MPS_LIST = """
import pynvml
from types import SimpleNamespace as Shown
pynvml.nvmlDeviceGetComputeRunningProcesses = lambda _: [Shown(pid=7, usedGpuMemory=30)]
pynvml.nvmlDeviceGetMPSComputeRunningProcesses = lambda _: [
    Shown(pid=8, usedGpuMemory=600), Shown(pid=9, usedGpuMemory=None), Shown(pid=7, usedGpuMemory=40)
]
"""


def test_clients_of_an_mps_server_are_on_the_card_once_each(ask):
    found = ask("[asdict(one) for one in nvml.processes(nvml.gpus()[0].uuid)]", before=MPS_LIST)
    assert {one["pid"]: one["used"] for one in found} == {7: 40, 8: 600, 9: 0}
    assert len(found) == 3


def test_a_program_is_seen_with_what_it_holds(ask, tmp_path):
    program = (
        "import ctypes, sys; cuda = ctypes.CDLL('libcuda.so.1'); made = ctypes.c_void_p(); cuda.cuInit(0); "
        "cuda.cuDevicePrimaryCtxRetain(ctypes.byref(made), 0); print(1, flush=True); sys.stdin.read()"
    )
    environment = {**os.environ, **simulate("h200").environment, "SIMGPU_STATE": str(tmp_path / "machine")}
    with subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as running:
        running.stdout.readline()
        seen = ask("[asdict(one) for one in nvml.processes(nvml.gpus()[0].uuid)]")
        running.stdin.close()
    assert seen == [{"pid": running.pid, "used": 518 * MIB}]
