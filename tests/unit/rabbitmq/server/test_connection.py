"""One connection without I/O: what a client may send, and what it is told otherwise."""

import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.amqp import (
    LOGIN,
    connection,
    frame,
    handshake,
    header,
    heard,
    message,
    method,
    publish,
    running,
    said,
)

from sprocket.rabbitmq.codec.amqp import (
    AmqpError,
    Envelope,
    ReplyCode,
    SentMessage,
    frames,
    methods,
    properties,
)
from sprocket.rabbitmq.model.properties import BasicProperties
from sprocket.rabbitmq.server.connection import (
    FRAGMENTS_MAX,
    MEMO_ENTRIES_MAX,
    Acknowledged,
    AmqpConnection,
    Called,
    ChannelClosed,
    ChannelFailed,
    ChannelOpened,
    ClientClosed,
    ConnectionState,
    Ended,
    Event,
    Failed,
    LoginOffered,
    Memo,
    ProtocolChosen,
    Published,
    SecretUpdated,
    ToSend,
    Tuned,
    VhostChosen,
    WireLimits,
)


def failure(events: list[Event]) -> tuple[int, str, tuple[int, int]]:
    """Return code, text and method of the one failure that there is."""
    (failed,) = [event for event in events if isinstance(event, Failed)]
    return int(failed.error.code), failed.error.text, failed.error.method


def opening(events: list[Event]) -> ChannelOpened:
    """Return the one event that says that a channel was opened."""
    (opened,) = events
    assert isinstance(opened, ChannelOpened)
    return opened


# The handshake.


def test_a_client_gets_in_step_by_step() -> None:
    """Header, login, limits, vhost."""
    found = connection()
    assert found.receive(frames.PROTOCOL_HEADER) == [ProtocolChosen()]
    (offered,) = found.receive(LOGIN)
    assert isinstance(offered, LoginOffered)
    assert offered.method.response == b"\x00guest\x00guest"
    assert found.frame_bytes_max == 4096
    assert found.receive(method(0, methods.ConnectionTuneOk(10, 8192, 7))) == [Tuned(7)]
    assert (found.frame_bytes_max, found.channel_max) == (8192, 10)
    assert found.receive(method(0, methods.ConnectionOpen("v"))) == [VhostChosen("v")]
    assert found.state is ConnectionState.RUNNING


@pytest.mark.parametrize(
    "header",
    [b"AMQP\x00\x01\x00\x00", b"GET / HT", b"AMQP\x03\x01\x00\x00", b"amqp\x00\x00\x09\x01"],
)
def test_another_protocol_is_told_ours(header: bytes) -> None:
    """And the connection ends."""
    found = connection()
    assert found.receive(header + b"TP/1.1\r\n\r\n") == [
        ToSend(b"AMQP\x00\x00\x09\x01"),
        Ended(),
    ]
    assert found.receive(handshake(WireLimits())) == []


def test_an_old_header_is_taken() -> None:
    """It means the same."""
    assert connection().receive(b"AMQP\x01\x01\x00\x09") == [ProtocolChosen()]


@pytest.mark.parametrize(
    ("channel_max", "frame_max", "why"),
    [
        (2047, 4095, "frame_max = 4095 is lower than the minimum allowed value (4096)"),
        (2047, 0, "frame_max = 0 (no limit) is higher than the maximum allowed value (131072)"),
        (2047, 131073, "frame_max = 131073 is higher than the maximum allowed value (131072)"),
        (0, 4096, "channel_max = 0 (no limit) is higher than the maximum allowed value (2047)"),
        (2048, 4096, "channel_max = 2048 is higher than the maximum allowed value (2047)"),
    ],
)
def test_limits_beyond_what_was_offered_are_refused(
    channel_max: int, frame_max: int, why: str
) -> None:
    """0 means no limit, which was not offered."""
    found = connection()
    found.receive(frames.PROTOCOL_HEADER + LOGIN)
    events = found.receive(method(0, methods.ConnectionTuneOk(channel_max, frame_max, 0)))
    assert failure(events) == (530, f"NOT_ALLOWED - negotiated {why}", (10, 31))
    (failed,) = events
    assert isinstance(failed, Failed)
    assert failed.is_handshake
    assert found.receive(method(0, methods.ConnectionOpen("/"))) == []


