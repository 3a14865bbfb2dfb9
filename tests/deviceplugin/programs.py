"""Small CUDA programs in Python, for tests that run them in slices."""

import sys

PYTHON = sys.executable
MIB = 1 << 20

# A context, as every CUDA program begins; `check` ends the program where the driver refuses.
CUDA = """
import ctypes, os, sys, signal, json
cuda = ctypes.CDLL("libcuda.so.1")
def check(result):
    if result: sys.exit(f"CUDA error {result}")
def context():
    check(cuda.cuInit(0))
    made = ctypes.c_void_p()
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(made), 0))
    check(cuda.cuCtxSetCurrent(made))
def memory():
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    check(cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
    return free.value, total.value
def allocate(size):
    return cuda.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(size))
def say(text):
    os.write(1, f"{text}\\n".encode())  # one write, so that processes do not mix
"""


def program(code):
    return ["--", PYTHON, "-c", CUDA + code]


# Says that it is there, and ends when its input does.
WAIT = "say('ready'); sys.stdin.read()"
