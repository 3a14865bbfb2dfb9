"""Which cards and shares the options mean, and what is refused with which words."""

import re
from dataclasses import replace

import pytest

from deviceplugin.cards import Wanted, check_name, choose, default_name, shares
from tests.deviceplugin.fakes import GIB, UUIDS, gpu
from weir.errors import NoGpuError, UsageError

CARDS = [gpu(0), gpu(1), gpu(2)]


@pytest.mark.parametrize(
    ("text", "indexes"),
    [("0", [0]), ("2,0", [2, 0]), (" 1 , 2 ", [1, 2]), (UUIDS[1], [1]), (f"0,{UUIDS[2]}", [0, 2])],
)
def test_cards_by_index_or_uuid_in_the_order_asked(text, indexes):
    assert [card.index for card in choose(text, CARDS, {})] == indexes


@pytest.mark.parametrize(
    ("free", "index"), [({UUIDS[0]: 5, UUIDS[1]: 9}, 1), ({}, 0), ({UUIDS[1]: 9, UUIDS[2]: 9}, 1)]
)
def test_without_a_card_asked_the_one_with_most_room(free, index):
    assert choose(None, CARDS, free)[0].index == index


@pytest.mark.parametrize("text", ["3", "-1", "", "0,", "x", "GPU-1", "0,0", f"1,{UUIDS[1]}"])
def test_a_card_that_is_none_is_refused(text):
    with pytest.raises(UsageError, match=r"^--gpu: "):
        choose(text, CARDS, {})


def test_a_card_in_mig_mode_is_passed_over_and_refused_by_name():
    split = replace(gpu(0), mig_mode=True)
    assert choose(None, [split, gpu(1)], {split.uuid: 9 * GIB})[0].index == 1
    with pytest.raises(UsageError, match="MIG"):
        choose("0", [split, gpu(1)], {})
    with pytest.raises(NoGpuError, match="MIG"):
        choose(None, [split], {})


def test_no_card_at_all_names_the_way_out():
    with pytest.raises(NoGpuError, match="--simulate"):
        choose(None, [], {})


def test_a_percentage_is_of_each_card_and_cores_are_a_guarantee():
    mixed = [gpu(0, 100 * GIB), gpu(1, 40 * GIB)]
    small, large = shares(Wanted(memory="25%", cores="30"), mixed[::-1])
    assert (small.memory_bytes, large.memory_bytes) == (10 * GIB, 25 * GIB)
    assert (small.cores_bp, small.guarantee_bp) == (3000, 3000)


def test_nothing_asked_is_no_cap_and_no_guarantee():
    (share,) = shares(Wanted(), [gpu()])
    assert (share.memory_bytes, share.cores_bp, share.guarantee_bp) == (None, 10_000, 0)


@pytest.mark.parametrize(
    ("wanted", "field"),
    [(Wanted(memory=text), "--memory") for text in ["0", "-5", "4XB", "101GiB", "0%", "101%", "", "nan"]]
    + [(Wanted(cores=text), "--cores") for text in ["0", "101", "abc", "-1", "1.5", ""]],
)
def test_a_refusal_names_the_field_and_is_one_line(wanted, field):
    with pytest.raises(UsageError, match=rf"^{field}: ") as refused:
        shares(wanted, [gpu()])
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["", ".hidden", "-x", "a/b", "a b", "x" * 64, "a\n", "ü"])
def test_a_name_that_could_not_be_a_directory_is_refused(name):
    with pytest.raises(UsageError, match="--name"):
        check_name(name)


@pytest.mark.parametrize(
    "command", ["python", "/usr/bin/python3.11", "./a b;c", "///", "-", "日本", "x" * 99]
)
def test_a_default_name_is_always_allowed(command):
    name = check_name(default_name(command, 4321))
    assert re.search(r"-4321$", name)
