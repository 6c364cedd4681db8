"""The consumer group: two members that share the queues and ask for the flights of two carriers.

A process of its own. It prints one JSON line of what it has seen so far, about once a second and
at the end, and ends on SIGTERM.
"""

import asyncio
import json
import signal
import sys

from examples.flights.answers import GROUP_CARRIERS
from examples.flights.source import TOPIC
from sprocket.rocketmq.client import PushConsumer, ReceivedMessage

GROUP = "flights-watch"
MEMBERS = 2


class Watch:
    """What the group has seen, each flight counted once although it may be delivered twice."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(GROUP_CARRIERS, 0)
        self.delay_minutes = 0
        self.repeated = 0
        self.out_of_order = 0
        self.foreign = 0
        self._seen: set[str] = set()
        self._latest: dict[str, str] = {}

    def take(self, messages: list[ReceivedMessage]) -> None:
        """Count messages; the listener of every member."""
        for message in messages:
            if message.message_id in self._seen:
                self.repeated += 1
                continue
            self._seen.add(message.message_id)
            flight = json.loads(message.body)
            if flight["carrier"] != message.tag or message.tag not in self.counts:
                self.foreign += 1
                continue
            self.counts[message.tag] += 1
            self.delay_minutes += flight["dep_delay"] or 0
            self._check_order(flight["tailnum"], flight["scheduled_at"])

    def _check_order(self, tail: str | None, at: str) -> None:
        if tail is None:
            return
        self.out_of_order += at < self._latest.get(tail, "")
        self._latest[tail] = at

    def line(self) -> str:
        """What was seen so far, as JSON."""
        seen = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        return json.dumps({**seen, "received": sum(self.counts.values())})


async def consume(nameserver: str) -> None:
    """Consume until SIGTERM."""
    watch = Watch()
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    members = [
        PushConsumer(nameserver, group=GROUP, listener=watch.take, orderly=True, start="first")
        for _ in range(MEMBERS)
    ]
    async with members[0], members[1]:
        for member in members:
            await member.subscribe(TOPIC, " || ".join(GROUP_CARRIERS))
        while not over.is_set():
            print(watch.line(), flush=True)
            try:
                await asyncio.wait_for(over.wait(), 1.0)
            except TimeoutError:
                continue
    print(watch.line(), flush=True)


if __name__ == "__main__":
    asyncio.run(consume(sys.argv[1]))
