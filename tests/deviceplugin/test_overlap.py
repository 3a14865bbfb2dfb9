"""What was charged twice, from what was charged and what the card says, with time as an argument."""

import pytest

from deviceplugin.overlap import MOST, WINDOW, Overlap

START = 10**12


def after(seconds, charged, busy):
    """The factor after so long, looked at ten times a second; `charged` and `busy` are parts of the time."""
    overlap = Overlap()
    factor = 1.0
    for look in range(round(seconds * 10) + 1):
        factor = overlap.factor("card", int(look * 10**8 * charged), busy, START + look * 10**8)
    return factor


@pytest.mark.parametrize(
    ("charged", "busy", "factor"),
    [
        (0.7, 0.7, 1.0),
        (0.9, 0.6, 1.5),
        (1.9, 0.5, MOST),
        (0.5, 0.9, 1.0),
        (0.9, 0.0, 1.0),
        (0.9, None, 1.0),
    ],
)
def test_the_factor_is_what_was_charged_over_what_the_card_was_busy_within_bounds(charged, busy, factor):
    assert after(20, charged, busy) == pytest.approx(factor, abs=0.001)


def test_it_moves_half_the_way_in_each_window():
    assert after(0.9 * WINDOW / 1e9, 0.9, 0.6) == 1.0
    assert after(WINDOW / 1e9, 0.9, 0.6) == pytest.approx(1.25)
    assert after(2 * WINDOW / 1e9, 0.9, 0.6) == pytest.approx(1.375)


def test_it_starts_anew_after_its_end():
    overlap = Overlap()
    for look in range(30):
        overlap.factor("card", look * 10**8, 0.5, START + look * 10**8)
    overlap.end("card")
    assert overlap.factor("card", 0, 0.5, START + 10**11) == 1.0
