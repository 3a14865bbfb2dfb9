"""Whose turn it is among the processes of a slice: queue.c by itself, its clock an argument.

A process is a place; it asks with what its launch would do. Nothing here sleeps.
"""

from __future__ import annotations

import ctypes
import random
import subprocess
from collections.abc import Callable

import pytest

import hatch_build

from .pacer import MS, NOW, SOURCES

TURN, PATIENCE, GRACE = 4 * MS, 100 * MS, 2 * MS


class Place(ctypes.Structure):
    _fields_ = (
        ("number", ctypes.c_uint),
        ("used", ctypes.c_bool),
        ("began", ctypes.c_uint64),
        ("leaves", ctypes.c_uint64),
    )


class Wish(ctypes.Structure):
    _fields_ = (("passes", ctypes.c_bool), ("drain", ctypes.c_uint64), ("until", ctypes.c_uint64))


Asks = Callable[..., bool]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    path = tmp_path_factory.mktemp("queue") / "queue.so"
    command = [*hatch_build.compiler(), *hatch_build.COMMON, "-Werror", "-shared", "-fPIC", f"-I{SOURCES}"]
    subprocess.run([*command, "-o", str(path), str(SOURCES / "queue.c")], check=True)
    loaded = ctypes.CDLL(str(path))
    loaded.queue_serves.restype = ctypes.c_bool
    loaded.queue_serves.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64]
    return loaded


@pytest.fixture
def word() -> ctypes.c_uint64:
    return ctypes.c_uint64(0)


@pytest.fixture
def asks(library: ctypes.CDLL, word: ctypes.c_uint64) -> Asks:
    """One process asks; if it is served and would pass, it launches `work` from then on."""

    def ask(place: Place, at: int, *, passes: bool = True, drain: int = 0, work: int = MS) -> bool:
        until = at + work if passes else at + PATIENCE
        wish = Wish(passes, drain or at, until)
        arguments = (ctypes.byref(word), ctypes.byref(place), ctypes.byref(wish))
        served = bool(library.queue_serves(*arguments, at))
        if served and passes and not place.used:
            place.used, place.began = True, at
        return served

    return ask


def test_who_is_alone_is_always_served(asks: Asks) -> None:
    place = Place()
    assert all(asks(place, NOW + i * MS, passes=i % 3 > 0) for i in range(1000))


def test_who_comes_second_is_served_when_the_first_has_rested_and_his_work_is_complete(asks: Asks) -> None:
    first, second = Place(), Place()
    assert asks(first, NOW)
    assert not asks(second, NOW)
    assert not asks(first, NOW + MS, passes=False, drain=NOW + 2 * MS)
    assert not asks(second, NOW + MS)
    assert not asks(first, NOW + 2 * MS, passes=False, drain=NOW + 2 * MS)
    assert asks(second, NOW + 2 * MS)


def test_a_turn_is_over_after_some_work_if_anybody_waits(asks: Asks) -> None:
    first, second = Place(), Place()
    assert asks(first, NOW)
    assert asks(first, NOW + TURN, drain=NOW + 2 * TURN)  # nobody does
    assert not asks(second, NOW + TURN)
    assert not asks(first, NOW + TURN, drain=NOW + 2 * TURN)
    assert not asks(first, NOW + 2 * TURN, drain=NOW + 2 * TURN)
    assert asks(second, NOW + 2 * TURN)


def test_a_rest_before_the_first_launch_costs_nobody_his_turn(asks: Asks) -> None:
    first, second = Place(), Place()
    assert asks(first, NOW, passes=False)
    assert not asks(second, NOW + MS)
    assert asks(first, NOW + 90 * MS)


def test_they_are_served_in_order_and_as_often(asks: Asks) -> None:
    places = [Place() for _ in range(5)]
    turns = []
    for i in range(1000):
        for number, place in enumerate(places):
            if asks(place, NOW + i * MS, passes=not place.used):
                turns.append(number)
    rounds = [turns[i : i + 5] for i in range(0, len(turns) - 5, 5)]
    assert len(rounds) > 20
    assert all(sorted(one) == [0, 1, 2, 3, 4] for one in rounds)


@pytest.mark.parametrize("launched", [False, True])
def test_who_is_served_and_dies_is_waited_for_once(asks: Asks, launched: bool) -> None:
    dead, alive, third = Place(), Place(), Place()
    assert asks(dead, NOW, passes=launched)
    assert not asks(alive, NOW)
    assert not asks(third, NOW)
    assert asks(alive, NOW + (2 * MS if launched else PATIENCE + MS))
    assert not asks(alive, NOW + 2 * PATIENCE, passes=False, drain=NOW)
    assert asks(third, NOW + 2 * PATIENCE)
    assert not asks(dead, NOW + 2 * PATIENCE), "who was stopped and goes on queues up again"


def test_who_dies_while_he_leaves_is_waited_for_until_his_work_should_be_complete(asks: Asks) -> None:
    dead, alive = Place(), Place()
    assert asks(dead, NOW)
    assert not asks(alive, NOW)
    assert not asks(dead, NOW, passes=False, drain=NOW + 50 * MS)
    assert not asks(alive, NOW + 49 * MS)
    assert asks(alive, NOW + 50 * MS + GRACE + MS)


def test_work_that_never_ends_is_waited_for_no_longer_than_said(asks: Asks) -> None:
    first, second = Place(), Place()
    assert asks(first, NOW)
    assert not asks(second, NOW)
    for at in range(NOW + MS, NOW + 2 * PATIENCE, MS):
        asks(first, at, passes=False, drain=at + MS)
        if asks(second, at):
            return
    pytest.fail("the second was never served")


def test_no_word_keeps_anybody_waiting_for_ever(asks: Asks, word: ctypes.c_uint64) -> None:
    chance = random.Random(1)
    for noise in [2**64 - 1, 2**63, 0xFFF, 0xFFF000, *(chance.getrandbits(64) for _ in range(50))]:
        word.value, place, at = noise, Place(), NOW
        while not asks(place, at):
            at += PATIENCE
            assert at < NOW + 1100 * PATIENCE
