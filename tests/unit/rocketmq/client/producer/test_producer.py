"""What a producer promises: outcomes, order, deadlines, limits."""

import asyncio
import contextlib
from typing import Any

import pytest

from sprocket.base.errors import (
    BrokerRefused,
    ClientBusy,
    InvalidMessage,
    NotConnected,
    RequestTimeout,
)
from sprocket.rocketmq.client import PackedBatch, ProducerSettings
from sprocket.rocketmq.client.producer import Producer, SendStatus
from sprocket.rocketmq.codec import headers
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command, response
from sprocket.rocketmq.codec.record import batch
from sprocket.rocketmq.codec.record.record import decode
from sprocket.rocketmq.errors import NoSuchTopic
from sprocket.rocketmq.model.message import Message
from sprocket.runtime.driver import Peer


def producer(world: Any, **settings: Any) -> Producer:
    """Return a producer in the world."""
    return Producer(world.names, group="p", settings=ProducerSettings(**settings), **world.reach)


def test_a_send_says_where_the_message_lies(world: Any) -> None:
    """The result names queue, offset and both ids; the record has tag, keys and the unique key."""

    async def main() -> None:
        world.cluster.topics["t"] = 2
        async with producer(world) as sender:
            sent = await sender.send(Message("t", b"one", tag="A", keys=["k", "l"]))
        assert sent.status == SendStatus.OK
        assert sent.queue_offset == 0
        stored = decode(world.cluster.log["t", sent.queue.queue_id][0])
        assert stored.body == b"one"
        assert (stored.tags, stored.keys) == ("A", ("k", "l"))
        assert sent.message_id == stored.message_id
        assert sent.offset_message_id == stored.offset_message_id

    world.run(main)


def test_a_topic_that_does_not_exist_is_modelled_after_the_template(world: Any) -> None:
    """The first send goes to one of `topic_queues` queues, and the broker creates the topic."""

    async def main() -> None:
        async with producer(world, topic_queues=3) as sender:
            sent = await sender.send(Message("new", b"x"))
        assert world.cluster.topics["new"] == 3
        assert sent.queue.queue_id < 3

    world.run(main)


def test_a_long_body_is_packed_and_unpacks_to_itself(world: Any) -> None:
    """From `compress_bytes_min` on the body is zlib; the reader gets what was sent."""

    async def main() -> None:
        async with producer(world) as sender:
            sent = await sender.send(Message("t", b"a" * 5000))
            tiny = await sender.send(Message("t", b"a" * 4095), queue=sent.queue)
        packed = decode(world.cluster.log["t", sent.queue.queue_id][0])
        plain = decode(world.cluster.log["t", sent.queue.queue_id][tiny.queue_offset])
        assert packed.sys_flag == 0x301
        assert len(packed.stored_body) < 5000
        assert packed.body == b"a" * 5000
        assert plain.sys_flag == 0

    world.run(main)


def test_messages_of_one_key_go_to_one_queue_in_order(world: Any) -> None:
    """However many are under way, those of one key are stored in the order of their sends."""

    async def main() -> None:
        world.cluster.topics["t"] = 4
        async with producer(world) as sender:
            for number in range(200):
                sender.send_soon(Message("t", b"%d" % number), sharding_key=f"k{number % 7}")
        where: dict[int, int] = {}
        for queue_id in range(4):
            numbers = [int(body) for body in world.cluster.bodies("t", queue_id)]
            assert sorted(numbers) == numbers
            for number in numbers:
                assert where.setdefault(number % 7, queue_id) == queue_id
        assert sum(len(world.cluster.log["t", queue_id]) for queue_id in range(4)) == 200

    world.run(main)


