"""The load of the bench counts right, keeps its window, and does not take errors for answers."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from bench.load import Load, LoadError, Row
from tests.interop import link
from tests.waits import LONG_SECONDS

from sprocket.rocketmq.codec import command
from sprocket.rocketmq.codec.headers import EndTransaction, SendMessageV2
from sprocket.rocketmq.codec.record import batch, properties
from sprocket.rocketmq.codec.signature import SigningKey
from sprocket.rocketmq.remoting import Connection

RECORDED = (
    "KEYS\x01key-1\x02UNIQ_KEY\x017F000001228B030946E097129538A000\x02"
    "WAIT\x01true\x02TAGS\x01TagA\x02"
)
"""Properties that the Java client 5.3.3 sent, for `new Message("T", "TagA", "key-1", body)`, alone
and in a batch: origin a recording of its frames, the address in the unique key made 127.0.0.1."""

RECORDED_OF_BATCH = "UNIQ_KEY\x017F000001228B030946E097129538A001\x02WAIT\x01true\x02"
"""And for the batch itself."""


@contextmanager
def broker(
    answer: Callable[[int], bytes], frames: list[bytes] | None = None
) -> Iterator[tuple[str, list[int]]]:
    """Answer each send by `answer(opaque)`; yield the address and the most that waited at once.

    What was sent is added to `frames`.
    """
    windows: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                data = b""
                while more := connection.recv(1 << 18):
                    data += more
                    requests = []
                    while len(data) >= 4 and len(data) >= 4 + int.from_bytes(data[:4], "big"):
                        end = 4 + int.from_bytes(data[:4], "big")
                        if b'"flag":2' not in data[:end]:  # nobody waits for an answer
                            requests.append(link.decode(data[4:end]).opaque)
                        if frames is not None:
                            frames.append(data[:end])
                        data = data[end:]
                    windows.append(len(requests))
                    connection.sendall(b"".join(map(answer, requests)))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}", windows
        thread.join(LONG_SECONDS)


def ok(opaque: int, code: int = 0, **ext: str) -> bytes:
    """Return an answer as RocketMQ writes it."""
    answer = {"code": code, "extFields": ext, "opaque": opaque}
    header = json.dumps(answer, separators=(",", ":"))
    body = len(header).to_bytes(4, "big") + header.encode()
    return len(body).to_bytes(4, "big") + body


def test_every_message_is_counted_within_the_window() -> None:
    """All messages are answered and timed; never more than `outstanding` wait."""
    row = Row(connections=1, outstanding=8)
    with broker(ok) as (address, windows), Load(address, "T", row, queues=4) as load:
        run = load.run(messages=100)
        assert run.messages == len(run.latencies)
        assert 100 <= run.messages < 100 + row.outstanding
        assert max(windows) <= row.outstanding
        assert 0 < run.percentile(0.5) <= run.percentile(0.99)


def test_error_is_no_answer() -> None:
    """An answer with another code than 0 ends the load."""
    row = Row(connections=1, outstanding=1)
    with (
        broker(lambda opaque: ok(opaque, code=2)) as (address, _),
        Load(address, "T", row, queues=4) as load,
        pytest.raises(LoadError),
    ):
        load.run(messages=10)


def test_strange_opaque_is_no_answer() -> None:
    """An answer to a request that was not sent ends the load."""
    row = Row(connections=1, outstanding=1)
    with (
        broker(lambda opaque: ok(opaque + 1)) as (address, _),
        Load(address, "T", row, queues=4) as load,
        pytest.raises(LoadError),
    ):
        load.run(messages=10)


def test_a_batch_is_one_request_of_many_messages() -> None:
    """Each message has keys of its own, and all of them count."""
    row = Row(connections=1, outstanding=2, batch=3)
    assert row.name == "1 × 2 × 3"
    with broker(ok) as (address, windows), Load(address, "T", row, queues=4) as load:
        run = load.run(messages=60)
        assert run.messages == 3 * len(run.latencies) >= 60
        assert max(windows) <= row.outstanding


def test_a_message_is_committed_where_it_lies() -> None:
    """One-way, as producers do it; the commit names the half by all that is known of it."""
    frames: list[bytes] = []

    def stored(opaque: int) -> bytes:
        return ok(opaque, msgId=f"7F00000100002A9F{opaque:016X}", queueOffset=str(opaque % 1000))

    row = Row(connections=1, outstanding=4, commits=True)
    assert row.name == "1 × 4 committed"
    with broker(stored, frames) as (address, windows), Load(address, "T", row, queues=4) as load:
        run = load.run(messages=40)
        assert 40 <= run.messages == len(run.latencies)
        assert max(windows) <= row.outstanding
    halves: dict[str, tuple[str, int]] = {}
    ends = []
    for frame in frames:
        (request,) = Connection().receive(frame)
        assert isinstance(request, command.Command)
        if request.code == link.END_TRANSACTION:
            assert request.is_oneway
            ends.append(request.header(EndTransaction))
            continue
        half = request.header(SendMessageV2)
        found = properties.decode(half.properties)
        assert (found["TRAN_MSG"], half.sys_flag) == ("true", 4)
        halves[found["UNIQ_KEY"]] = (found["PGROUP"], request.opaque)
    assert len(ends) == len(halves) == run.messages
    for end in ends:
        assert end.msg_id is not None
        group, place = halves.pop(end.msg_id)
        assert end == EndTransaction(
            producer_group=group,
            topic="T",
            tran_state_table_offset=place % 1000,
            commit_log_offset=place,
            commit_or_rollback=8,
            msg_id=end.msg_id,
            transaction_id=end.msg_id,
        )


def shape(text: str) -> list[tuple[str, int]]:
    """Return names of properties in their order and the lengths of values, but that of the key."""
    pairs = properties.decode(text).items()
    return [(name, 0 if name == "KEYS" else len(value)) for name, value in pairs]


@pytest.mark.parametrize("size", [1, 2])
def test_messages_carry_what_the_java_client_sends(size: int) -> None:
    """Properties of messages and of batches have names, order and lengths of the recorded ones."""
    frames: list[bytes] = []
    row = Row(connections=1, outstanding=1, batch=size)
    with broker(ok, frames) as (address, _), Load(address, "T", row, queues=4) as load:
        load.run(messages=3 * size)
    keys = set()
    for frame in frames:
        (request,) = Connection().receive(frame)
        assert isinstance(request, command.Command)
        sent = request.header(SendMessageV2)
        texts = [sent.properties]
        if size > 1:
            assert shape(sent.properties) == shape(RECORDED_OF_BATCH)
            keys.add(properties.decode(sent.properties)["UNIQ_KEY"])
            texts = [text.decode() for text in batch.split(request.body).properties]
        assert [shape(text) for text in texts] == [shape(RECORDED)] * size
        keys |= {properties.decode(text)["UNIQ_KEY"] for text in texts}
    assert len(keys) == 3 * size + (3 if size > 1 else 0)


def test_messages_may_be_signed() -> None:
    """Each by its own signature, which counts all that it says."""
    frames: list[bytes] = []
    row, user = Row(connections=1, outstanding=2), ("shop", "shop-secret")
    with (
        broker(ok, frames) as (address, _),
        Load(address, "T", row, queues=4, credentials=user) as load,
    ):
        load.run(messages=4)
    signatures = set()
    for frame in frames:
        (request,) = Connection().receive(frame)
        assert isinstance(request, command.Command)
        ext = request.ext_map()
        assert ext["AccessKey"] == "shop"
        assert SigningKey(user[1]).is_right(ext["Signature"], ext, request.body)
        signatures.add(ext["Signature"])
    assert len(signatures) == len(frames) >= 4
