"""How punctual messages are that come at a time: Sprocket and the real RocketMQ 5.3.3.

`python -m bench.timed`, 6 minutes. 100,000 messages of 100 bytes are sent at once, in no order, and
are due evenly over 120 s of real time. In the middle the broker is killed and started again. How
late each was is said by its due time and the time at which the broker stored it where consumers
find it. Messages that were due while the broker was down, or within 5 s after, are late for that
reason; they are counted apart. The brokers take turns.

Exit code 0 if every goal is met, 1 if one is missed, 2 if the bench could not run.
"""

import argparse
import random
import shutil
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.goals import OURS, THEIRS, Goal, at_most
from tests.interop import link, peers

from bench import processes
from sprocket.rocketmq.codec.record import record

TOPIC, QUEUES = "Timed", 4
BODY_BYTES = 100
WINDOW = 256
"""So many sends are outstanding."""
SENT_A_SECOND = 2_500
"""At least, so that all are sent before the first is due."""
REST_SECONDS = 8.0
"""After the last was due; RocketMQ's come up to 4 s late."""
CAUGHT_UP_SECONDS = 5.0
"""After it is ready again a broker may still be busy with what was due meanwhile."""
P99_MS_MAX = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """When a broker was down: wall time in milliseconds, to when it had caught up."""

    begin_ms: int
    ready_ms: int

    def holds(self, due_ms: int) -> bool:
        """Whether a message may be late for that reason."""
        before_ms, after_ms = 1000, int(CAUGHT_UP_SECONDS * 1000)
        return self.begin_ms - before_ms <= due_ms < self.ready_ms + after_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Came:
    """What came of the messages of one broker: numbers of messages, milliseconds."""

    lost: int
    doubles: int
    down_seconds: float
    early: int
    least_ms: int
    p50_ms: int
    p99_ms: int
    most_ms: int
    anonymous_mib: float

    def __str__(self) -> str:
        """Say it in a line."""
        return (
            f"lost {self.lost}, twice {self.doubles}, early {self.early};"
            f" late by {self.least_ms} to {self.most_ms} ms, p50 {self.p50_ms}, p99 {self.p99_ms};"
            f" down for {self.down_seconds:.1f} s; anonymous memory {self.anonymous_mib:.0f} MiB"
        )


def main() -> int:
    """Run the bench and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.timed", description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--seconds", type=int, default=120, help="over which they are due")
    parser.add_argument("--only", choices=[OURS, THEIRS], help="no comparison")
    options = parser.parse_args()
    build = peers.ROOT / "build"
    build.mkdir(exist_ok=True)
    goals: list[Goal] = []
    for name in [options.only] if options.only else [OURS, THEIRS]:
        folder = Path(tempfile.mkdtemp(prefix="bench-timed-", dir=build))
        try:
            came = _measure(_broker(name, folder), options.messages, options.seconds)
        except (peers.PeerMissing, RuntimeError, TimeoutError) as error:
            print(f"bench.timed could not run with {name}: {error}", file=sys.stderr)
            return 2
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        print(f"{name}: {came}", flush=True)
        if name == OURS:
            goals += [
                at_most("messages lost", came.lost, 0),
                at_most("messages twice", came.doubles, 0),
                at_most("messages early", came.early, 0),
                at_most("late: p99, ms", came.p99_ms, P99_MS_MAX),
            ]
    for goal in goals:
        print(goal)
    return 0 if all(goal.is_met for goal in goals) else 1


def _broker(name: str, folder: Path) -> peers.Sprocket | peers.RocketMQ:
    if name == OURS:
        return peers.Sprocket(folder, folder / "store")
    return peers.RocketMQ(jars=peers.library(), folder=folder, store=folder / "store", heap="2g")


def _measure(broker: peers.Sprocket | peers.RocketMQ, count: int, seconds: int) -> Came:
    with broker:
        with link.Link(broker.address) as connection:
            link.create_topic(connection, TOPIC, QUEUES)
        first_ms = _now_ms() + 1000 * (5 + count // SENT_A_SECOND)
        due = [first_ms + number * seconds * 1000 // count for number in range(count)]
        _send(broker.address, due)
        if _now_ms() >= first_ms:
            raise RuntimeError("sending took so long that messages were due")
        _sleep_until(first_ms + seconds * 500)
        anonymous_mib = processes.memory(broker.pid)["anonymous_mib"]
        begin_ms = _now_ms()
        broker.kill()
        broker.start()
        outage = Outage(begin_ms=begin_ms, ready_ms=_now_ms())
        _sleep_until(first_ms + seconds * 1000 + int(REST_SECONDS * 1000))
        stored = list(_stored(broker.address))
    times = Counter(number for number, _ in stored)
    late = sorted(at_ms - due[number] for number, at_ms in stored if not outage.holds(due[number]))
    return Came(
        lost=count - len(times),
        doubles=sum(1 for seen in times.values() if seen > 1),
        down_seconds=(outage.ready_ms - outage.begin_ms) / 1000,
        early=sum(1 for number, at_ms in stored if at_ms < due[number]),
        least_ms=late[0],
        p50_ms=late[len(late) // 2],
        p99_ms=late[len(late) * 99 // 100],
        most_ms=late[-1],
        anonymous_mib=anonymous_mib,
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _sleep_until(at_ms: int) -> None:
    time.sleep(max(0, at_ms - _now_ms()) / 1000)


def _send(address: str, due: Sequence[int]) -> None:
    """Send a message for each due time, its number in its body, and await all answers."""
    order = list(range(len(due)))
    random.Random(1).shuffle(order)
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), 30.0) as connection:
        for start in range(0, len(order), WINDOW):
            frames = []
            for number in order[start : start + WINDOW]:
                text = f"UNIQ_KEY\x01{number:032X}\x02TIMER_DELIVER_MS\x01{due[number]}\x02"
                ext = link.send_ext(TOPIC, number % QUEUES, text, n="broker-a")
                body = b"%0*d" % (BODY_BYTES, number)
                frames.append(link.encode(link.SEND_MESSAGE_V2, number + 1, ext, body))
            connection.sendall(b"".join(frames))
            for _ in frames:
                _check(connection)


def _check(connection: socket.socket) -> None:
    """Read one answer; raise RuntimeError if it is not a success."""
    size = int.from_bytes(_read(connection, 4), "big")
    answer = link.decode(_read(connection, size))
    if answer.code != link.SUCCESS:
        raise RuntimeError(f"a message is refused with code {answer.code}: {answer.remark}")


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise RuntimeError("the broker closed the connection")
        data += more
    return data


def _stored(address: str) -> Iterator[tuple[int, int]]:
    """Give number and store time of each message that came."""
    with link.Link(address) as connection:
        for queue_id in range(QUEUES):
            offset, end = 0, link.queue_end(connection, TOPIC, queue_id)
            while offset < end:
                found = record.decode_all(link.pull(connection, TOPIC, queue_id, offset).body)
                if not found:
                    raise RuntimeError(f"nothing is found at {offset} of queue {queue_id}")
                for message in found:
                    yield int(message.body), message.stored_at_ms
                offset += len(found)


if __name__ == "__main__":
    sys.exit(main())
