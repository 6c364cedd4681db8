"""What may happen to a set and to what decides about it, each time until it is healed.

A fault leaves every process running and every link healed; whether the set then gets well is the
business of whoever has it happen (`ha_check`). What it draws comes from the scene's generator.
"""

import base64
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from random import Random

from tests.interop import peers
from tests.interop.etcd_cluster import EtcdMember
from tests.interop.forwarder import Fate, Way
from tests.interop.ha_check import Broken, Check
from tests.interop.ha_load import Load
from tests.interop.ha_set import KEYS, NAME, HaSet, Links, Member
from tests.interop.peers import ROOT

TTL_SECONDS = 5.0
"""The default of `ha.ttl_seconds`."""
SILENCE_SECONDS = 5.0
"""`ha.silence_ms_max` here; its default is twice as long, and shows nothing else."""
QUORUM_SECONDS = 30.0
CUT_CALLS_MAX = 45
"""A cut and the opening after it change the disk about so many times."""
_GONE_SECONDS = TTL_SECONDS + 3.0
"""After so long without a leader every member in sync has taken over."""
_ANSWER_SECONDS = 2.0


class Scene:
    """Where faults happen.

    Args:
        ha: The set; settled.
        load: Sends.
        check: Checks.
        random: Draws.

    Attributes:
        at: When the fault began.
        note: What it has drawn, for people.
    """

    def __init__(self, ha: HaSet[Links], load: Load, check: Check, random: Random) -> None:
        self.ha = ha
        self.load = load
        self.check = check
        self.random = random
        self.at = 0.0
        self.note = ""

    def begin(self, note: str = "") -> None:
        """Note that the fault begins now."""
        self.at, self.note = time.monotonic(), note

    def pause(self, low: float, high: float) -> None:
        """Let some seconds pass, mostly one of both ends."""
        middle = self.random.uniform(low, high)
        peers.pause(self.random.choice((low, middle, high)))

    def pair(self) -> tuple[Member[Links], Member[Links]]:
        """Return the master and the slave of a settled set."""
        master = self.ha.wait_settled()
        return master, self.ha.other(master)

    def maybe(self) -> bool:
        """Draw one of two."""
        return self.random.random() < 0.5


Fault = Callable[[Scene], None]


# Brokers.


def hand_over(scene: Scene) -> None:
    """An operator has the slave take over."""
    epoch = scene.ha.epoch
    scene.begin()
    scene.ha.admin.failover.hand_over(NAME)
    scene.ha.wait_led_after(epoch)


def kill_master(scene: Scene) -> None:
    """The master is killed, and started again before or after another one leads."""
    master, _ = scene.pair()
    epoch, is_soon = scene.ha.epoch, scene.maybe()
    scene.begin("started at once" if is_soon else "started later")
    master.kill()
    if not is_soon:
        scene.ha.wait_led_after(epoch)
        scene.pause(0, 2)
    master.start()
    scene.ha.wait_led_after(epoch)


def kill_slave(scene: Scene) -> None:
    """The slave is killed, and started again before or after it is left behind."""
    _, slave = scene.pair()
    scene.begin()
    slave.kill()
    scene.pause(0, SILENCE_SECONDS + 3)
    slave.start()


def stop_master(scene: Scene) -> None:
    """The master stands still for two times its lease, with messages in its socket."""
    master, _ = scene.pair()
    scene.begin()
    master.freeze()
    bursts = [scene.load.burst(master.own_address, 50, size=scene.random.choice((0, 3000)))]
    peers.pause(2 * TTL_SECONDS)
    bursts.append(scene.load.burst(master.own_address, 50))
    master.thaw()
    scene.note = f"{sum(one.collect(_ANSWER_SECONDS) for one in bursts)} of 100 taken after all"


def kill_both(scene: Scene) -> None:
    """Both are killed, and started in either order, together or one long after the other."""
    first, second = scene.random.sample(scene.ha.members, 2)
    was_master = scene.ha.wait_settled()
    scene.begin("the master comes first" if first is was_master else "the slave comes first")
    for one in scene.random.sample(scene.ha.members, 2):
        one.kill()
    scene.pause(0, _GONE_SECONDS)
    first.start()
    scene.pause(0, _GONE_SECONDS)
    second.start()


def left_behind(scene: Scene) -> None:
    """A slave that was left behind is started while the master is gone: it may not lead."""
    master, slave = scene.pair()
    scene.begin()
    slave.kill()
    scene.ha.wait_alone(master)
    peers.pause(1)
    master.kill()
    _start_unfit(scene, slave)
    master.start()


def empty_slave(scene: Scene) -> None:
    """The slave loses its disk, and comes back under its number."""
    _, slave = scene.pair()
    scene.begin()
    slave.kill()
    slave.empty()
    slave.start()


def empty_master(scene: Scene) -> None:
    """The master loses its disk, and comes back under its number, perhaps before its lease ends."""
    master, _ = scene.pair()
    epoch, is_soon = scene.ha.epoch, scene.maybe()
    scene.begin("started at once" if is_soon else "started later")
    master.kill()
    master.empty()
    if not is_soon:
        scene.ha.wait_led_after(epoch)
    master.start()
    scene.ha.wait_led_after(epoch)