@pytest.mark.parametrize("count", range(3))
def test_a_step_too_early_ends_the_handshake(count: int) -> None:
    """The state is named as RabbitMQ names it."""
    found = connection()
    for step in [frames.PROTOCOL_HEADER, LOGIN, method(0, methods.ConnectionTuneOk(1, 4096, 0))][
        : count + 1
    ]:
        found.receive(step)
    state = ["starting", "tuning", "opening"][count]
    events = found.receive(method(0, methods.ConnectionUpdateSecret(b"", "")))
    text = f"CHANNEL_ERROR - unexpected method in connection state {state}"
    assert failure(events) == (504, text, (10, 70))


def test_channels_cannot_be_opened_before_the_vhost() -> None:
    """A frame on one is unexpected."""
    found = connection()
    found.receive(frames.PROTOCOL_HEADER)
    code, text, _ = failure(found.receive(method(1, methods.ChannelOpen())))
    assert (code, text[:46]) == (505, "UNEXPECTED_FRAME - type 1, all octets = <<0,20")


def test_who_is_in_cannot_come_in_again() -> None:
    """No method of the handshake is taken."""
    events = running().receive(method(0, methods.ConnectionOpen("/")))
    text = "CHANNEL_ERROR - unexpected method in connection state running"
    assert failure(events) == (504, text, (10, 40))


def test_a_secret_can_be_updated() -> None:
    """At any time; the server answers."""
    update = methods.ConnectionUpdateSecret(b"s", "r")
    assert running().receive(method(0, update)) == [SecretUpdated(update)]


# Channels.


def test_a_channel_is_opened_used_and_closed() -> None:
    """Its number is free as soon as the client has closed it."""
    found = running(channels=0)
    channel = opening(found.receive(method(7, methods.ChannelOpen()))).channel
    assert (channel.number, found.channel_count) == (7, 1)
    assert found.receive(method(7, methods.TxSelect())) == [Called(channel, methods.TxSelect())]
    close = methods.ChannelClose(200, "bye", 0, 0)
    assert found.receive(method(7, close)) == [ChannelClosed(channel, close)]
    assert found.channel_count == 0
    assert opening(found.receive(method(7, methods.ChannelOpen()))).channel is not channel


@pytest.mark.parametrize(
    "value",
    [methods.TxSelect(), methods.ChannelClose(200, "", 0, 0), methods.ChannelCloseOk()],
)
def test_a_channel_must_be_open(value: methods.AmqpMethod) -> None:
    """For whatever, even to close it."""
    events = running(channels=0).receive(method(3, value))
    layout = methods.layout_of(value)
    assert failure(events) == (504, "CHANNEL_ERROR - expected 'channel.open'", layout.id)


def test_a_channel_is_opened_once() -> None:
    """Until it is closed."""
    events = running().receive(method(1, methods.ChannelOpen()))
    assert failure(events) == (504, "CHANNEL_ERROR - second 'channel.open' seen", (20, 10))


def test_channels_are_counted() -> None:
    """Their numbers are not looked at."""
    found = running(WireLimits(channel_max=3), channels=0)
    for number in (1, 5000, 65535):
        opening(found.receive(method(number, methods.ChannelOpen())))
    text = "NOT_ALLOWED - number of channels opened (3) has reached the negotiated channel_max (3)"
    assert failure(found.receive(method(2, methods.ChannelOpen()))) == (530, text, (0, 0))


@pytest.mark.parametrize(
    "value",
    [
        methods.QueueDeclareOk("q", 0, 0),
        methods.BasicDeliver("c", 1, False, "", ""),
        methods.ConnectionClose(200, "", 0, 0),
    ],
)
def test_what_only_a_server_says_is_no_command(value: methods.AmqpMethod) -> None:
    """Nor is a method of the connection on a channel."""
    code, text, failed = failure(running().receive(method(1, value)))
    assert (code, text) == (503, "COMMAND_INVALID - unimplemented method")
    assert failed == methods.layout_of(value).id


