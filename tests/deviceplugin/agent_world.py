"""A box with slices whose programs launch when the test says so, an agent, and a clock that the test moves.

The slice directories are real, the card and its clock are not. Nothing here waits.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack

from deviceplugin.agent import Agent
from deviceplugin.auditor import MS
from limiter import layout, slices
from limiter.identity import Identity, Share
from limiter.pages import read_control
from tests.deviceplugin.fakes import GIB, UUIDS, FakeNvml
from tests.limiter.tenant import Tenant

MIB = 1 << 20
SECOND = 1_000 * MS
START = 1_000 * SECOND


class AgentWorld:
    """A box with slices whose programs launch when the test says so, a clock and an agent."""

    def __init__(self, root):
        self.root = root
        self.nvml = FakeNvml()
        self.now = START
        self.launches = {}
        self.gpu_time = defaultdict(int)
        self.fill = 1.0  # how much of what they are given programs use
        self.each_launches = 1  # … in a tick
        self.locks = {}
        self.said = []
        self.open = ExitStack()
        self.agent = self.new_agent()

    def new_agent(self):
        return Agent(self.root, self.nvml, lambda: self.now, self.say)

    def say(self, line):
        self.said.append(line)
        return True

    def slice(self, name, cores=10_000, policy="fixed", backend="weir"):
        share = Share(UUIDS[0], 0, GIB, cores, cores % 10_000)
        identity = Identity(name, 7, 0.0, (share,), policy=policy, backend=backend)
        control = slices.first_control(identity, [100 * GIB], [512 * MIB])
        _, self.locks[name] = slices.create(self.root, identity, control)
        self.launches[name] = 0
        return self.tenant(name)

    def tenant(self, name):
        return Tenant(self.root / "slices" / name / "rw/stats")

    def control(self, name):
        return read_control(self.root / "slices" / name / "control")

    def device(self, name):
        return self.control(name).devices[0]

    def launch(self, *names):
        """A tick's worth of launches, which fill what the slice was given."""
        for name in names:
            self.launches[name] += self.each_launches
            share = self.device(name).core_limit_at(self.now) / layout.FULL_CORES
            self.gpu_time[name] += int(self.fill * 100 * MS * share)
            self.tenant(name).set(launches=self.launches[name], gpu_time=self.gpu_time[name])

    def run(self, seconds, *busy):
        """Tick ten times a second while some slices launch all the time."""
        for _ in range(round(seconds * 10)):
            self.launch(*busy)
            self.now += 100 * MS
            self.agent.tick()
