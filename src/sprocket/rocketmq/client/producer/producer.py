"""Sending messages."""

import asyncio
import random
from collections.abc import Sequence
from typing import Self, Unpack, cast

from msgspec import Struct

from sprocket.base.errors import (
    BrokerRefused,
    ClientBusy,
    ClientError,
    InvalidMessage,
    NotConnected,
    RequestTimeout,
    WireError,
)
from sprocket.rocketmq.client.network import (
    Backoff,
    Client,
    ClientInstance,
    ClientOptions,
    Lease,
    Where,
)
from sprocket.rocketmq.client.producer.broker_faults import BrokerFaults, probe
from sprocket.rocketmq.client.producer.dialing import Dialer
from sprocket.rocketmq.client.producer.outgoing import (
    Outgoing,
    PackedBatch,
    SendResult,
    check_group,
    check_topic,
    prepare,
    prepare_batch,
    prepare_packed,
)
from sprocket.rocketmq.client.producer.place import Selector, place_of, queue_at
from sprocket.rocketmq.client.producer.requests import Requests
from sprocket.rocketmq.client.producer.send_lanes import TopicLanes
from sprocket.rocketmq.client.producer.send_request import SendRequests
from sprocket.rocketmq.client.producer.send_spans import SendSpans
from sprocket.rocketmq.client.producer.send_traces import TRACE_SENDS, SendTraces, trace_group
from sprocket.rocketmq.client.producer.validation import (
    check_handle,
    check_message,
    check_place,
    check_timeout,
)
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.rocketmq.client.settings import ProducerSettings
from sprocket.rocketmq.client.tracing import TraceWriter, tracer_if_used
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.headers import RecallMessage, RecallMessageAnswer
from sprocket.rocketmq.codec.record import UniqueIds, ids, recall_handle
from sprocket.rocketmq.errors import NoRoute, NoSuchTopic, ReplyTimeout
from sprocket.rocketmq.model.message import Message
from sprocket.rocketmq.model.route import MessageQueue

_SWEEP_S = 0.1
"""How late a passed deadline of a waiting message may be noticed."""


