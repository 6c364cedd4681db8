"""A wrong bit in any file of the timers: no message is lost, early or double."""

import pytest
from tests.timed import Timing

from sprocket.rocketmq.codec.record import properties
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

PATHS = ("/s/timerwheel", "/s/timerlog/", "/s/config/timercheck", "/s/config/timermetrics")
ROLL_MS = 6000
SLOTS = 64


def left(*, is_killed: bool) -> tuple[Timing, SimulatedDisk]:
    """Return what has worked for a while, and its disk: some delivered, taken back, rolled."""
    timing = Timing(roll_ms=ROLL_MS, slots=SLOTS).start()
    for number, delay in enumerate((1000, 1000, 3000, 3000, 7500, 8000, 12_000)):
        timing.send(b"%d" % number, delay_ms=delay)
    timing.take_back(b"1", timing.acked[b"1"])
    timing.take_back(b"3", timing.acked[b"3"])
    timing.advance(2000, 100)
    timing.send(b"late", delay_ms=2000)
    timing.advance(1100, 100)
    assert timing.bodies() == [b"0", b"2"]
    return timing, timing.disk.kill() if is_killed else timing.stop()


def delivered(disk: SimulatedDisk, now_ms: int, due: dict[bytes, int]) -> list[bytes]:
    """Return what consumers see in the end; nothing of it came before its time."""
    timing = Timing(disk, clock=FakeClock(now_ms), roll_ms=ROLL_MS, slots=SLOTS).start()
    timing.advance(11_000, 250)
    for message in timing.messages():
        at_ms = int(message.properties[properties.TIMER_DEQUEUE_MS])
        assert at_ms >= due[message.stored_body]
    return sorted(timing.bodies())


def flipped_everywhere(step: int, *, is_killed: bool) -> int:
    """Flip a bit of every so manieth byte of every file; return how many there were."""
    timing, disk = left(is_killed=is_killed)
    due, now_ms = timing.acked, timing.clock.now_ms()
    expected = sorted([b"0", b"2", b"4", b"5", b"6", b"late"])
    assert delivered(disk.kill(), now_ms, due) == expected
    tried = 0
    faults = []
    for path, data in disk.contents().items():
        if not path.startswith(PATHS):
            continue
        for at in range(tried % step, len(data.rstrip(b"\0")), step):
            found = disk.kill()
            file = found.open(path, write=True)
            file.write([bytes((data[at] ^ 1 << at % 8,))], at)
            file.close()
            tried += 1
            try:
                seen = delivered(found, now_ms, due)
            except Exception as error:
                seen = [repr(error).encode()]
            if seen != expected:
                faults.append((path, at, seen))
    assert not faults
    return tried


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_wrong_bit_here_and_there(is_killed: bool) -> None:
    """Of each file."""
    assert flipped_everywhere(37, is_killed=is_killed) > 20


@pytest.mark.nightly
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_wrong_bit_in_every_byte(is_killed: bool) -> None:
    """Of each file."""
    assert flipped_everywhere(1, is_killed=is_killed) > 800
