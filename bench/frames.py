"""What a 1 KiB send costs between bytes and handler: `python bench/frames.py`.

Prints microseconds of this process for each step, the best of several rounds. Budget: a
frame to its typed header in 3 µs, its answer in 2 µs.
"""

import timeit
from collections.abc import Callable

from sprocket.rocketmq.codec import command
from sprocket.rocketmq.codec.headers import SendMessageAnswer, SendMessageV2
from sprocket.rocketmq.remoting import Connection

MESSAGE_ID = "7F00000100002A9F0000000000000400"
HEADER = SendMessageV2(
    producer_group="bench_producer_group",
    topic="BenchmarkTopic",
    default_topic="TBW102",
    queue_id=3,
    sys_flag=0,
    born_timestamp=1_700_000_000_000,
    flag=0,
    properties=f"UNIQ_KEY\x01{MESSAGE_ID}\x02WAIT\x01true\x02TAGS\x01tagA\x02KEYS\x01key-12345\x02",
    bname="broker-a",
)
ANSWER = SendMessageAnswer(
    msg_id=MESSAGE_ID, queue_id=3, queue_offset=1_234_567, transaction_id=MESSAGE_ID
)
TOGETHER = 32
LARGE_BYTES, PIECE_BYTES = 2 << 20, 256 << 10
"""Of an answer to a pull, and of what is read from a socket at once."""


def microseconds(step: Callable[[], object], per_call: int = 1) -> float:
    """Return the time of one message, of the best of 15 rounds."""
    calls = 20_000 // per_call
    return min(timeit.repeat(step, number=calls, repeat=15)) / calls / per_call * 1e6


def steps(serialize: int) -> dict[str, float]:
    """Measure each step with headers of one form."""
    frame = b"".join(command.request(310, 12345, HEADER, bytes(1024), serialize=serialize))
    together = frame * TOGETHER
    large = b"".join(command.request(310, 1, HEADER, bytes(LARGE_BYTES), serialize=serialize))
    pieces = [large[at : at + PIECE_BYTES] for at in range(0, len(large), PIECE_BYTES)]
    connection = Connection()
    (request,) = connection.receive(frame)

    def parse(data: bytes) -> None:
        for found in connection.receive(data):
            found.header(SendMessageV2)

    def put_together() -> None:
        for piece in pieces:
            connection.receive(piece)

    return {
        "frame of 2 MiB, in pieces": 200 * microseconds(put_together, 200),
        "frame to header, one at a time": microseconds(lambda: parse(frame)),
        f"frame to header, {TOGETHER} together": microseconds(lambda: parse(together), TOGETHER),
        "answer to frame": microseconds(lambda: command.response(request, 0, ANSWER)),
    }


def main() -> None:
    """Measure and print."""
    for name, serialize in (("JSON", 0), ("binary", 1)):
        for step, cost in steps(serialize).items():
            print(f"{name:7} {step:32} {cost:6.2f} µs")


if __name__ == "__main__":
    main()