class Producer:
    """Sends messages to topics.

        async with Producer("127.0.0.1:9876", group="orders") as producer:
            sent = await producer.send(Message("orders", b"42 bolts", tag="new"))

    Messages with one `sharding_key` go to one queue in the order in which they were given, also
    while the broker restarts. Every message is tried until it is stored, refused permanently, or
    its deadline has passed; one that got no answer is sent again, so it may be stored twice, with
    the same `message_id`.

    Args:
        where: NameServers, `host:port`, several joined by `;` or in a sequence; or a `Client`
            that others use too.
        group: Name of the producer group.
        settings: Deadlines, limits and packing.
        options: `client`, the `ClientSettings` of a client of its own.

    Threads: event loop only; see `client.blocking` for programs without one.
    """

    def __init__(
        self,
        where: Where,
        *,
        group: str = "sprocket-producer",
        settings: ProducerSettings | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        self._group = check_group(group)
        self._settings = settings or ProducerSettings()
        check_topic(self._settings.trace_topic)
        self._lease = Lease("producer", where, options)
        self._parts: _Parts | None = None
        self._topics: dict[str, TopicLanes] = {}
        self._unanswered = 0
        self._unanswered_bytes = 0
        self._room = asyncio.Event()
        self._idle = asyncio.Event()
        self._sweeper: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self.close(flush=kind is None or not issubclass(kind, asyncio.CancelledError))

    async def start(self) -> None:
        """Begin; connections are made when they are needed.

        Raises:
            ClientError: The client that is shared has a producer of this group.
        """
        lease = self._lease
        instance = lease.begin()
        try:
            lease.join_as_producer(self._group)
            traces = await self._begin_traces(instance)
        except BaseException:
            await lease.end()
            raise
        lease.watch(instance.routes.on_change, self._route_changed)
        faults = BrokerFaults(instance.clock) if self._settings.avoid_slow_brokers else None
        tracer = tracer_if_used() if self._settings.telemetry else None
        self._parts = _Parts(
            instance=instance,
            post=SendRequests(self._group, self._settings, instance.clock, self._ended, traces),
            dialer=Dialer(instance.connections, instance.routes, lease.tasks, instance.settings),
            ids=UniqueIds(instance.clock, ids.host_bytes(instance.ip, 0)[:-4]),
            requests=Requests(instance.client_id, instance.clock),
            faults=faults,
            spans=None if tracer is None else SendSpans(tracer, instance.client_id, self._group),
        )
        lease.watch(instance.on_reply, self._parts.requests.take)
        if faults is not None and self._settings.probe_brokers:
            probing = probe(faults, instance.connections, instance.routes, self._settings)
            lease.tasks.spawn(probing, "probe brokers")

    async def _begin_traces(self, instance: ClientInstance) -> SendTraces | None:
        """Return what notes the outcome of messages, if that is wanted."""
        if not self._settings.trace:
            return None
        topic = self._settings.trace_topic
        writer = await begin_traces(self._lease.client, self._group, "PRODUCE", topic)
        return SendTraces(self._group, writer, instance.routes, instance.clock)

    @property
    def _traces(self) -> SendTraces | None:
        return None if self._parts is None else self._parts.post.traces

    def _new_id(self) -> str:
        """Return an id for a message that is not sent yet. Raises NotConnected."""
        return self._started().ids.next()

    async def close(self, *, flush: bool = True) -> None:
        """Wait for the outcome of every accepted message, then unregister from the brokers.

        Args:
            flush: False gives up the messages that are not answered yet.
        """
        parts = self._parts
        if parts is None:
            return
        if flush:
            await self.flush()
        self._parts = None
        if self._sweeper is not None:
            self._sweeper.cancel()
        closed = NotConnected("the producer was closed before an answer came")
        parts.post.close(closed)
        for lanes in self._topics.values():
            lanes.abandon(closed)
        if parts.post.traces is not None:
            await parts.post.traces.writer.close(flush=flush)
        await self._lease.end()

    @property
    def unanswered(self) -> int:
        """Messages that were accepted and whose outcome is not known yet."""
        return self._unanswered

    @property
    def is_full(self) -> bool:
        """Whether `send_soon` would refuse, because too much is unanswered."""
        return (
            self._unanswered >= self._settings.unanswered_messages_max
            or self._unanswered_bytes >= self._settings.unanswered_bytes_max
        )

    async def send(
        self,
        message: Message,
        *,
        sharding_key: str | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send one message and wait until the broker has it.

        Args:
            message: What to send.
            sharding_key: Messages with one key keep their order, in one queue.
            queue: Send to this queue, in order, instead.
            selector: Gets the queues of the topic and the message, and returns one of the queues;
                send to that, in order.
            timeout_ms: Deadline with all tries; by default that of the settings.

        Raises:
            InvalidMessage: It breaks a rule and was not sent.
            RequestTimeout: No broker acknowledged it in time; it may have been stored.
            BrokerRefused: The broker will not take it.
        """
        if self.is_full:
            timeout_ms = await self._room_within(timeout_ms)
        one = self._prepared(message, sharding_key, queue, selector)
        return await self._accept(one, timeout_ms)

    def send_soon(
        self,
        message: Message,
        *,
        sharding_key: str | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
    ) -> "asyncio.Future[SendResult]":
        """Accept one message and return a future of its result; arguments as for `send`.

        Thousands may be under way. `await producer.drain()` before each call, or after every few
        hundred, keeps them within the limits. Cancelling the future does not call the message
        back.

        Raises:
            InvalidMessage: It breaks a rule and was not sent.
            ClientBusy: As many messages or bytes are unanswered as the settings allow.
        """
        self._refuse_if_full()
        return self._accept(self._prepared(message, sharding_key, queue, selector), timeout_ms)

    async def send_batch(
        self,
        messages: Sequence[Message],
        *,
        sharding_key: str | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
    ) -> list[SendResult]:
        """Send messages of one topic that are stored one after the other, or not at all.

        Arguments and errors as for `send`. Batches are not compressed.
        """
        if self.is_full:
            timeout_ms = await self._room_within(timeout_ms)
        parts, settings = self._started(), self._settings
        now_ms = parts.instance.clock.now_ms()

        def prepared(messages: Sequence[Message]) -> Outgoing:
            one = prepare_batch(messages, parts.ids, now_ms, settings)
            one.place = place_of(messages[0], sharding_key, queue, selector)
            return one

        one = prepared(messages)
        if parts.spans is not None:
            one = parts.spans.prepared(messages, prepared)
        return await cast("asyncio.Future[list[SendResult]]", self._accept(one, timeout_ms))

    def send_packed(
        self,
        packed: PackedBatch,
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> "asyncio.Future[list[SendResult]]":
        """Accept messages that are a batch body already; return a future of the first's result.

        For senders of many messages at once, which make their bytes by columns. Nothing in the
        body is looked at. Otherwise as `send_soon`; batches to one `queue` keep their order.

        Raises:
            InvalidMessage: As `send_batch`.
            ClientBusy: As `send_soon`.
        """
        self._refuse_if_full()
        now_ms = self._started().instance.clock.now_ms()
        one = prepare_packed(packed, now_ms, self._settings)
        check_place(None, queue, None)
        if queue is not None and queue.topic != packed.topic:
            raise InvalidMessage(f"queue {queue} is not one of topic {packed.topic}")
        one.place = queue
        return cast("asyncio.Future[list[SendResult]]", self._accept(one, timeout_ms))

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of a topic that take messages, in the order in which keys choose them.

        Of one that does not exist yet, and that brokers would create, those that it will have.

        Raises:
            NoSuchTopic: It is not there; the text names the nearest that is.
            NoRoute: No NameServer answered, or no queue takes messages.
        """
        routes = self._started().instance.routes
        try:
            await routes.find_for_sending(topic, self._settings.topic_queues)
        except NoSuchTopic:
            raise await routes.no_such(topic) from None
        queues = routes.publish_queues(topic)
        if not queues:
            raise NoRoute(f"topic {topic} has no queue that takes messages")
        return queues

    async def send_oneway(
        self,
        message: Message,
        *,
        sharding_key: str | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
    ) -> None:
        """Send one message that nobody acknowledges; it may be lost, and nobody will know.

        Raises:
            InvalidMessage: It breaks a rule and was not sent.
            NoRoute: No broker for it is known.
            NotConnected: Its broker cannot be reached.
        """
        parts = self._started()
        one = self._prepared(message, sharding_key, queue, selector)
        try:
            routes = parts.instance.routes
            await routes.find_for_sending(message.topic, self._settings.topic_queues)
            queues = routes.publish_queues(message.topic)
            if not queues:
                raise NoRoute(f"topic {message.topic} has no queue that takes messages")
            queue = random.choice(queues) if one.place is None else queue_at(one.place, queues)  # noqa: S311
            address = routes.require_master(queue.broker_name)
            channel = await parts.instance.connections.channel(address)
            parts.post.send_oneway(channel, queue, one)
        finally:
            if one.ended is not None:
                one.ended(None)

    async def recall(self, handle: str, *, timeout_ms: int | None = None) -> str:
        """Take back a message that waits for its time; return its `message_id`.

        The broker does not look for the message: that it stored the wish is all that is known. One
        that is due in these moments may be delivered all the same.

        Args:
            handle: `SendResult.recall_handle`.
            timeout_ms: Longest wait for the answer; by default that of the settings.

        Raises:
            InvalidMessage: This is not a handle.
            BrokerRefused: It cannot be taken back; `code` 604 if its time is over.
            ClientError: The broker cannot be reached, or did not answer.
        """
        parts = self._started()
        instance, traces = parts.instance, parts.post.traces
        try:
            known = recall_handle.decode(check_handle(handle))
        except WireError as error:
            raise InvalidMessage(f"{handle!r} is not the recall_handle of a SendResult") from error
        await instance.routes.find_for_sending(known.topic, self._settings.topic_queues)
        address = instance.routes.require_master(known.broker_name)
        asked = RecallMessage(
            topic=known.topic,
            recall_handle=handle,
            producer_group=self._group,
            bname=known.broker_name,
        )
        try:
            answer = await instance.connections.call(
                address, RequestCode.RECALL_MESSAGE, asked, timeout_ms=self._wait_ms(timeout_ms)
            )
        except BrokerRefused:
            if traces is not None:
                traces.recalled(known, is_success=False)
            raise
        told = answer.header(RecallMessageAnswer)
        if traces is not None:
            traces.recalled(known, told.region, is_success=True)
        return told.msg_id or known.unique_key

    async def request(
        self,
        message: Message,
        *,
        sharding_key: str | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int = 3_000,
    ) -> ReceivedMessage:
        """Send a request and wait for the message that answers it; see `reply_to`.

        Args:
            message: What is asked.
            sharding_key: As for `send`.
            queue: As for `send`.
            selector: As for `send`.
            timeout_ms: Longest wait for the reply, the send included; consumers are told.

        Raises:
            ReplyTimeout: The request was stored, but nobody replied in time.
            ClientError: It could not be sent; as for `send`.
        """
        parts = self._started()
        clock = parts.instance.clock
        deadline = clock.monotonic() + check_timeout(timeout_ms) / 1000
        check_message(message, self._settings.delay_level_max)
        await self._be_known(message.topic)
        number, marked, reply = parts.requests.expect(message, timeout_ms)
        try:
            await self.send(
                marked,
                sharding_key=sharding_key,
                queue=queue,
                selector=selector,
                timeout_ms=max(1, int((deadline - clock.monotonic()) * 1000)),
            )
            async with asyncio.timeout(max(0.0, deadline - clock.monotonic())):
                return await reply
        except TimeoutError:
            raise ReplyTimeout(
                f"request {number} to topic {message.topic} was stored, but no reply came within"
                f" {timeout_ms} ms; does a consumer answer it with reply_to?"
            ) from None
        finally:
            parts.requests.forget(number)

    async def _be_known(self, topic: str) -> None:
        """Introduce ourselves to the brokers of a topic, so that they can push replies to us."""
        instance = self._started().instance
        route = await instance.routes.find_for_sending(topic, self._settings.topic_queues)
        for broker in route.brokers:
            address = instance.routes.master_address(broker.name)
            if address is not None:
                await instance.be_known_as_producer(self._group, address)

    async def drain(self) -> None:
        """Wait until `send_soon` has much room; returns at once if a quarter of it is free."""
        while not self._has_room(0.75):
            self._room.clear()
            await self._room.wait()

    async def flush(self) -> None:
        """Wait until the outcome of every accepted message is known."""
        while self._unanswered:
            self._idle.clear()
            await self._idle.wait()

    def _refuse_if_full(self) -> None:
        if self.is_full:
            raise ClientBusy(
                f"{self._unanswered} messages of {self._unanswered_bytes} bytes are unanswered;"
                " await drain() before sending on, or raise unanswered_messages_max"
            )

    async def _room_within(self, timeout_ms: int | None) -> int:
        """Wait for room; return what is left of the time.

        Raises:
            RequestTimeout: There was none in time; the message was not accepted.
        """
        clock = self._started().instance.clock
        wait_ms = self._wait_ms(timeout_ms)
        began = clock.monotonic()
        try:
            async with asyncio.timeout(wait_ms / 1000):
                await self.drain()
        except TimeoutError:
            raise RequestTimeout(
                f"{self._unanswered} earlier messages were still unanswered after {wait_ms} ms;"
                " this one was not sent"
            ) from None
        return max(1, wait_ms - int((clock.monotonic() - began) * 1000))

    def _wait_ms(self, timeout_ms: int | None) -> int:
        return self._settings.timeout_ms if timeout_ms is None else check_timeout(timeout_ms)

    def _started(self) -> "_Parts":
        if self._parts is None:
            raise NotConnected("the producer is not open; use `async with` or `await start()`")
        return self._parts

    def _prepared(
        self,
        message: Message,
        sharding_key: str | None,
        queue: MessageQueue | None,
        selector: Selector | None,
    ) -> Outgoing:
        parts = self._started()
        if parts.spans is None:
            return self._made(message, sharding_key, queue, selector)
        check_message(message, self._settings.delay_level_max)
        return parts.spans.prepared(
            [message], lambda marked: self._made(marked[0], sharding_key, queue, selector)
        )

    def _made(
        self,
        message: Message,
        sharding_key: str | None,
        queue: MessageQueue | None,
        selector: Selector | None,
    ) -> Outgoing:
        parts = self._started()
        one = prepare(message, parts.ids, parts.instance.clock.now_ms(), self._settings)
        one.place = place_of(message, sharding_key, queue, selector)
        return one

    def _accept(self, one: Outgoing, timeout_ms: int | None) -> "asyncio.Future[SendResult]":
        """Take a message on its way; of a batch the future gets a list, as `send_batch` says."""
        parts = self._started()
        one.deadline = parts.instance.clock.monotonic() + self._wait_ms(timeout_ms) / 1000
        reply: asyncio.Future[SendResult] = asyncio.get_running_loop().create_future()
        one.reply = reply
        if one.ended is not None:
            reply.add_done_callback(one.ended)
        self._unanswered += 1
        self._unanswered_bytes += one.wire_size
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().call_later(_SWEEP_S, self._sweep)
        lanes = self._topics.get(one.topic)
        if lanes is None:
            lanes = self._topics[one.topic] = TopicLanes(
                random.randrange(1 << 16),  # noqa: S311 - balance, no secret
                parts.post,
                parts.dialer,
                parts.faults,
            )
            self._lease.tasks.spawn(self._route(one.topic, lanes), f"route {one.topic}")
        lanes.put(one)
        return reply

    async def _route(self, topic: str, lanes: TopicLanes) -> None:
        """Find out where a topic's messages go; until then they wait in its lanes."""
        instance = self._started().instance
        pauses = Backoff(instance.settings)
        while True:
            try:
                await instance.routes.find_for_sending(topic, self._settings.topic_queues)
                lanes.routed(instance.routes.publish_queues(topic))
                if lanes.is_routed:
                    return
                error: ClientError = NoRoute(f"topic {topic} has no queue that takes messages")
            except ClientError as failure:
                error = failure
            lanes.note_error(error)
            await pauses.pause()
            if not lanes.is_waited_for:
                self._topics.pop(topic, None)  # all who waited have given up
                return

    def _route_changed(self, topic: str) -> None:
        lanes = self._topics.get(topic)
        if lanes is not None:
            lanes.routed(self._started().instance.routes.publish_queues(topic))

    def _ended(self, one: Outgoing) -> None:
        self._unanswered -= 1
        self._unanswered_bytes -= one.wire_size
        if not self._unanswered:
            self._idle.set()
        if not self._room.is_set() and self._has_room(0.5):
            self._room.set()

    def _has_room(self, share: float) -> bool:
        """Whether at most this share of the limits is in use."""
        settings = self._settings
        return (
            self._unanswered <= share * settings.unanswered_messages_max
            and self._unanswered_bytes <= share * settings.unanswered_bytes_max
        )

    def _sweep(self) -> None:
        self._sweeper = None
        for lanes in list(self._topics.values()):
            lanes.expire()
        if self._unanswered and self._parts is not None:
            self._sweeper = asyncio.get_running_loop().call_later(_SWEEP_S, self._sweep)


class _Parts(Struct, frozen=True):
    """What a producer has while it is open."""

    instance: ClientInstance
    post: SendRequests
    dialer: Dialer
    ids: UniqueIds
    requests: Requests
    faults: BrokerFaults | None
    spans: SendSpans | None


async def begin_traces(
    client: Client, group: str, kind: str, trace_topic: str
) -> TraceWriter[SendResult]:
    """Return what sends the traces of a producer group or a consumer group, once it is open."""
    sender = Producer(client, group=trace_group(group, kind), settings=TRACE_SENDS)
    writer = TraceWriter(sender, trace_topic)
    await writer.start()
    return writer