def test_what_waits_for_an_ordered_queue_goes_on_together(world: Any) -> None:
    """One request is on the wire for a queue; the messages that came meanwhile share the next."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        async with producer(world) as sender:
            await sender.send(Message("t", b"first"), sharding_key="k")
            futures = [
                sender.send_soon(Message("t", b"%d" % number, tag="A"), sharding_key="k")
                for number in range(5)
            ]
            results = await asyncio.gather(*futures)
        assert world.cluster.sends == [(0, [b"first"]), (0, [b"0", b"1", b"2", b"3", b"4"])]
        assert [result.queue_offset for result in results] == [1, 2, 3, 4, 5]
        stored = [decode(one) for one in world.cluster.log["t", 0]]
        assert [one.message_id for one in results] == [one.message_id for one in stored[1:]]
        assert [one.offset_message_id for one in results] == [
            one.offset_message_id for one in stored[1:]
        ]

    world.run(main)


def test_a_batch_is_one_request_with_a_result_for_each(world: Any) -> None:
    """`send_batch` stores its messages one after the other."""

    async def main() -> None:
        async with producer(world) as sender:
            results = await sender.send_batch([Message("t", b"a"), Message("t", b"b")])
        assert len(world.cluster.sends) == 1
        assert [one.queue_offset for one in results] == [0, 1]
        assert results[0].queue == results[1].queue
        assert results[0].message_id != results[1].message_id

    world.run(main)


def packed(*bodies: bytes, topic: str = "t") -> PackedBatch:
    """Return messages as their sender has made a batch of them."""
    parts = [(0, body, b"UNIQ_KEY\x01K%s\x02" % body) for body in bodies]
    return PackedBatch(topic, batch.join(parts), f"K{bodies[0].decode()}")


def test_batches_that_are_packed_already(world: Any) -> None:
    """Many are under way at once; those to one queue are stored in their order."""

    async def main() -> None:
        world.cluster.topics["t"] = 4
        async with producer(world) as sender:
            free = [sender.send_packed(packed(b"a", b"b")) for _ in range(3)]
            kept = [
                sender.send_packed(packed(b"%d" % n, b"+"), queue=world.queue(2)) for n in range(9)
            ]
            results = [await one for one in (*free, *kept)]
        assert [one[0].message_id for one in results[:3]] == ["Ka"] * 3
        assert [one[0].queue for one in results[3:]] == [world.queue(2)] * 9
        stored = [one for one in world.cluster.bodies("t", 2) if one not in (b"a", b"b")]
        assert stored == [one for n in range(9) for one in (b"%d" % n, b"+")]
        assert sum(len(bodies) for _, bodies in world.cluster.sends) == 24

    world.run(main)


def test_packed_batches_that_are_refused(world: Any) -> None:
    """Too long, empty, to a queue of another topic, or while too much is unanswered."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        async with producer(world, body_bytes_max=100, unanswered_messages_max=1) as sender:
            with pytest.raises(InvalidMessage, match="expected 1 to 100"):
                sender.send_packed(packed(b"x" * 100))
            with pytest.raises(InvalidMessage, match="0 bytes"):
                sender.send_packed(PackedBatch("t", b"", "K"))
            with pytest.raises(InvalidMessage, match="not one of topic"):
                sender.send_packed(packed(b"a", topic="u"), queue=world.queue(0))
            under_way = sender.send_packed(packed(b"a"))
            with pytest.raises(ClientBusy):
                sender.send_packed(packed(b"b"))
            await under_way
            assert sender.unanswered == 0

    world.run(main)


def test_the_queues_that_take_messages(world: Any) -> None:
    """Those of the topic, or those that it will have; or an error that names the nearest."""

    async def main() -> None:
        world.cluster.topics["orders"] = 2
        async with producer(world, topic_queues=3) as sender:
            assert [one.queue_id for one in await sender.queues("orders")] == [0, 1]
            assert [one.queue_id for one in await sender.queues("new")] == [0, 1, 2]
            world.cluster.creates_topics = False
            with pytest.raises(NoSuchTopic, match="did you mean orders"):
                await sender.queues("order")

    world.run(main)


