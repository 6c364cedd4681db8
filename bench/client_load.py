"""What the Python client costs its own process: a load that measures itself.

A process of its own for each measurement, so that nothing else counts. The event loop is the one
that Sprocket itself runs on.

* `sync` sends one message after the other and times each `await producer.send`. For each number
  that it reads, a line each, it sends so many and prints `p50_us` and their median.
* `soon` gives messages to `send_soon` as fast as `drain` lets it, then looks at every result.
* `push` consumes a backlog from its first message; the listener does nothing but count.

The last two print one line of JSON, the fields of `Stream`.
"""

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from sprocket.rocketmq.client import Message, Producer, PushConsumer, ReceivedMessage
from sprocket.runtime import driver

BODY = b"x" * 1024
DRAIN_EVERY = 100
"""Calls of `send_soon` between two of `drain`, within the hundreds its docstring speaks of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Messages of which many were under way at once; `cpu` is this process's, user and system."""

    cpu_us_per_message: float
    messages_per_s: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure one kind and print what came out."""
    parser = argparse.ArgumentParser(prog="python -m bench.client_load", description=__doc__)
    parser.add_argument("kind", choices=["sync", "soon", "push"])
    parser.add_argument("nameserver")
    parser.add_argument("topic")
    parser.add_argument("--warm", type=int, default=0, help="of `soon`: before what counts")
    parser.add_argument("--messages", type=int, default=1, help="how many count")
    parser.add_argument("--group", default="bench-python", help="of `push`: one that is new")
    options = parser.parse_args(arguments)
    where, topic, count = options.nameserver, options.topic, options.messages
    if options.kind == "sync":
        driver.run(sync(where, topic))
    elif options.kind == "soon":
        _print(driver.run(soon(where, topic, warm=options.warm, count=count)))
    else:
        _print(driver.run(push(where, topic, group=options.group, count=count)))
    return 0


def _print(found: Stream) -> None:
    print(msgspec.json.encode(found).decode())


async def sync(nameserver: str, topic: str) -> None:
    """Send as often as the input says; the loop stands still while nothing is to be sent."""
    async with Producer(nameserver) as producer:
        for turn in sys.stdin:
            took = []
            for number in range(int(turn)):
                message = _message(topic, number)
                began = time.perf_counter()
                await producer.send(message)
                took.append(time.perf_counter() - began)
            print(f"p50_us {statistics.median(took) * 1e6:.1f}", flush=True)


async def soon(nameserver: str, topic: str, *, warm: int, count: int) -> Stream:
    """Send as fast as the producer takes messages; raises what any of them failed with."""
    async with Producer(nameserver) as producer:
        await _send_soon(producer, topic, warm)
        began, spent = time.perf_counter(), time.process_time()
        await _send_soon(producer, topic, count)
        spent, took = time.process_time() - spent, time.perf_counter() - began
    return Stream(cpu_us_per_message=spent / count * 1e6, messages_per_s=count / took)


async def _send_soon(producer: Producer, topic: str, count: int) -> None:
    sends = []
    for number in range(count):
        if number % DRAIN_EVERY == 0:
            await producer.drain()
        sends.append(producer.send_soon(_message(topic, number)))
    await producer.flush()
    for send in sends:
        send.result()


async def push(nameserver: str, topic: str, *, group: str, count: int) -> Stream:
    """Consume `count` messages, the backlog of a topic, as a group that has read nothing yet."""
    seen = 0
    is_over = asyncio.Event()

    async def listener(messages: list[ReceivedMessage]) -> None:
        nonlocal seen
        seen += len(messages)
        if seen >= count:
            is_over.set()

    consumer = PushConsumer(nameserver, group=group, listener=listener, start="first")
    began, spent = time.perf_counter(), time.process_time()
    async with consumer:
        await consumer.subscribe(topic)
        await is_over.wait()
        spent, took = time.process_time() - spent, time.perf_counter() - began
    if seen != count:
        raise RuntimeError(f"{seen} messages came out of a backlog of {count}")
    return Stream(cpu_us_per_message=spent / count * 1e6, messages_per_s=count / took)


def _message(topic: str, number: int) -> Message:
    return Message(topic, BODY, keys=(f"key-{number}",))


if __name__ == "__main__":
    sys.exit(main())