def _start_unfit(scene: Scene, member: Member[Links]) -> None:
    """Start a member that is not in sync, alone: nobody may lead. Raises Broken."""
    member.start()
    until = time.monotonic() + _GONE_SECONDS
    while time.monotonic() < until:
        leader = scene.ha.leader()
        if leader is not None and leader["member"] == member.name:
            # What it then serves shows whether anything is lost; go on.
            scene.note += "; ONE THAT IS NOT IN SYNC LEADS"
            peers.pause(1)
            return
        peers.pause(0.1)


# Links.


def cut_from_etcd(scene: Scene) -> None:
    """The master does not reach etcd, for less or more than its lease lives."""
    master, _ = scene.pair()
    seconds = scene.random.choice((1.0, TTL_SECONDS - 1, 2 * TTL_SECONDS))
    is_silent = scene.maybe()
    scene.begin(f"{seconds:g} s, {'silent' if is_silent else 'closed'}")
    _cut(master.to_etcd, is_silent)
    peers.pause(seconds)
    master.to_etcd.heal()


def cut_from_slave(scene: Scene) -> None:
    """Master and slave do not reach each other, for less or more than the slave is waited for."""
    seconds = scene.random.choice((1.0, SILENCE_SECONDS + 4))
    is_silent = scene.maybe()
    scene.begin(f"{seconds:g} s, {'silent' if is_silent else 'closed'}")
    for one in scene.ha.members:
        _cut(one.to_it, is_silent)
    peers.pause(seconds)
    for one in scene.ha.members:
        one.to_it.heal()


def cut_from_both(scene: Scene) -> None:
    """The master reaches neither etcd nor the slave."""
    master, _ = scene.pair()
    seconds = scene.random.choice((2.0, 2 * TTL_SECONDS))
    is_silent = scene.maybe()
    scene.begin(f"{seconds:g} s, {'silent' if is_silent else 'closed'}")
    links = [master.to_etcd, *(one.to_it for one in scene.ha.members)]
    for one in links:
        _cut(one, is_silent)
    peers.pause(seconds)
    for one in links:
        one.heal()


def cut_one_way(scene: Scene) -> None:
    """Between the master and etcd, or the slave, what is sent one way does not arrive."""
    master, _ = scene.pair()
    links, other = scene.random.choice([(master.to_etcd, "etcd"), (master.to_it, "the slave")])
    way = scene.random.choice(list(Way))
    is_from = (way is Way.THERE) == (other == "etcd")
    scene.begin(f"{'to' if is_from else 'from'} {other}")
    links.silence(way)
    peers.pause(2 * TTL_SECONDS)
    links.heal()


def _cut(links: Links, is_silent: bool) -> None:
    if is_silent:
        links.silence(*Way)
    else:
        links.cut()


# Etcd.


def kill_etcd_leader(scene: Scene) -> None:
    """The member of etcd that leads is killed, and started again."""
    leader = scene.ha.etcd.leader()
    scene.begin()
    leader.kill()
    scene.pause(2, 8)
    scene.ha.etcd.begin(leader)
    scene.ha.etcd.wait(leader)


def stop_etcd_leader(scene: Scene) -> None:
    """The member of etcd that leads stands still for some time."""
    leader = scene.ha.etcd.leader()
    scene.begin()
    leader.signal(signal.SIGSTOP)
    scene.pause(2, 8)
    leader.signal(signal.SIGCONT)


def lose_quorum(scene: Scene) -> None:
    """Two members of etcd are killed, or stand still, for half a minute."""
    etcd, is_killed = scene.ha.etcd, scene.maybe()
    two = scene.random.sample(etcd.members, 2)
    scene.begin("killed" if is_killed else "stopped")
    for one in two:
        if is_killed:
            one.kill()
        else:
            one.signal(signal.SIGSTOP)
    peers.pause(QUORUM_SECONDS)
    for one in two:
        _bring_back(scene, one, is_killed)


def _bring_back(scene: Scene, one: EtcdMember, is_killed: bool) -> None:
    if is_killed:
        scene.ha.etcd.begin(one)
        scene.ha.etcd.wait(one)
    else:
        one.signal(signal.SIGCONT)


def wipe_etcd(scene: Scene) -> None:
    """Etcd forgets everything: nobody leads until an operator says who has the messages."""
    member = scene.random.choice(scene.pair())
    scene.check.epochs_have_one_master()
    scene.begin(f"member {member.number} is to go on")
    scene.ha.etcd.empty()
    until = time.monotonic() + TTL_SECONDS
    while time.monotonic() < until:
        if scene.ha.state() is not None or scene.ha.leader() is not None:
            raise Broken("a set goes on by itself with an etcd that has forgotten it")
        peers.pause(0.2)
    begin = [*(sys.executable, "-m", "sprocket.cli.main"), "ha", "init", NAME, str(member.number)]
    begin += ["-n", scene.ha.nameserver]
    peers.wait_until(partial(_is_done, begin), "`sprocket ha init`", seconds=60, every=1)