def test_a_one_way_send_gets_no_answer(world: Any) -> None:
    """It is stored, and nothing waits for it."""

    async def main() -> None:
        async with producer(world) as sender:
            await sender.send_oneway(Message("t", b"x"), sharding_key="k")
            assert sender.unanswered == 0
            await world.until(lambda: bool(world.cluster.sends))
        assert world.cluster.requests[-2].is_oneway

    world.run(main)


@pytest.mark.parametrize("lost_answers", [False, True])
def test_a_killed_broker_costs_neither_messages_nor_order(world: Any, lost_answers: bool) -> None:
    """Sends go on by themselves after a restart; repeats have their first record in order."""

    async def main() -> None:
        cluster = world.cluster
        cluster.topics["t"] = 2
        kinds = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)

        def store_silently(peer: Peer, command: Command) -> None:
            command.flag |= 2
            usual(peer, command)

        usual = cluster.usual(RequestCode.SEND_MESSAGE_V2)
        async with producer(world, timeout_ms=60_000) as sender:
            futures = []
            for number in range(300):
                message = Message("t", b"%d" % number)
                futures.append(sender.send_soon(message, sharding_key=f"{number % 5}"))
                futures.append(sender.send_soon(Message("u", b"%d" % number)))
                if number == 100:
                    if lost_answers:
                        cluster.on = dict.fromkeys(kinds, store_silently)
                    await asyncio.sleep(0.1)
                    await cluster.stop()
                    cluster.on = {}
                if number == 200:
                    await asyncio.sleep(3)
                    await cluster.start()
            results = await asyncio.gather(*futures)
        by_id: dict[str, str] = {}
        for queue_id in range(2):
            first: dict[str, int] = {}
            for one in cluster.log["t", queue_id]:
                stored = decode(one)
                first.setdefault(stored.message_id, int(stored.body))
            for key in range(5):
                numbers = [number for number in first.values() if number % 5 == key]
                assert sorted(numbers) == numbers
            by_id.update(dict.fromkeys(first, "t"))
        for queue_id in range(4):
            by_id.update({decode(one).message_id: "u" for one in cluster.log["u", queue_id]})
        assert len(by_id) == 600
        assert {one.message_id for one in results} == set(by_id)

    world.run(main)


def test_a_broker_that_stays_away_fails_the_send_at_its_deadline(world: Any) -> None:
    """The error says that nobody could be reached, and what to set."""

    async def main() -> None:
        async with producer(world) as sender:
            await sender.send(Message("t", b"x"), sharding_key="k")
            await world.cluster.stop()
            for key in (None, "k"):
                began = world.clock.monotonic()
                with pytest.raises(RequestTimeout, match=r"nobody listens.*timeout_ms"):
                    await sender.send(Message("t", b"y"), sharding_key=key, timeout_ms=2_000)
                assert 2.0 <= world.clock.monotonic() - began <= 2.2
            assert sender.unanswered == 0

    world.run(main)


def test_an_unreachable_nameserver_is_named(world: Any) -> None:
    """Without a route the error tells whom nobody could ask."""

    async def main() -> None:
        await world.cluster.stop()
        async with producer(world) as sender:
            for key in (None, "k"):
                with pytest.raises(RequestTimeout, match=r"no NameServer answered.*10\.0\.0\.1"):
                    await sender.send(Message("t", b"y"), sharding_key=key, timeout_ms=500)

    world.run(main)


def test_a_silent_broker_is_tried_again(world: Any) -> None:
    """A request without an answer goes out again, with the same unique key."""

    async def main() -> None:
        cluster = world.cluster
        lost: list[Command] = []
        cluster.on[RequestCode.SEND_MESSAGE_V2] = lambda _, command: lost.append(command)
        async with producer(world, try_timeout_ms=500) as sender:
            waiting = [
                sender.send_soon(Message("t", b"x"), sharding_key=key) for key in (None, "k")
            ]
            await world.until(lambda: len(lost) == 2)
            cluster.on.clear()
            sent = await asyncio.gather(*waiting)
        tried = {command.header(headers.SendMessageV2).properties for command in lost}
        assert {f"UNIQ_KEY\x01{one.message_id}\x02" for one in sent} == tried

    world.run(main)