def test_a_channel_that_the_server_closed_hears_only_its_end() -> None:
    """What the client sent meanwhile is dropped; then the number is free."""
    found = running()
    channel = opening(found.receive(method(2, methods.ChannelOpen()))).channel
    told = found.close_channel(channel, AmqpError(ReplyCode.NOT_FOUND, "no queue", (50, 10)))
    assert heard(told) == [(2, methods.ChannelClose(404, "NOT_FOUND - no queue", 50, 10))]
    assert channel.is_over
    assert found.receive(message(2, b"late") + method(2, methods.ChannelOpen())) == []
    assert found.receive(frame(3, 2, b"") + frame(9, 2, b"odd")) == []
    answer = ToSend(method(2, methods.ChannelCloseOk()))
    assert found.receive(method(2, methods.ChannelClose(200, "", 0, 0))) == [answer]
    assert found.receive(method(2, methods.ChannelCloseOk())) == []
    assert opening(found.receive(method(2, methods.ChannelOpen()))).channel is not channel


def test_both_sides_may_close_a_channel_at_once() -> None:
    """The close-ok that follows is not a surprise, whether the number is used again or not."""
    for is_reopened in (True, False):
        found = running(channels=0)
        channel = opening(found.receive(method(2, methods.ChannelOpen()))).channel
        found.receive(method(2, methods.ChannelClose(200, "", 0, 0)))
        if is_reopened:
            found.receive(method(2, methods.ChannelOpen()))
        found.close_channel(channel, AmqpError(ReplyCode.NOT_FOUND, ""))
        assert found.receive(method(2, methods.ChannelCloseOk())) == []
        assert found.channel_count == is_reopened


# Content.


def messages_of(events: Sequence[Event]) -> list[SentMessage]:
    """Return the messages of events that have any."""
    return [one for event in events if isinstance(event, Published) for one in event.messages]


def test_what_was_read_together_is_one_event() -> None:
    """Messages of one channel, and acknowledgements, as long as nothing else comes between."""
    found = running(channels=2)
    acks = b"".join(method(1, methods.BasicAck(tag, False)) for tag in (3, 1))
    data = [message(1, b"a"), message(1, b""), message(2, b"b"), message(1, b"c"), acks]
    data += [method(1, methods.BasicAck(9, True)), method(2, methods.BasicAck(4, False)), acks]
    said = [
        (event.channel.number, [b"".join(one.fragments) for one in event.messages])
        if isinstance(event, Published)
        else (event.channel.number, event.tags, event.is_multiple)
        for event in found.receive(b"".join(data))
        if isinstance(event, Published | Acknowledged)
    ]
    assert said == [
        (1, [b"a", b""]),
        (2, [b"b"]),
        (1, [b"c"]),
        (1, [3, 1], False),
        (1, [9], True),
        (2, [4], False),
        (1, [3, 1], False),
    ]


def test_a_message_is_one_event() -> None:
    """Method, properties and body together."""
    found = running(channels=0)
    channel = opening(found.receive(method(1, methods.ChannelOpen()))).channel
    octets = properties.encode(BasicProperties(delivery_mode=2, priority=3))
    wanted = methods.BasicPublish(0, "x", "key", False, False)
    assert found.receive(message(1, b"body", properties=octets)) == [
        Published(
            channel,
            [SentMessage(wanted, octets, Envelope(delivery_mode=2, priority=3), (b"body",))],
        )
    ]
    assert found.receive(message(1, b"")) == [
        Published(channel, [SentMessage(wanted, bytes(2), Envelope(), ())])
    ]


def test_a_body_keeps_its_pieces() -> None:
    """But for empty ones; frames of other channels may come between."""
    found = running(channels=2)
    parts = [publish(1), header(1, 6), frame(3, 1, b"ab"), message(2, b"other"), frame(3, 1, b"")]
    events = found.receive(b"".join(parts))
    assert [one.fragments for one in messages_of(events)] == [(b"other",)]
    assert found.pending_bytes == 2
    (whole,) = messages_of(found.receive(frame(3, 1, b"cde") + frame(3, 1, b"f")))
    assert whole.fragments == (b"ab", b"cde", b"f")
    assert found.pending_bytes == 0


def test_tiny_pieces_are_put_together() -> None:
    """So that they cost no more than what is in them; nothing is lost."""
    size = 2 * FRAGMENTS_MAX + 5
    found = running()
    data = b"".join(frame(3, 1, bytes((number & 0xFF,))) for number in range(size))
    (whole,) = messages_of(found.receive(publish(1) + header(1, size) + data))
    assert list(map(len, whole.fragments)) == [FRAGMENTS_MAX, FRAGMENTS_MAX, 1, 1, 1, 1, 1]
    assert b"".join(whole.fragments) == bytes(number & 0xFF for number in range(size))


