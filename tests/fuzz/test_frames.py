"""Any bytes at the parser; `test_node` sends them to the ports of a node.

Invariant: whatever bytes arrive, each request is answered at most once, with a frame of its own
opaque, or a WireError says why not; nothing else ever comes out of the parser; and what it keeps
is bounded by the largest frame.

A failure names its seed and the number of the frame: `mutated_frames(seed, number + 1)` gives it.
"""

import logging
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import structlog
from tests.fuzz.frames import KINDS, good_frames, mutated_frames
from tests.own_memory import own_bytes

from sprocket.base.errors import WireError
from sprocket.base.units import MIB
from sprocket.rocketmq.codec import bodies, registration_body
from sprocket.rocketmq.codec.bodies import ClientCheck
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.config import DataVersion, java_properties
from sprocket.rocketmq.codec.ext import Header
from sprocket.rocketmq.codec.headers import NoFields
from sprocket.rocketmq.model.route import TopicRoute
from sprocket.rocketmq.remoting import Connection
from sprocket.rocketmq.server.dispatch import Answer, Dispatcher, Request, row

SEED = int(os.environ.get("SPROCKET_FUZZ_SEED", "20260117"))
PARSED_COUNT = 1_000_000
"""Frames at the parser by night; a tenth of them in every run."""
GROWTH_BYTES_MAX = 32 * MIB
"""What the process may have more after the last nine tenths: the allocator's, not ours."""
FRAME_BYTES_MAX = 1 << 20

READERS: dict[RequestCode, Callable[[bytes], Any]] = {
    RequestCode.HEART_BEAT: bodies.decode_heartbeat,
    RequestCode.CHECK_CLIENT_CONFIG: partial(bodies.decode_request, ClientCheck),
    RequestCode.LOCK_BATCH_MQ: bodies.decode_lock,
    RequestCode.UNLOCK_BATCH_MQ: bodies.decode_lock,
    RequestCode.REGISTER_BROKER: registration_body.decode,
    RequestCode.QUERY_DATA_VERSION: partial(bodies.decode_request, DataVersion),
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: partial(bodies.decode, TopicRoute),
    RequestCode.UPDATE_NAMESRV_CONFIG: java_properties.read,
}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Log nothing: a hundred thousand refusals would be most of the time."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()


class Escaped(BaseException):
    """What a reader must not raise; not an Exception, so that nobody on the way catches it."""


def handle(asked: Request, header: Header) -> Answer:
    """Read everything that a real handler would read."""
    request = asked.command
    try:
        if (reader := READERS.get(RequestCode(request.code))) is not None:
            reader(request.body)
        return Answer(0, header, request.remark, [request.body], request.ext_map())
    except WireError:
        raise
    except Exception as error:
        raise Escaped(repr(error)) from error


DISPATCHER = Dispatcher(row(code, KINDS.get(code, NoFields), handle) for code in {*KINDS, *READERS})


class Caught:
    """A peer that keeps what it is sent."""

    address = told_address = "fuzz"

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send(self, buffers: list[Any]) -> None:
        """Keep one answer."""
        self.sent.append(b"".join(buffers))


def check_frame(data: bytes) -> None:
    """Feed one mutated frame in two pieces and handle what comes out."""
    connection = Connection(frame_bytes_max=FRAME_BYTES_MAX)
    found: list[Command] = []
    for piece in (data[: len(data) // 2], data[len(data) // 2 :]):
        try:
            found += connection.receive(piece)
        except WireError:
            break
    assert connection.pending_bytes <= FRAME_BYTES_MAX
    for request in found:
        peer = Caught()
        DISPATCHER(peer, request)  # type: ignore[arg-type] # all it needs of a peer is there
        wanted = 0 if request.is_response or request.is_oneway else 1
        assert len(peer.sent) == wanted
        for sent in peer.sent:
            (answer,) = Connection().receive(sent)
            assert (answer.opaque, answer.is_response) == (request.opaque, True)


def test_every_good_frame_is_answered() -> None:
    """The corpus is what it should be: mutations begin at frames that get through."""
    for frame in good_frames():
        (found,) = Connection().receive(frame)
        peer = Caught()
        DISPATCHER(peer, found)  # type: ignore[arg-type]
        assert len(peer.sent) == (0 if found.is_response else 1)


SHARES = [
    pytest.param(30, id="thirtieth", marks=pytest.mark.slow),
    pytest.param(1, id="whole", marks=[pytest.mark.nightly, pytest.mark.timeout(3600)]),
]


@pytest.mark.parametrize("share", SHARES)
def test_mutated_frames_are_answered_or_refused(share: int) -> None:
    """At the parser and the handlers' readers; nothing of them is kept."""
    count = PARSED_COUNT // share
    settled = 0
    for number, frame in enumerate(mutated_frames(SEED, count)):
        if number == count // 10:
            settled = own_bytes()
        try:
            check_frame(frame)
        except BaseException as error:
            error.add_note(f"seed {SEED}, frame {number}: {frame[:400].hex()}")
            raise
    assert own_bytes() - settled < GROWTH_BYTES_MAX