@pytest.mark.parametrize("key", [None, "k"])
def test_a_refusal_that_may_pass_is_tried_three_times(world: Any, key: str | None) -> None:
    """Code 1 counts tries; the error is the broker's own."""

    async def main() -> None:
        cluster = world.cluster
        cluster.on[RequestCode.SEND_MESSAGE_V2] = lambda peer, command: cluster.refuse(
            peer, command, ResponseCode.SYSTEM_ERROR, "not today"
        )
        async with producer(world) as sender:
            with pytest.raises(BrokerRefused, match="not today"):
                await sender.send(Message("t", b"x"), sharding_key=key)
        assert cluster.seen.count(RequestCode.SEND_MESSAGE_V2) == 3

    world.run(main)


def test_a_busy_broker_is_tried_until_the_deadline(world: Any) -> None:
    """Code 2 does not count tries."""

    async def main() -> None:
        cluster = world.cluster
        cluster.on[RequestCode.SEND_MESSAGE_V2] = lambda peer, command: cluster.refuse(
            peer, command, ResponseCode.SYSTEM_BUSY, "busy"
        )
        async with producer(world) as sender:
            waiting = sender.send_soon(Message("t", b"x"))
            await asyncio.sleep(5)
            assert not waiting.done()
            cluster.on.clear()
            await waiting

    world.run(main)


@pytest.mark.parametrize("key", [None, "k"])
def test_a_full_disk_is_heard_of_at_once(world: Any, key: str | None) -> None:
    """The broker's code and what it said, not that time has run out; also for those that wait."""

    async def main() -> None:
        cluster = world.cluster
        full = lambda peer, command: cluster.refuse(  # noqa: E731
            peer, command, ResponseCode.SERVICE_NOT_AVAILABLE, "the disk is 93 % full"
        )
        cluster.on[RequestCode.SEND_MESSAGE_V2] = full
        cluster.on[RequestCode.SEND_BATCH_MESSAGE] = full
        async with producer(world) as sender:
            sent = [sender.send_soon(Message("t", b"x"), sharding_key=key) for _ in range(9)]
            for one in sent:
                with pytest.raises(BrokerRefused, match="the disk is 93 % full") as caught:
                    await one
                assert caught.value.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert asyncio.get_running_loop().time() < 2

    world.run(main)


def test_one_bad_message_does_not_fail_its_neighbours(world: Any) -> None:
    """A shared request that is refused is taken apart; order stays, only the culprit fails."""

    async def main() -> None:
        cluster = world.cluster
        cluster.topics["t"] = 1

        def refuse_bad(peer: Peer, command: Command) -> None:
            if b"bad" in command.body:
                cluster.refuse(peer, command, ResponseCode.MESSAGE_ILLEGAL, "illegal")
            else:
                cluster.usual(RequestCode.SEND_MESSAGE_V2)(peer, command)

        cluster.on[RequestCode.SEND_MESSAGE_V2] = refuse_bad
        cluster.on[RequestCode.SEND_BATCH_MESSAGE] = refuse_bad
        async with producer(world) as sender:
            await sender.send(Message("t", b"0"), sharding_key="k")
            bodies = [b"1", b"bad", b"2"]
            futures = [sender.send_soon(Message("t", one), sharding_key="k") for one in bodies]
            results = await asyncio.gather(*futures, return_exceptions=True)
        assert isinstance(results[1], BrokerRefused)
        assert cluster.bodies("t", 0) == [b"0", b"1", b"2"]

    world.run(main)