def test_a_message_beyond_the_limit_closes_its_channel() -> None:
    """Before its body comes; what comes of it is dropped."""
    found = running(WireLimits(message_bytes_max=10), channels=2)
    (failed,) = found.receive(publish(1) + header(1, 11))
    assert isinstance(failed, ChannelFailed)
    assert failed.error.text == (
        "PRECONDITION_FAILED - message size 11 is larger than configured max size 10"
    )
    assert failed.error.method == (60, 40)
    assert found.receive(frame(3, 1, b"0123456789x")) == []
    found.close_channel(failed.channel, failed.error)
    assert len(found.receive(message(2, b"0123456789"))) == 1


def test_parts_of_messages_are_limited_together() -> None:
    """Twice the largest message for one connection."""
    found = running(WireLimits(message_bytes_max=10), channels=3)
    for number in (1, 2):
        assert (
            found.receive(publish(number) + header(number, 10) + frame(3, number, b"9" * 9)) == []
        )
    assert found.pending_bytes == 18
    code, text, failed = failure(found.receive(publish(3) + header(3, 10) + frame(3, 3, b"123")))
    assert (code, failed) == (506, (60, 40))
    assert text == "RESOURCE_ERROR - 21 octets of messages that are not whole"
    assert found.pending_bytes == 0


HEADER_DUE = (
    "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead"
)
BODY_DUE = "UNEXPECTED_FRAME - expected content body, got non content body frame instead"
METHOD_DUE = "UNEXPECTED_FRAME - expected method frame, got non method frame instead"
OTHER_CLASS = (
    "UNEXPECTED_FRAME - expected content header for class 60, got one for class 50 instead"
)
PUBLISH = (60, 40)
WEIGHTY = frame(2, 1, struct.pack(">HHQ", 60, 1, 4) + bytes(2))

UNEXPECTED = {
    "header where a method is due": (header(1, 4), METHOD_DUE, (0, 0)),
    "body where a method is due": (frame(3, 1, b"x"), METHOD_DUE, (0, 0)),
    "header on a closed channel": (header(9, 4), METHOD_DUE, (0, 0)),
    "method where the header is due": (publish(1) + publish(1), HEADER_DUE, PUBLISH),
    "body where the header is due": (publish(1) + frame(3, 1, b"x"), HEADER_DUE, PUBLISH),
    "header with a weight": (publish(1) + WEIGHTY, HEADER_DUE, PUBLISH),
    "header of another class": (publish(1) + header(1, 4, of=50), OTHER_CLASS, PUBLISH),
    "method where a body is due": (publish(1) + header(1, 4) + publish(1), BODY_DUE, PUBLISH),
    "header where a body is due": (publish(1) + header(1, 4) + header(1, 4), BODY_DUE, PUBLISH),
    "body longer than announced": (
        publish(1) + header(1, 4) + frame(3, 1, b"12345"),
        "UNEXPECTED_FRAME - expected 4 more octets of content body, got 5 instead",
        PUBLISH,
    ),
    "heartbeat on a channel": (
        frame(8, 1, b""),
        "UNEXPECTED_FRAME - type 8, all octets = <<>>",
        (0, 0),
    ),
    "heartbeat on a closed channel": (
        frame(8, 9, b""),
        "UNEXPECTED_FRAME - type 8, all octets = <<>>",
        (0, 0),
    ),
    "body on channel 0": (
        frame(3, 0, b"x"),
        'UNEXPECTED_FRAME - type 3, all octets = <<"x">>',
        (0, 0),
    ),
    "header on channel 0": (
        header(0, 1),
        "UNEXPECTED_FRAME - type 2, all octets = <<0,60,0,0,0,0,0,0,0,0,0,1,0,0>>",
        (0, 0),
    ),
}


@pytest.mark.parametrize("what", UNEXPECTED)
def test_a_frame_out_of_its_order_ends_the_connection(what: str) -> None:
    """With RabbitMQ's text."""
    data, text, failed = UNEXPECTED[what]
    assert failure(running().receive(data)) == (505, text, failed)


