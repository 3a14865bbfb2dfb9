"""What a slice gains whose program forges the counters that the agent reads: see docs/security.md."""

import pytest

from deviceplugin.auditor import MS

LIMITS = {"a": 3000, "b": 6000}
FALSE_LAUNCHES = 10**7  # a look: more than any card's


def beside_each_other(world):
    """Two slices that use half of what they were promised, and so are without slots."""
    for name, limit in LIMITS.items():
        world.slice(name, limit)
    world.fill, world.nvml.utilization = 0.5, 0.45
    world.run(10, *LIMITS)
    assert all(quota(world, name) == limit for name, limit in LIMITS.items())


def quota(world, name):
    """Basis points that the slice's limiter holds it to."""
    return world.device(name).core_limit_at(world.now)


def forge(world, seconds, launches=0, gpu_time=0.0):
    """The most that either slice's quota was of its limit, while `a` claims so much more at each look."""
    most = 0.0
    for _ in range(round(seconds * 10)):
        world.launches["a"] += launches
        world.gpu_time["a"] += int(gpu_time * 100 * MS)
        world.run(0.1, *LIMITS)
        if not world.device("a").slot_frame:
            most = max(most, *(quota(world, name) / limit for name, limit in LIMITS.items()))
    return most


@pytest.mark.parametrize(("launches", "beside"), [(0, False), (FALSE_LAUNCHES, True)])
def test_forged_launches_hide_what_nobody_was_charged_for_and_raise_no_quota(world, launches, beside):
    beside_each_other(world)
    world.nvml.utilization, world.each_launches = 0.9, 100  # 72 % with the turns between them
    assert forge(world, 20, launches) == 1
    assert (world.device("a").beside_deadline > world.now) is beside


@pytest.mark.parametrize(("gpu_time", "reached"), [(0.05, 2.0), (0.3, 1.75), (10.0, 1.75)])
@pytest.mark.parametrize("launches", [0, FALSE_LAUNCHES])
def test_forged_gpu_time_raises_quotas_to_twice_the_limit_and_no_further(world, gpu_time, reached, launches):
    beside_each_other(world)
    world.nvml.utilization = 0.05
    assert forge(world, 20, launches, gpu_time) == pytest.approx(reached, abs=0.01)


def test_and_none_once_a_neighbour_fills_what_he_was_promised(world):
    beside_each_other(world)
    world.nvml.utilization = 0.05
    assert forge(world, 20, gpu_time=0.05) > 1.9
    world.fill = 1.0
    world.run(5, *LIMITS)
    assert world.device("b").slot_frame
    assert all(quota(world, name) == limit for name, limit in LIMITS.items())
