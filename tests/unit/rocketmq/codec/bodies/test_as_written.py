"""Every body, byte for byte as it was written when it was first compared with RocketMQ's."""

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sprocket.rocketmq.codec import bodies, registration_body
from sprocket.rocketmq.codec.bodies import (
    AssignmentQuery,
    BrokerConsumeStats,
    ClientConnection,
    ConsumerConnection,
    ConsumerData,
    ConsumerIds,
    ConsumerStatus,
    ConsumeTimeSpans,
    Corrections,
    DelayOffsets,
    DirectOutcome,
    GroupConfigs,
    GroupNames,
    GroupSubscription,
    GroupTable,
    HeartbeatData,
    KeyValueTable,
    LockBatch,
    LockedQueues,
    MemberGroup,
    MemberGroups,
    OffsetTable,
    Permission,
    ProducerConnection,
    ProducerInfo,
    ProducerTable,
    QueueAssignment,
    QueueInfo,
    QueueOffsets,
    QueueStats,
    QueueUnits,
    ReplicaStatus,
    RunningInfo,
    SlaveStatus,
    TopicConfigs,
    TopicInfo,
    TopicNames,
    TopicStats,
)
from sprocket.rocketmq.codec.config import DataVersion, RequestMode, RequestModeTable, TopicTable
from sprocket.rocketmq.codec.registration_body import RegisterBrokerBody
from sprocket.rocketmq.model.group import (
    CLUSTERING,
    CONSUME_PASSIVELY,
    PULL,
    Subscription,
    SubscriptionGroup,
)
from sprocket.rocketmq.model.progress import ConsumeStats, ConsumeTimeSpan, QueueProgress
from sprocket.rocketmq.model.query import QueueUnit
from sprocket.rocketmq.model.route import (
    BrokerData,
    ClusterInfo,
    MessageQueue,
    QueueData,
    TopicRoute,
)
from sprocket.rocketmq.model.stats import Rate, StatsData
from sprocket.rocketmq.model.topic import MULTI_TAG, TopicConfig

