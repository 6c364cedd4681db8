"""Light queues: we go on with what the real RocketMQ 5.3.3 has left, and it with ours."""

import json
from pathlib import Path

import pytest
from tests.interop import link, peers

from sprocket.rocketmq.codec.config import fastjson

pytestmark = [pytest.mark.interop, pytest.mark.slow]

NAMES = "%LMQ%a,%LMQ%b"
ON = {"enableLmq": "true", "enableMultiDispatch": "true"}
OURS = ("--set", "store.light_queues=true")


def use(address: str, first: int, *, is_new: bool) -> None:
    """Find what was sent and committed before, then send three messages more, and commit."""
    with link.Link(address) as connection:
        if is_new:
            link.create_topic(connection, "orders", 2)
        for group in ("g", "%LMQ%g"):
            found = connection.ask(14, place(group))
            assert (found.code, found.ext["offset"]) == (0, str(first)) if first else True
        for number in range(first, first + 3):
            ext = link.send_ext("orders", number % 2, f"INNER_MULTI_DISPATCH\x01{NAMES}\x02")
            connection.call(link.SEND_MESSAGE_V2, ext, b"m%d" % number)
        peers.wait_until(lambda: end(connection) == first + 3, "the light queue")
        for group in ("g", "%LMQ%g"):
            answer = connection.call(11, pull(group))
            found_bodies = [bytes(answer.body).find(b"m%d" % one) for one in range(first + 3)]
            assert -1 not in found_bodies
            assert found_bodies == sorted(found_bodies)
            connection.call(15, {**place(group), "commitOffset": first + 3})


def place(group: str) -> dict[str, object]:
    """Return where a group is asked about."""
    return {"consumerGroup": group, "topic": "%LMQ%a", "queueId": 0}


def pull(group: str) -> dict[str, object]:
    """Return what pulls all of a light queue."""
    more = {"sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0, "subVersion": 0}
    return {**place(group), "queueOffset": 0, "maxMsgNums": 32, "subscription": "*", **more}


def end(connection: link.Link) -> int:
    """Return how many messages the light queue has had."""
    return int(connection.call(30, {"topic": "%LMQ%a", "queueId": 0}).ext["offset"])


def test_both_go_on_where_the_other_was(jars: Path, tmp_path: Path) -> None:
    """Messages and offsets, of light groups and of others; the real one reads its own file only."""
    store = tmp_path / "store"
    with peers.RocketMQ(jars=jars, folder=tmp_path / "1", store=store, settings=ON) as broker:
        use(broker.address, 0, is_new=True)
    with peers.Sprocket(tmp_path / "2", store, OURS) as ours:
        use(ours.address, 3, is_new=False)
    with peers.RocketMQ(jars=jars, folder=tmp_path / "3", store=store, settings=ON) as broker:
        use(broker.address, 6, is_new=False)
    found = fastjson.read((store / "config/lmqConsumerOffset.json").read_bytes())
    assert found["lmqOffsetTable"] == {"%LMQ%a@%LMQ%g": 9}, json.dumps(found)
    assert found["offsetTable"]["%LMQ%a@g"] == {0: 9}
