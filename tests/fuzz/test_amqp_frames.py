"""Any bytes at the server's side of an AMQP connection.

Invariant: whatever arrives, events come out and nothing is raised; whatever cannot be read is one
`Failed` with a code of the protocol and a text that fits a frame; what an event holds can be read
by everybody behind; and what is kept is bounded by the limits.

A failure names its seed and the number of the unit: `mutated_units(seed, number + 1)` gives it.
"""

import os
from collections import Counter

import pytest
from tests.amqp import connection, handshake, heard, method
from tests.fuzz.amqp_frames import good_units, mutated_units
from tests.own_memory import own_bytes

from sprocket.base.units import MIB
from sprocket.rabbitmq.codec.amqp import ReplyCode, SentMessage, methods, properties, tables
from sprocket.rabbitmq.server.connection import (
    AmqpConnection,
    Called,
    ChannelClosed,
    Failed,
    Memo,
    Published,
    WireLimits,
)

SEED = int(os.environ.get("SPROCKET_FUZZ_SEED", "20261123"))
COUNT = 1_000_000
"""By night; a tenth of them in every run."""
GROWTH_BYTES_MAX = 32 * MIB
"""What the process may have more after the last nine tenths: the allocator's, not ours."""
LIMITS = WireLimits(message_bytes_max=10_000)
KEPT_BYTES_MAX = LIMITS.frame_bytes_max + 8 + 2 * LIMITS.message_bytes_max
_READY = handshake(LIMITS) + method(1, methods.ChannelOpen())


def ready(memo: Memo) -> AmqpConnection:
    """Return a connection with one channel."""
    found = connection(LIMITS, memo)
    found.receive(_READY)
    return found


def check_message(one: SentMessage) -> None:
    """See that a message says what its octets say."""
    read, envelope = properties.decode(one.properties), one.envelope
    assert (read.delivery_mode, read.priority) == (envelope.delivery_mode, envelope.priority)
    assert (read.reply_to, read.expiration) == (envelope.reply_to, envelope.expiration)
    assert read.user_id == envelope.user_id
    if envelope.headers is not None:
        tables.decode_table(envelope.headers, 0, len(envelope.headers))
    assert all(one.fragments)


def check_unit(data: bytes, memo: Memo, seen: Counter[str]) -> None:
    """Feed one mutated unit in two pieces and read whatever comes out."""
    found = ready(memo)
    events = found.receive(data[: len(data) // 2]) + found.receive(data[len(data) // 2 :])
    assert found.pending_bytes <= KEPT_BYTES_MAX
    failures = 0
    for event in events:
        seen[type(event).__name__] += 1
        if isinstance(event, Published):
            for one in event.messages:
                check_message(one)
        elif isinstance(event, Called | ChannelClosed):
            octets = methods.encode(event.method)
            assert methods.decode(octets, 0, len(octets)) == event.method
        elif isinstance(event, Failed):
            failures += 1
            seen[event.error.code.name] += 1
            ((_, told),) = heard(found.close(event.error))
            assert isinstance(told, methods.ConnectionClose)
            assert ReplyCode(told.reply_code) is event.error.code
    assert failures <= 1


def test_every_good_unit_gets_through() -> None:
    """The corpus is what it should be: mutations begin at what is right."""
    seen: Counter[str] = Counter()
    units = good_units()
    for unit in units:
        check_unit(unit, Memo(), seen)
    # Only to open a channel twice is wrong.
    assert seen["Failed"] == 1
    assert seen["Published"] == 12
    assert seen["ChannelClosed"] == 1


@pytest.mark.parametrize(
    "share",
    [
        pytest.param(20, id="twentieth", marks=pytest.mark.slow),
        pytest.param(1, id="whole", marks=[pytest.mark.nightly, pytest.mark.timeout(3600)]),
    ],
)
def test_mutated_frames_give_events(share: int) -> None:
    """Nothing is raised and nothing is kept; every way to fail that there is has been seen."""
    count = COUNT // share
    settled, memo = 0, Memo()
    seen: Counter[str] = Counter()
    for number, unit in enumerate(mutated_units(SEED, count)):
        if number == count // 10:
            settled = own_bytes()
        try:
            check_unit(unit, memo, seen)
        except BaseException as error:
            error.add_note(f"seed {SEED}, unit {number}: {unit[:400].hex()}")
            raise
    assert own_bytes() - settled < GROWTH_BYTES_MAX
    assert {
        "FRAME_ERROR",
        "SYNTAX_ERROR",
        "COMMAND_INVALID",
        "CHANNEL_ERROR",
        "UNEXPECTED_FRAME",
        "ChannelFailed",
        "Published",
        "Called",
    } <= seen.keys()
