"""Bytes and shares as people write them, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.errors import UsageError
from weir.units import GIB, KIB, MIB, TIB, format_bytes, parse_cores, parse_memory

CARD = 2 * TIB


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("512B", 512),
        ("4GiB", 4 * GIB),
        ("4Gi", 4 * GIB),
        ("4 GiB", 4 * GIB),
        ("1.5MiB", 3 * MIB // 2),
        ("2KiB", 2 * KIB),
        ("1TiB", TIB),
        ("4GB", 4 * 10**9),
        ("4G", 4 * 10**9),
        ("500M", 500 * 10**6),
        ("100%", CARD),
        ("12.5%", CARD // 8),
        (" 25% ", CARD // 4),
    ],
)
def test_memory(text, size):
    assert parse_memory("--memory", text, CARD) == size


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "-5",
        "4XB",
        "GiB",
        "4 4",
        "1e9",
        "nan",
        "inf",
        "0%",
        "100.1%",
        "3TiB",
        "0.1B",
        "٤GiB",
        "4gib",
        "0x10",
    ],
)
def test_memory_that_is_none_or_too_much_is_refused_by_name(text):
    with pytest.raises(UsageError, match=r"^--memory: ") as refused:
        parse_memory("--memory", text, CARD)
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(("text", "share"), [("1", 100), ("30", 3000), ("30%", 3000), ("100", 10_000)])
def test_cores(text, share):
    assert parse_cores("--cores", text) == share


@pytest.mark.parametrize("text", ["", "0", "101", "abc", "-1", "1.5", "٣٠", " 30", "30 %", "000000030"])
def test_cores_that_are_none_are_refused_by_name(text):
    with pytest.raises(UsageError, match=r"^--cores: "):
        parse_cores("--cores", text)


def test_a_value_of_any_length_is_refused_in_a_short_line():
    with pytest.raises(UsageError) as refused:
        parse_memory("--memory", "9" * 100_000, CARD)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (3000 * MIB, "2.9 GiB"),
        (4 * GIB, "4 GiB"),
        (3 * TIB, "3 TiB"),
        (-MIB, "-1 MiB"),
    ],
)
def test_bytes_for_people(size, text):
    assert format_bytes(size) == text


@given(st.integers(1, TIB))
def test_what_is_shown_can_be_typed(size):
    assert parse_memory("x", format_bytes(size), CARD) == pytest.approx(size, rel=0.05)