Q = [MessageQueue("t", "b", 0), MessageQueue('u"é', "b", 11), MessageQueue("t", "a", 2)]
V = DataVersion(3, 1_700_000_000_007, 2)
SUBS = [
    Subscription.parse("t", "b || a", version=5),
    Subscription.parse("S", "x > 1 AND y = 'é'", type="SQL92"),
    Subscription.parse("A", "*"),
]
TOPICS = [
    TopicConfig(name="u", attributes={"+b": "2", "a": 'é"\n'}),
    TopicConfig(
        name="T%é",
        read_queues=1,
        write_queues=2,
        perm=7,
        order=True,
        filter_type=MULTI_TAG,
        sys_flag=3,
    ),
]
GROUPS = [
    SubscriptionGroup(name="h", consume_enable=False, attributes={"b": "1", "a": "2"}),
    SubscriptionGroup(
        name="g",
        retry_queues=3,
        retry_policy={"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 5}},
        subscriptions=({"topic": "t", "version": 1},),
        consume_timeout_minutes=1,
    ),
]
PROGRESS = {
    Q[0]: QueueProgress(broker_offset=9, consumer_offset=4, pull_offset=6, last_consumed_at_ms=7),
    Q[1]: QueueProgress(broker_offset=1, consumer_offset=0),
}
STATS = ConsumeStats(queues=PROGRESS, consume_tps=1.5)
QUEUE_DATA = [
    QueueData(broker_name="b", read_queues=4, write_queues=3, perm=6, sys_flag=1),
    QueueData(broker_name="a", read_queues=0, write_queues=0, perm=2),
]
BROKERS = [
    BrokerData(
        cluster="C",
        name="b",
        addresses={11: "h:3", 2: "h:2", 0: "h:1"},
        zone="z",
        enable_acting_master=True,
    ),
    BrokerData(cluster="C", name="a", addresses={}),
]
ROUTE = TopicRoute(
    queues=QUEUE_DATA, brokers=BROKERS, order_conf="b:4", filter_servers={"h:2": ["f:1"], "h:1": []}
)
CLIENTS = [
    ClientConnection(client_id="c@2", address="1.2.3.4:5", language="JAVA", version=479),
    ClientConnection(client_id="b", address="", language="GO", version=0),
]
INFO = RunningInfo(
    properties={"PROP_Z": "1", "PROP_A": 'é\t"'},
    subscriptions=SUBS,
    queues={
        Q[1]: QueueInfo(
            commit_offset=9,
            cached_min_offset=1,
            cached_max_offset=2,
            cached_count=3,
            cached_bytes=(3 << 20) + 5,
            is_locked=True,
            is_dropped=True,
            pulled_at_ms=4,
            consumed_at_ms=5,
            locked_at_ms=6,
        ),
        Q[0]: QueueInfo(commit_offset=0),
    },
    topics={
        "u": TopicInfo(
            pull_ms=1.5,
            pull_rate=2.25,
            consume_ms=0.1,
            consume_rate=1.75,
            failure_rate=3.0,
            failures=2,
        ),
        "t": TopicInfo(),
    },
    stacks='main\n\tat "work"',
)
MODE = RequestMode(topic="t", group="g", pop_share_queues=3)
HB = HeartbeatData(
    client_id="c@1",
    producers=["PG", "P2"],
    consumers=[
        ConsumerData(
            group="CG",
            subscriptions=SUBS,
            consume_type="CONSUME_ACTIVELY",
            message_model="BROADCASTING",
            consume_from_where="CONSUME_FROM_FIRST_OFFSET",
            unit_mode=True,
        ),
        ConsumerData(group="D"),
    ],
    fingerprint=7,
    without_sub=True,
)
SPANS = [
    ConsumeTimeSpan(
        queue=Q[0],
        min_at_ms=1_700_000_000_007,
        max_at_ms=1_700_000_001_000,
        consumed_at_ms=0,
        delay_ms=4,
    )
]
UNITS = QueueUnits(
    min_offset=1,
    max_offset=9,
    units=[
        QueueUnit(physical_offset=5, size=6, tags_code=-7, passes=True),
        QueueUnit(physical_offset=0, size=0, tags_code=0),
    ],
    subscription=SUBS[0],
    filter_data="none",
)
REG = RegisterBrokerBody(version=V, topics=TOPICS, filter_servers=["f:1"])
N = {q: n for n, q in enumerate(Q)}
CI = ClusterInfo(brokers={"b": BROKERS[0], "a": BROKERS[1]}, clusters={"D": ["b"], "C": ["b", "a"]})
CASES = {
    "topic stats": TopicStats(
        queues={q: QueueStats(min_offset=1, max_offset=2, last_update_at_ms=3) for q in Q},
        put_tps=0.5,
    ),
    "no topic stats": TopicStats(),
    "topic table": TopicTable(version=V, topics=TOPICS),
    "empty topic table": TopicTable(version=V, topics=[]),
    "topic configs": TopicConfigs(TOPICS),
    "groups of a topic": GroupNames(["b", "a"]),
    "topics of a group": TopicNames(broker_address="h:1", topics=["u", "t"]),
    "queue units": UNITS,
    "no queue units": QueueUnits(min_offset=0, max_offset=0),
    "route": ROUTE,
    "empty route": TopicRoute(queues=[], brokers=[]),
    "cluster": CI,
    "members": MemberGroups(MemberGroup(addresses={11: "h:2", 0: "h:1"}, cluster="C", name="b")),
    "version": V,
    "topic list": TopicNames(topics=["b", "a"]),
    "topic list of a broker": TopicNames(topics=["b"], broker_address="h:1"),
    "key values": KeyValueTable({"b": "1", "a": "é"}),
    "topic": TOPICS[0],
    "heartbeat": HB,
    "empty heartbeat": HeartbeatData(client_id="c"),
    "consumer list": ConsumerIds(["b", "a"]),
    "lock": LockBatch(group="g", client_id="c", queues=Q),
    "locked": LockedQueues(Q),
    "offsets to reset to": QueueOffsets(N),
    "no offsets to reset to": QueueOffsets({}),
    "status": ConsumerStatus(offsets=N),
    "direct": DirectOutcome(result="CR_SUCCESS", orderly=True, spent_ms=7),
    "direct that raised": DirectOutcome(result="CR_THROW_EXCEPTION", remark='x\n"'),
    "running info": INFO,
    "empty running info": RunningInfo(properties={}),
    "group": GROUPS[1],
    "group without subscriptions": GROUPS[0],
    "group list": GroupConfigs(GROUPS),
    "group table": GroupTable(version=V, groups=GROUPS, forbidden={"h": {"u": 1, "t": 2}, "g": {}}),
    "consumer connection": ConsumerConnection(
        connections=CLIENTS,
        subscriptions=SUBS,
        consume_type=CONSUME_PASSIVELY,
        message_model=CLUSTERING,
        consume_from_where="CONSUME_FROM_LAST_OFFSET",
    ),
    "producer connection": ProducerConnection(CLIENTS),
    "producers": ProducerTable(
        {
            "p": [
                ProducerInfo(
                    client_id="c", address="1.2.3.4:5", language="GO", version=1, seen_at_ms=2
                )
            ],
            "a": [],
        }
    ),
    "group subscription": GroupSubscription(group="g", topic="t", subscription=SUBS[0]),
    "no group subscription": GroupSubscription(group="g", topic="t"),
    "consume stats": STATS,
    "no consume stats": ConsumeStats(),
    "broker consume stats": BrokerConsumeStats(
        broker_address="[::1]:1",
        groups=[("h", [STATS, ConsumeStats()]), ("g", [])],
        total_lag=6,
        total_in_flight=2,
    ),
    "no broker consume stats": BrokerConsumeStats(
        broker_address="h:1", groups=[], total_lag=0, total_in_flight=0
    ),
    "time spans": ConsumeTimeSpans(SPANS),
    "delay offsets": DelayOffsets(version=V, levels={18: 0, 1: 5}),
    "statuses": ConsumerStatus(clients={"c2": N, "c1": {}}),
    "corrections": Corrections({10: 0, 2: 4}),
    "permission": Permission(group="g", topic="t", is_readable=False),
    "assignment query": AssignmentQuery(
        topic="t", group="g", client_id="c", strategy="AVG", message_model=CLUSTERING
    ),
    "assignment": QueueAssignment.of(Q, PULL),
    "empty assignment": QueueAssignment.of([], PULL),
    "no assignment": QueueAssignment.of(None, PULL),
    "request mode": MODE,
    "request modes": RequestModeTable({"u": {"g": MODE}, "t": {"h": MODE, "g": MODE}}),
    "stats": StatsData(
        minute=Rate(sum=6, tps=0.1, average=1.5), hour=Rate(sum=7, tps=0.2, average=2.5), day=Rate()
    ),
    "replicas": ReplicaStatus(
        log_end=11,
        is_master=True,
        slaves=[
            SlaveStatus(
                address="h:1",
                acknowledged_offset=5,
                lag_bytes=6,
                is_in_sync=True,
                bytes_per_second=7,
                transfer_offset=8,
            )
        ],
    ),
    "no replicas": ReplicaStatus(log_end=11, is_master=True),
}

WRITTEN = json.loads(Path(__file__).with_name("as_written.json").read_text())
"""The text of each by its name."""

QUOTED = ("route", "cluster", "members")
"""Those whose integer keys are in quotes here; `… for old clients` has them without."""


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Write times in UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("name", CASES)
def test_a_body_is_written_as_ever(name: str) -> None:
    """At once and in pieces; members in order, absent ones left out, no blanks."""
    written = bodies.encode(CASES[name], quoted=name in QUOTED)
    assert WRITTEN[name] == written.decode()
    plain = bodies.encode(CASES[name])
    if plain != b"{}":
        assert plain == b"".join(bodies.encode_pieces(CASES[name]))


READ_BY: dict[type, Callable[[bytes], Any]] = {
    HeartbeatData: bodies.decode_heartbeat,
    LockBatch: bodies.decode_lock,
    SubscriptionGroup: bodies.decode_group,
    GroupConfigs: lambda data: GroupConfigs(bodies.decode_groups(data)),
    QueueOffsets: lambda data: QueueOffsets(bodies.decode_offsets(data)),
}
"""What reads bodies of some types; `decode` reads the others."""


@pytest.mark.parametrize("name", [name for name in CASES if name != "statuses"])
def test_what_was_written_is_read(name: str) -> None:
    """With and without quotes: whoever writes what they have read writes the same.

    Statuses by client are for administrators, and written only.
    """
    kind = type(CASES[name])
    text = WRITTEN[name]
    read = READ_BY.get(kind, partial(bodies.decode, kind))(text.encode())
    assert bodies.encode(read, quoted=name in QUOTED).decode() == text
    if name in QUOTED:
        assert read == bodies.decode(kind, WRITTEN[f"{name} for old clients"].encode())


@pytest.mark.parametrize("name", QUOTED)
def test_old_clients_get_integer_keys_without_quotes(name: str) -> None:
    """As RocketMQ wrote them before 4.9.4."""
    assert WRITTEN[f"{name} for old clients"] == bodies.encode(CASES[name]).decode()


def test_what_is_written_in_other_ways() -> None:
    """Registrations, and the table of offsets, which changes while it is written."""
    assert WRITTEN["registration"] == registration_body.encode(REG).decode()
    for name, offsets in (
        ("offset table", {"u@g": {10: 5, 2: 6}, "t@g": {}, 't"é@f': {0: -1}}),
        ("empty offset table", {}),
    ):
        pieces = bodies.offset_table_pieces(OffsetTable(version=V, offsets=offsets))
        assert WRITTEN[name] == b"".join(pieces).decode()


def test_characters_are_escaped_as_rocketmqs_library_does() -> None:
    """Control characters of any kind, in capital digits; what looks like an escape is none."""
    names = TopicNames(topics=["\x01\x1f\x7f\x80\u2028", "\\u001f\\", "é\n"])
    assert bodies.encode(names) == (
        b'{"topicList":["\\u0001\\u001F\\u007F\\u0080\\u2028","\\\\u001f\\\\","\xc3\xa9\\n"]}'
    )
    assert bodies.decode(TopicNames, bodies.encode(names)) == names