def test_a_status_other_than_ok_is_a_result(world: Any) -> None:
    """Stored, but not flushed in time: the sender learns of it without an error."""

    async def main() -> None:
        cluster = world.cluster

        def slow_flush(peer: Peer, command: Command) -> None:
            answer = headers.SendMessageAnswer(msg_id="M", queue_id=0, queue_offset=7)
            peer.send(response(command, ResponseCode.FLUSH_DISK_TIMEOUT, answer))

        cluster.on[RequestCode.SEND_MESSAGE_V2] = slow_flush
        async with producer(world) as sender:
            sent = await sender.send(Message("t", b"x"))
        assert (sent.status, sent.queue_offset) == (SendStatus.FLUSH_DISK_TIMEOUT, 7)

    world.run(main)


def test_more_unanswered_messages_than_allowed_are_refused(world: Any) -> None:
    """`send_soon` says so, and `drain` waits for room."""

    async def main() -> None:
        async with producer(world, unanswered_messages_max=3) as sender:
            for _ in range(3):
                sender.send_soon(Message("t", b"x"))
            assert sender.is_full
            with pytest.raises(ClientBusy, match="drain"):
                sender.send_soon(Message("t", b"x"))
            await sender.drain()
            sender.send_soon(Message("t", b"x"))
            await sender.flush()
            assert sender.unanswered == 0
        assert sum(len(one) for one in world.cluster.log.values()) == 4

    world.run(main)


def test_a_few_hundred_may_be_sent_after_each_drain(world: Any) -> None:
    """`drain` makes much room, not room for one; nothing is refused, and the limits are used."""

    async def main() -> None:
        async with producer(world, unanswered_messages_max=40) as sender:
            most = 0
            for _ in range(30):
                await sender.drain()
                assert sender.unanswered <= 30
                for _ in range(10):
                    sender.send_soon(Message("t", b"x"))
                most = max(most, sender.unanswered)
            await sender.flush()
        assert most == 40
        assert sum(len(one) for one in world.cluster.log.values()) == 300

    world.run(main)


def test_keyed_messages_wait_until_a_changed_route_is_safe(world: Any) -> None:
    """With more queues a key may move; nothing of it is sent there before the old is answered."""

    async def main() -> None:
        cluster = world.cluster
        cluster.topics["t"] = 1
        lost: list[Command] = []
        async with producer(world, try_timeout_ms=1_000, timeout_ms=60_000) as sender:
            await sender.send(Message("t", b"0"), sharding_key="a")
            cluster.on[RequestCode.SEND_MESSAGE_V2] = lambda _, command: lost.append(command)
            first = sender.send_soon(Message("t", b"1"), sharding_key="a")
            await world.until(lambda: bool(lost))
            cluster.topics["t"] = 3
            await world.until(lambda: world.clock.monotonic() > 31)
            second = sender.send_soon(Message("t", b"2"), sharding_key="a")
            await asyncio.sleep(5)
            assert {0} == {one.header(headers.SendMessageV2).queue_id for one in lost}
            cluster.on.clear()
            assert (await first).queue.queue_id == 0
            assert ord("a") % 3 == (await second).queue.queue_id

    world.run(main)


def test_closing_without_flush_ends_what_is_unanswered(world: Any) -> None:
    """Nobody waits for ever for a message that was given up."""

    async def main() -> None:
        world.cluster.on[RequestCode.SEND_MESSAGE_V2] = lambda *_: None
        sender = producer(world)
        await sender.start()
        futures = [sender.send_soon(Message("t", b"x"), sharding_key=key) for key in (None, "k")]
        await asyncio.sleep(0.5)
        futures.append(sender.send_soon(Message("t", b"y"), sharding_key="k"))
        await asyncio.sleep(0.5)
        await sender.close(flush=False)
        results = await asyncio.gather(*futures, return_exceptions=True)
        assert [NotConnected] * 3 == [type(one) for one in results]

    world.run(main)