def _is_done(command: list[str]) -> bool:
    return not subprocess.run(command, cwd=ROOT, check=False, capture_output=True).returncode


# In the middle of something.


class GrowTrap:
    """Waits for the request in which a master adds its slave, and decides what becomes of it.

    From then on the master hears nothing of etcd on any connection: what it watches would tell it.

    Args:
        fate: That.
        silence: Has nothing come back to the master.

    Attributes:
        is_sprung: Set once it was seen.
    """

    def __init__(self, fate: Fate, silence: Callable[[], None]) -> None:
        self.is_sprung = threading.Event()
        self._fate = fate
        self._silence = silence
        self._state = base64.b64encode(f"{KEYS}state".encode()).decode()

    def look(self, data: bytes) -> Fate:
        """See `forwarder.Look`."""
        if self.is_sprung.is_set() or not self._is_growth(data):
            return Fate.CARRIED
        self._silence()
        self.is_sprung.set()
        return self._fate

    def _is_growth(self, data: bytes) -> bool:
        head, _, body = data.rpartition(b"\r\n\r\n")
        if b"/v3/kv/txn" not in head.rpartition(b"POST ")[2]:
            return False
        try:
            writes = json.loads(body)["success"]
        except ValueError:  # the rest of it comes later
            return False
        puts = [one["request_put"] for one in writes if "request_put" in one]
        if len(puts) != 1 or puts[0]["key"] != self._state:
            return False
        return len(json.loads(base64.b64decode(puts[0]["value"]))["isr"]) > 1


def kill_while_growing(scene: Scene) -> None:
    """Master or slave is killed after the master has asked to add the slave, before the answer."""
    master, slave = scene.pair()
    fate = scene.random.choice((Fate.UNANSWERED, Fate.UNANSWERED, Fate.LOST))
    victim = scene.random.choice((master, master, slave))
    slave.kill()
    scene.ha.wait_alone(master)
    trap = GrowTrap(fate, lambda: master.to_etcd.silence(Way.BACK))
    master.to_etcd.look(trap.look)
    slave.start()
    assert trap.is_sprung.wait(60), "a slave that has all is added"
    name = "the master" if victim is master else "the slave"
    is_written = fate is Fate.UNANSWERED
    scene.begin(f"{name} is killed, the change is {'written' if is_written else 'lost'}")
    master.to_etcd.cut()
    for one in scene.ha.members:
        one.to_it.cut()
    scene.pause(0.3, 2)
    victim.kill()
    for links in (master.to_etcd, *(one.to_it for one in scene.ha.members)):
        links.heal()
    peers.pause(_GONE_SECONDS)
    victim.start()


def kill_in_truncation(scene: Scene) -> None:
    """A master that wrote what nobody has comes back, and is killed while it cuts its log."""
    master, slave = scene.pair()
    epoch = scene.ha.epoch
    calls = scene.random.choice((0, 1, 2, scene.random.randrange(CUT_CALLS_MAX)))
    does_slave_die = scene.maybe()
    for one in scene.ha.members:
        one.to_it.cut()
    # Longer than what the next master stores until this one comes back, so that it seems to have
    # more.
    bursts = [scene.load.burst(master.own_address, 30, size=32_000) for _ in range(4)]
    peers.pause(0.5)
    scene.begin(f"before call {calls}")
    master.kill()
    for burst in bursts:
        burst.collect(0.2)
    for one in scene.ha.members:
        one.to_it.heal()
    scene.ha.wait_led_after(epoch)
    peers.pause(0.5)
    master.start(("-m", "tests.interop.dying_broker", str(calls)))
    is_reached = _ends(master, 20)
    scene.note += "" if is_reached else ", which did not come"
    master.kill()
    if does_slave_die:
        scene.note += "; the new master is killed, too"
        slave.kill()
        _start_unfit(scene, master)
        slave.start()
    else:
        master.start()


def _ends(member: Member[Links], seconds: float) -> bool:
    """Wait until a process ends by itself; return whether it did."""
    until = time.monotonic() + seconds
    while not member.is_over:
        if time.monotonic() > until:
            return False
        peers.pause(0.05)
    return True


FAULTS: Mapping[str, Fault] = {
    "hand-over": hand_over,
    "master killed (-9)": kill_master,
    "slave killed (-9)": kill_slave,
    "master stopped (SIGSTOP)": stop_master,
    "both killed": kill_both,
    "slave left behind, master killed": left_behind,
    "slave's disk emptied": empty_slave,
    "master's disk emptied": empty_master,
    "master cut off from etcd": cut_from_etcd,
    "master cut off from slave": cut_from_slave,
    "master cut off from both": cut_from_both,
    "cut one way": cut_one_way,
    "etcd's leader killed": kill_etcd_leader,
    "etcd's leader stopped": stop_etcd_leader,
    "etcd without a quorum, 30 s": lose_quorum,
    "etcd emptied": wipe_etcd,
    "killed between grow and answer": kill_while_growing,
    "killed while it cuts its log": kill_in_truncation,
}