BAD_FRAMES = {
    "unknown kind": (
        frame(9, 1, b"abc"),
        'FRAME_ERROR - type 9, all octets = <<"abc">>: unknown_frame',
    ),
    "unknown kind on channel 0": (
        frame(4, 0, b"abc"),
        'FRAME_ERROR - type 4, all octets = <<"abc">>: unknown_frame',
    ),
    "heartbeat with a payload": (
        frame(8, 0, b"x"),
        'FRAME_ERROR - type 8, all octets = <<"x">>: unknown_frame',
    ),
    "short method": (
        frame(1, 1, b"\x00"),
        "FRAME_ERROR - type 1, all octets = <<0>>: unknown_frame",
    ),
    "short method on channel 0": (
        frame(1, 0, b"\x00\x0a\x00"),
        "FRAME_ERROR - type 1, all octets = <<0,10,0>>: unknown_frame",
    ),
    "short header": (
        frame(2, 1, b"\x00\x3c"),
        "FRAME_ERROR - type 2, all octets = <<0,60>>: unknown_frame",
    ),
    "short header on a closed channel": (
        frame(2, 9, b"\x00\x3c"),
        "FRAME_ERROR - type 2, all octets = <<0,60>>: unknown_frame",
    ),
}


@pytest.mark.parametrize("what", BAD_FRAMES)
def test_what_is_no_frame_ends_the_connection(what: str) -> None:
    """It is shown to the client; the client can still answer."""
    data, text = BAD_FRAMES[what]
    found = running()
    events = found.receive(data + message(1, b"late"))
    assert failure(events) == (501, text, (0, 0))
    (failed,) = events
    assert isinstance(failed, Failed)
    assert not failed.is_out_of_step
    assert found.receive(method(0, methods.ConnectionCloseOk())) == [Ended()]


def test_arguments_that_cannot_be_read_name_their_method() -> None:
    """And show their octets as numbers."""
    events = running().receive(frame(1, 1, bytes.fromhex("003c0050") + b"abc"))
    assert failure(events) == (501, "FRAME_ERROR - cannot decode <<97,98,99>>", (60, 80))


@pytest.mark.parametrize("octets", ["003c0028", "00320063", "03e70001"])
def test_methods_that_cannot_be_read(octets: str) -> None:
    """A publish without arguments, and two that nobody knows."""
    code, _, _ = failure(running().receive(frame(1, 1, bytes.fromhex(octets))))
    assert code == (501 if octets == "003c0028" else 503)


def test_properties_that_cannot_be_read_are_the_publishs_error() -> None:
    """Nothing that a consumer could not read is passed on."""
    events = running().receive(publish(1) + header(1, 0, b"\x80\x00\x05ab"))
    code, _, failed = failure(events)
    assert (code, failed) == (502, PUBLISH)


def test_a_bad_end_octet_is_the_end() -> None:
    """Both sides are out of step: nothing more is read, not even a close-ok."""
    found = running()
    events = found.receive(frame(1, 1, bytes.fromhex("000a000a"), end=205))
    text = "FRAME_ERROR - type 1, all octets = <<0,10,0,10>>: {invalid_frame_end_marker,205}"
    assert failure(events) == (501, text, (0, 0))
    (failed,) = events
    assert isinstance(failed, Failed)
    assert failed.is_out_of_step
    assert found.receive(method(0, methods.ConnectionCloseOk())) == []


@pytest.mark.parametrize(("limit", "size"), [(131072, 131073), (4096, 200_000)])
def test_a_frame_beyond_the_limit_is_the_end(limit: int, size: int) -> None:
    """Before its payload comes."""
    found = running(WireLimits(frame_bytes_max=limit))
    events = found.receive(frames.HEAD.pack(1, 1, size))
    text = f"FRAME_ERROR - type 1, all octets = <<>>: {{frame_too_large,{size},{limit - 8}}}"
    assert failure(events) == (501, text, (0, 0))
    assert found.pending_bytes == 0


def test_a_frame_may_be_8_octets_larger_than_agreed() -> None:
    """Clients forget what is around the payload."""
    found = running(WireLimits(frame_bytes_max=4096))
    (event,) = found.receive(message(1, b"x" * 4096))
    assert isinstance(event, Published)
    found.receive(publish(1) + header(1, 4097))
    assert failure(found.receive(frame(3, 1, b"x" * 4097)))[0] == 501