@pytest.mark.parametrize("error", [None, ValueError, asyncio.CancelledError])
def test_only_a_cancelled_block_gives_up_what_is_unanswered(world: Any, error: Any) -> None:
    """Any other end of an `async with`, an error too, waits until all is stored."""

    async def main() -> None:
        release = world.hold(RequestCode.SEND_MESSAGE_V2)
        asyncio.get_running_loop().call_later(1, release)
        ended = contextlib.suppress(error) if error else contextlib.nullcontext()
        with ended:
            async with producer(world) as sender:
                reply = sender.send_soon(Message("t", b"x"))
                await asyncio.sleep(0.5)
                if error:
                    raise error
        if error is asyncio.CancelledError:
            with pytest.raises(NotConnected, match="was closed before an answer came"):
                await reply
        else:
            assert (await reply).queue_offset == 0

    world.run(main)


def test_a_producer_introduces_itself_and_takes_leave(world: Any) -> None:
    """Heartbeats name its group every 30 s; closing unregisters it."""

    async def main() -> None:
        async with producer(world) as sender:
            await sender.send(Message("t", b"x"))
            await asyncio.sleep(61)
        assert world.cluster.seen.count(RequestCode.HEART_BEAT) == 3
        assert world.cluster.seen.count(RequestCode.UNREGISTER_CLIENT) == 1

    world.run(main)


def test_a_wrong_message_is_refused_before_anything_is_sent(world: Any) -> None:
    """Rules are checked at once."""

    async def main() -> None:
        async with producer(world) as sender:
            with pytest.raises(InvalidMessage, match="body of 0 bytes"):
                await sender.send(Message("t", b""))
        assert world.cluster.seen == []

    world.run(main)


def test_a_producer_that_is_not_open_says_so(world: Any) -> None:
    """Before `start` and after `close` a send is an error that tells what to do."""
    with pytest.raises(NotConnected, match="async with"):
        producer(world).send_soon(Message("t", b"x"))


def test_a_full_producer_counts_the_wait_for_room(world: Any) -> None:
    """The deadline of a send covers it; past it the message was not accepted."""

    async def main() -> None:
        world.cluster.on[RequestCode.SEND_MESSAGE_V2] = lambda *_: None
        async with producer(world, unanswered_messages_max=1) as sender:
            first = sender.send_soon(Message("t", b"x"))
            with pytest.raises(RequestTimeout, match=r"1 earlier messages.*not sent"):
                await sender.send(Message("t", b"y"), timeout_ms=1_000)
            second = asyncio.ensure_future(sender.send(Message("t", b"y"), timeout_ms=60_000))
            await asyncio.sleep(1)
            world.cluster.on.clear()
            await asyncio.gather(first, second)

    world.run(main)


def test_a_queue_of_another_topic_is_refused(world: Any) -> None:
    """Before anything is sent."""

    async def main() -> None:
        async with producer(world) as sender:
            for send in (sender.send, sender.send_oneway):
                with pytest.raises(InvalidMessage, match="u/b/0 is not one of topic t"):
                    await send(Message("t", b"x"), queue=world.queue(0, "u"))
        assert world.cluster.seen == []

    world.run(main)


def test_a_topic_that_nobody_waits_for_any_more_is_not_asked_for(world: Any) -> None:
    """The search for a route ends with the last message that needs it."""

    async def main() -> None:
        world.cluster.creates_topics = False
        async with producer(world) as sender:
            with pytest.raises(RequestTimeout, match="no broker would create it"):
                await sender.send(Message("t", b"x"), timeout_ms=1_000)
            await asyncio.sleep(2)
            asked = len(world.cluster.seen)
            await asyncio.sleep(20)
            assert len(world.cluster.seen) == asked

    world.run(main)


