"""What Sprocket has not got is refused by its name, and nothing wrong stops the broker."""

from collections.abc import Callable
from typing import Any

from sprocket.rocketmq.codec.codes import RequestCode

BROKER = {
    *(10, 11, 12, 14, 15, 17, 18, 21, 25, 26, 28, 29, 30, 31, 32, 33),
    *(34, 35, 36, 37, 38, 41, 42, 43, 45, 46, 60, 61),
    *(200, 201, 202, 203, 204, 207, 208, 215, 222, 223, 225),
    *(300, 303, 305, 306, 307, 308, 309, 310, 314, 315, 316, 317, 320, 321, 323, 324, 325),
    *(328, 329, 343, 345, 351, 352, 353, 361, 370, 400, 401, 402, 907, 2002, 2003),
    *(200050, 200051, 200052, 200053, 200054, 200055, 200151),
}
NAMES = {
    *(100, 101, 102, 103, 104, 105, 106),
    *(205, 206, 216, 217, 219, 224),
    *(304, 311, 312, 313, 318, 319, 322, 327, 901, 904),
}


def test_other_codes_are_refused_by_name(on_node: Callable[..., None]) -> None:
    """Code 3 with number and name, on both servers; nothing is stubbed."""

    async def scenario(lab: Any) -> None:
        for client, known in ((lab.broker, BROKER), (lab.names, NAMES)):
            for code in {int(one) for one in RequestCode} - known:
                answer = await client.call(code)
                assert answer.code == 3
                assert answer.remark == (
                    f" request type {code} not supported ({RequestCode(code).name})"
                )
            assert (await client.call(31_000)).remark == " request type 31000 not supported"

    on_node(scenario)


def test_known_codes_without_fields_are_answered(on_node: Callable[..., None]) -> None:
    """Each gives an error with a remark, or its answer; none is left without."""

    async def scenario(lab: Any) -> None:
        for client, known in ((lab.broker, BROKER), (lab.names, NAMES)):
            for code in sorted(known):
                answer = await client.call(code, {}, b"\xff\x00")
                assert answer.code == 0 or answer.remark, code

    on_node(scenario)


def test_one_way_requests_are_never_answered(on_node: Callable[..., None]) -> None:
    """Whatever they ask for, known or not."""

    async def scenario(lab: Any) -> None:
        for code in sorted(BROKER | {99}):
            lab.broker.send(code, {}, b"", oneway=True)
        await lab.broker.call(28)
        assert lab.broker.pushed.empty()
        assert lab.broker.peer.is_open

    on_node(scenario)


def test_broken_frames_close_one_connection_only(on_node: Callable[..., None]) -> None:
    """The others, and the broker, go on."""

    async def scenario(lab: Any) -> None:
        for junk in (
            b"GET / HTTP/1.1\r\n\r\n",
            b"\xff" * 64,
            b"\0\0\0\x10\x07\0\0\x02{}abcdefghij",
        ):
            other = await lab.connect()
            closed: list[Any] = []
            other.peer.on_close.append(closed.append)
            other.peer.send([junk])
            while not closed:
                await lab.broker.call(30, {"topic": "T", "queueId": 0})

    on_node(scenario)