def test_frames_are_small_until_more_is_agreed_on() -> None:
    """Whatever the server would allow."""
    found = connection()
    found.receive(frames.PROTOCOL_HEADER)
    assert failure(found.receive(frames.HEAD.pack(1, 0, 4097)))[1].endswith("4097,4088}")


# The end.


def test_a_client_closes() -> None:
    """And is not heard any more."""
    found = running()
    close = methods.ConnectionClose(200, "bye", 0, 0)
    assert found.receive(method(0, close) + message(1, b"late")) == [ClientClosed(close)]
    assert found.receive(message(1, b"later")) == []
    assert found.state is ConnectionState.ENDED


def test_the_server_closes() -> None:
    """It hears only that the client knows, or that the client closes, too."""
    found = running()
    told = found.close(AmqpError(ReplyCode.CONNECTION_FORCED, "stop"))
    assert heard(told) == [(0, methods.ConnectionClose(320, "CONNECTION_FORCED - stop", 0, 0))]
    assert found.receive(message(1, b"late") + frame(9, 0, b"") + frames.HEARTBEAT) == []
    answer = ToSend(method(0, methods.ConnectionCloseOk()))
    assert found.receive(method(0, methods.ConnectionClose(200, "", 0, 0))) == [answer]
    assert found.receive(method(0, methods.ConnectionCloseOk())) == [Ended()]
    assert found.receive(frames.HEARTBEAT) == []


def test_who_is_out_of_step_while_closing_is_gone() -> None:
    """There is nobody to tell any more."""
    found = running()
    found.close(AmqpError(ReplyCode.CONNECTION_FORCED, "stop"))
    assert found.receive(frame(1, 0, b"", end=0)) == [Ended()]


def test_who_is_refused_is_not_heard() -> None:
    """Whatever comes."""
    found = connection()
    found.receive(frames.PROTOCOL_HEADER + LOGIN)
    found.refuse()
    assert found.receive(handshake(WireLimits())) == []
    assert found.pending_bytes == 0


def test_anything_that_comes_is_a_sign_of_life() -> None:
    """Even half a frame; whoever watches resets it."""
    found = running()
    assert found.was_read
    found.was_read = False
    found.receive(b"\x08")
    assert found.was_read


def test_heartbeats_are_no_events() -> None:
    """They are taken on channel 0."""
    assert running().receive(frames.HEARTBEAT * 3) == []


# What is remembered.


def test_what_octets_mean_is_remembered() -> None:
    """For all connections; but not without limit."""
    memo = Memo()
    limits = WireLimits()
    for number in range(MEMO_ENTRIES_MAX + 10):
        found = connection(limits, memo)
        found.receive(handshake(limits) + method(1, methods.ChannelOpen()))
        (one,) = messages_of(found.receive(message(1, b"body", f"key-{number}")))
        assert one.method.routing_key == f"key-{number}"
    assert len(memo.publishes) == 10


@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                ["9000 00 02", "1000 02", "1000 01", "1800 02 05", "1100 02 01 35", "0000"]
            ),
            st.binary(max_size=8).map(bytes.hex),
        ),
        max_size=8,
    )
)
def test_properties_that_begin_alike_are_read_as_each_by_itself(texts: list[str]) -> None:
    """Whatever came before them on any connection, and whether they are properties at all."""
    memo = Memo()
    for octets in map(bytes.fromhex, texts):
        try:
            expected = properties.read_envelope(octets)
        except AmqpError:
            with pytest.raises(AmqpError):
                memo.envelope(octets)
        else:
            assert expected == memo.envelope(octets)


def test_what_is_long_is_not_remembered() -> None:
    """It would be much, and does not come again."""
    memo = Memo()
    long = properties.encode(BasicProperties(content_type="m" * 250, content_encoding="a" * 10))
    assert memo.envelope(long) == Envelope()
    assert memo.heads == {}


def test_events_of_two_connections_do_not_mix() -> None:
    """What one has begun the other does not end."""
    memo, limits = Memo(), WireLimits()
    pair: list[AmqpConnection] = []
    for _ in range(2):
        found = connection(limits, memo)
        found.receive(handshake(limits) + method(1, methods.ChannelOpen()) + publish(1))
        pair.append(found)
    assert said(pair[0].receive(header(1, 0))) == said(pair[1].receive(header(1, 0)))
    assert pair[0].receive(method(1, methods.TxSelect())) != []
