"""Whose a process without a slot is: by ancestry, by environment, and by what was seen of it before."""

import os
import subprocess
import sys

import pytest

from limiter.belonging import Belongs, Household, Origin, Origins, read_origin, tell

ALICE = Household("/slices/alice", 100, frozenset({110}))
BOB = Household("/slices/bob", 200, frozenset({210}))
ORPHAN = Household("/slices/orphan", 0, frozenset({310}))

TOLD = {
    "one with a slot": (Origin(110, ancestors=frozenset({100})), ALICE, 110),
    "one that supervision shows": (Origin(111, inner=111, ancestors=frozenset({50, 100})), ALICE, 0),
    "one that hides its environment": (Origin(111, ancestors=frozenset({200})), BOB, 0),
    "one that claims another slice": (
        Origin(111, ancestors=frozenset({200}), slice_directory="/slices/alice"),
        BOB,
        0,
    ),
    "one whose supervisor is gone": (Origin(311, slice_directory="/slices/orphan"), ORPHAN, 0),
    "one in a PID namespace of its own, with a slot": (
        Origin(900, inner=110, ancestors=frozenset({100})),
        ALICE,
        110,
    ),
    "one in such a namespace whose ID there is a neighbour's": (
        Origin(901, inner=210, ancestors=frozenset({100})),
        ALICE,
        0,
    ),
    "one of nobody": (Origin(5, ancestors=frozenset({4, 3})), None, 0),
    "one that names what is no slice": (Origin(5, slice_directory="/slices/carol"), None, 0),
    "one of which nothing is known": (Origin(5), None, 0),
}


@pytest.mark.parametrize("case", TOLD)
def test_a_process_is_told(case):
    origin, household, slot = TOLD[case]
    assert tell({origin.pid: origin}, [ALICE, BOB, ORPHAN]) == {origin.pid: Belongs(household, slot)}


class Proc:
    """A /proc made by hand."""

    def __init__(self, root):
        self.root = root

    def put(self, pid, parent, started=1, environment=b"", inner=None, name="x"):
        here = self.root / str(pid)
        here.mkdir(exist_ok=True)
        rest = " ".join(["S", str(parent), *["0"] * 17, str(started), "0"])
        (here / "stat").write_text(f"{pid} ({name}) {rest}")
        (here / "status").write_text(f"Name:\tx\nNSpid:\t{pid}\t{inner or pid}\n")
        (here / "environ").write_bytes(environment)


def test_origins_are_read_from_proc(tmp_path):
    proc = Proc(tmp_path)
    proc.put(100, 1)
    proc.put(105, 100, name="a ) 7 (b")
    proc.put(110, 105, 77, b"A=1\0WEIR_SLICE_DIR=/slices/alice\0B=2", inner=2)
    assert read_origin(110, tmp_path) == Origin(110, 77, 2, frozenset({105, 100}), "/slices/alice")


def test_what_cannot_be_read_says_nothing(tmp_path):
    assert read_origin(110, tmp_path) == Origin(110, inner=110)


def test_parents_in_a_circle_end(tmp_path):
    proc = Proc(tmp_path)
    proc.put(110, 111)
    proc.put(111, 110)
    assert read_origin(110, tmp_path).ancestors == {110, 111}


def test_what_was_seen_of_a_process_is_kept_while_it_lives_and_no_longer(tmp_path):
    proc, origins = Proc(tmp_path), Origins(tmp_path)
    proc.put(110, 100, 77, b"WEIR_SLICE_DIR=/slices/alice")
    origins.look([110])
    proc.put(110, 1, 77)
    kept = origins.look([110])[110]
    assert (kept.ancestors, kept.slice_directory) == ({100}, "/slices/alice")
    proc.put(110, 1, 78)
    assert origins.look([110])[110] == Origin(110, 78, 110)


def test_a_living_process_is_read_as_it_is():
    environment = {**os.environ, "WEIR_SLICE_DIR": "/slices/alice"}
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=environment) as child:
        found = read_origin(child.pid)
        child.communicate(b"\n")
    assert os.getpid() in found.ancestors
    assert (found.inner, found.started > 0) == (child.pid, True)
