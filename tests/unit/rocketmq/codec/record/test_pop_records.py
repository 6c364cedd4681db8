"""What RocketMQ 5.3.3 keeps of pops on its revive topic, as it writes it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec.record import pop_records
from sprocket.rocketmq.model import pop
from sprocket.rocketmq.model.pop import PopAck, PopCheckpoint

AT_MS = 1_700_000_000_123
CHECKPOINT = PopCheckpoint(17, AT_MS, 60_000, 3, "orders", "g", 2, "broker-a")


def test_the_topic_has_the_name_of_the_cluster() -> None:
    """Recorded from `PopAckConstants`."""
    assert pop.revive_topic("DefaultCluster") == "rmq_sys_REVIVE_LOG_DefaultCluster"


def test_checkpoints_are_written_as_rocketmq_does() -> None:
    """Recorded from its JSON."""
    assert pop_records.encode_checkpoint(CHECKPOINT) == (
        b'{"bm":0,"bn":"broker-a","c":"g","it":60000,"n":3,"pt":1700000000123,"q":2,'
        b'"reviveTime":1700000060123,"ro":0,"so":17,"t":"orders"}'
    )
    full = PopCheckpoint(*(17, AT_MS, 60_000, 3, "orders", "g", 2, "broker-a"), 0, (0, 1, 5), 9, 2)
    assert pop_records.encode_checkpoint(full) == (
        b'{"bm":0,"bn":"broker-a","c":"g","d":[0,1,5],"it":60000,"n":3,"pt":1700000000123,"q":2,'
        b'"reviveTime":1700000060123,"ro":9,"rp":"2","so":17,"t":"orders"}'
    )
    assert pop_records.decode_checkpoint(pop_records.encode_checkpoint(full)) == full


def test_acknowledgements_are_written_as_rocketmq_does() -> None:
    """Recorded from its JSON."""
    one = PopAck(17, AT_MS, "orders", "g", 2, "broker-a", [18])
    many = PopAck(17, AT_MS, "orders", "g", 2, "broker-a", [17, 18])
    rest = b'"bn":"broker-a","c":"g","pt":1700000000123,"q":2,"so":17,"t":"orders"}'
    assert pop_records.encode_ack(one) == b'{"ao":18,' + rest
    assert pop_records.encode_ack(many) == b'{"ao":0,"aol":[17,18],' + rest
    assert [pop_records.decode_ack(pop_records.encode_ack(ack)) for ack in (one, many)] == [
        one,
        many,
    ]


@given(st.integers(1, 32), st.integers(0, (1 << 32) - 1))
def test_the_bits_of_a_checkpoint_come_back(count: int, bits: int) -> None:
    """The highest makes an int of Java negative."""
    said = PopCheckpoint(5, AT_MS, 1_000, count, "t", "g", 0, "b", bits)
    assert pop_records.decode_checkpoint(pop_records.encode_checkpoint(said)) == said
    assert [*said.distances] == [*range(count)]


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[1]", b'{"c":"g","it":1,"n":0,"pt":1,"q":0,"so":0,"t":"t"}']
)
def test_what_is_not_a_checkpoint_is_refused(body: bytes) -> None:
    """Nothing of it counts."""
    with pytest.raises(WireError, match="checkpoint"):
        pop_records.decode_checkpoint(body)
    with pytest.raises(WireError, match="acknowledgement"):
        pop_records.decode_ack(body[:2])