def test_a_selector_chooses_the_queue_in_every_mode(world: Any) -> None:
    """Before the route is known and after, one by one, as a batch, one-way; in order."""

    async def main() -> None:
        world.cluster.topics["t"] = 4
        async with producer(world) as sender:
            chosen: dict[str, Any] = {
                "selector": lambda queues, message: queues[int(message.body) % len(queues)]
            }
            futures = [sender.send_soon(Message("t", b"%d" % n), **chosen) for n in range(8)]
            assert [(await one).queue.queue_id for one in futures] == [0, 1, 2, 3] * 2
            batch = await sender.send_batch([Message("t", b"6"), Message("t", b"1")], **chosen)
            assert [one.queue.queue_id for one in batch] == [2, 2]
            await sender.send_oneway(Message("t", b"7"), **chosen)
            await world.until(lambda: world.cluster.bodies("t", 3) == [b"3", b"7", b"7"])
            with pytest.raises(InvalidMessage, match="selector failed with ValueError"):
                await sender.send(Message("t", b"none"), **chosen)
            with pytest.raises(InvalidMessage, match="one of sharding_key, queue and selector"):
                await sender.send(Message("t", b"0"), sharding_key="k", queue=world.queue(1))
            assert sender.unanswered == 0

    world.run(main)


def test_what_is_stored_unsafely_is_tried_elsewhere_if_asked_to(world: Any) -> None:
    """`retry_when_not_ok` sends it again; what the first try brought counts if nothing better."""

    async def main() -> None:
        world.cluster.topics["t"] = 4
        usual = world.cluster.usual(RequestCode.SEND_MESSAGE_V2)
        tries: list[int] = []

        def unsafe(peer: Peer, command: Command) -> None:
            tries.append(command.opaque)
            answer = headers.SendMessageAnswer(msg_id="A", queue_id=0, queue_offset=len(tries))
            peer.send(response(command, ResponseCode.FLUSH_DISK_TIMEOUT, answer))

        world.cluster.on[RequestCode.SEND_MESSAGE_V2] = unsafe
        async with producer(world) as sender:
            sent = await sender.send(Message("t", b"x"))
            assert (sent.status, len(tries)) == (SendStatus.FLUSH_DISK_TIMEOUT, 1)
        tries.clear()
        async with producer(world, retry_when_not_ok=True) as sender:
            sent = await sender.send(Message("t", b"x"))
            assert (sent.status, len(tries)) == (SendStatus.FLUSH_DISK_TIMEOUT, 3)
            await sender.send(Message("t", b"x"), sharding_key="k")
            assert len(tries) == 4
            tries.clear()

            def then_safe(peer: Peer, command: Command) -> None:
                (usual if tries else unsafe)(peer, command)

            world.cluster.on[RequestCode.SEND_MESSAGE_V2] = then_safe
            sent = await sender.send(Message("t", b"x"))
            assert (sent.status, len(tries)) == (SendStatus.OK, 1)

    world.run(main)


@pytest.mark.parametrize(
    ("given", "how"),
    [
        (Message("t", "text"), {}),  # type: ignore[arg-type]
        (Message("t", {"a": 1}), {}),  # type: ignore[arg-type]
        (Message("t", b"x", properties={"n": 1}), {}),  # type: ignore[dict-item]
        (Message("t", b"x", delay_level=99), {}),
        (Message("t", b"x"), {"timeout_ms": -5}),
        (Message("t", b"x"), {"sharding_key": 7}),
    ],
    ids=repr,
)
def test_what_is_wrong_with_a_message_is_said_before_it_is_accepted(
    world: Any, given: Message, how: dict[str, Any]
) -> None:
    """It used to end in RequestTimeout; nothing of it is sent, and the others are not held up."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        async with producer(world) as sender:
            began = asyncio.get_running_loop().time()
            with pytest.raises(InvalidMessage):
                sender.send_soon(given, **how)
            with pytest.raises(InvalidMessage):
                await sender.send(given, **how)
            with pytest.raises(InvalidMessage):
                await sender.request(given, **{"timeout_ms": 3_000, **how})
            with pytest.raises(InvalidMessage):
                await sender.send_batch([given], **how)
            with pytest.raises(InvalidMessage):
                await sender.send_batch(given, **how)  # type: ignore[arg-type]
            assert sender.unanswered == 0
            assert asyncio.get_running_loop().time() == began
            assert (await sender.send(Message("t", b"x"))).queue_offset == 0

    world.run(main)
