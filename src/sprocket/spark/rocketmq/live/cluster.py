"""A live cluster for the stream: requests are repeated until they are answered.

A broker that is killed and started again cannot be reached for some seconds, and the NameServer
does not know it. Whatever fails for such a reason is tried again with new connections.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from sprocket.base import log
from sprocket.base.errors import BrokerRefused, ClientError, DataLost, NotConnected, RequestTimeout
from sprocket.base.units import MIB
from sprocket.rocketmq.client import ClientSettings, tls_if_asked
from sprocket.rocketmq.client.blocking import Puller
from sprocket.rocketmq.client.network import PullResult, PullStatus
from sprocket.rocketmq.codec.codes import ResponseCode
from sprocket.rocketmq.codec.columns import Stop, records, walk
from sprocket.rocketmq.errors import NoRoute, NoSuchTopic
from sprocket.runtime.blocking import Portal, ThreadFuture
from sprocket.spark.rocketmq.live.offsets import QueueSlice, name
from sprocket.spark.rocketmq.options import Options
from sprocket.spark.rocketmq.rows.batches import Batches

_log = log.get_logger(__name__)
T = TypeVar("T")

GROUP = "sprocket-spark"
"""Under which name brokers see the pulls, if no other is given; no group is joined."""
_CONNECT_MS_MAX = 3_000
DECODED_BYTES = 4 * MIB
"""Answers are gathered up to this size before they are decoded together: what is done once for all
of them costs as much as some hundred records."""

_PASSING = frozenset(
    {
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.TOPIC_NOT_EXIST,
    }
)
"""Refusals of a broker that is starting, stopping or overloaded."""


class _NotYet(ClientError):
    """The broker does not have what it had; it may be on its way up."""


class Live:
    """A cluster whose passing failures are waited out.

    Args:
        connect: Opens connections to it.
        retries_max: Tries after the first, for one question.
        retry_wait_ms: Pause before each.
        wait: Blocks for so many seconds.
    """

    def __init__(
        self,
        connect: Callable[[], Puller],
        *,
        retries_max: int,
        retry_wait_ms: int,
        wait: Callable[[float], None],
    ) -> None:
        self._connect = connect
        self._wait = wait
        self._retries_max = retries_max
        self._retry_wait_ms = retry_wait_ms
        self._cluster: Puller | None = None

    def ask(self, question: Callable[[Puller], T], *, unknown_tries_max: int | None = None) -> T:
        """Return the answer to a question.

        Args:
            question: May be put more than once.
            unknown_tries_max: How often to ask again for a topic that is not there; None as for
                everything else.

        Raises:
            ClientError: It failed for a reason that does not pass, or failed too often.
        """
        failures = 0
        while True:
            try:
                if self._cluster is None:
                    self._cluster = self._connect()
                return question(self._cluster)
            except (NotConnected, RequestTimeout, NoRoute, BrokerRefused, _NotYet) as error:
                if isinstance(error, BrokerRefused) and error.code not in _PASSING:
                    raise
                self.close()
                failures += 1
                is_unknown = unknown_tries_max is not None and isinstance(error, NoSuchTopic)
                limit = unknown_tries_max if is_unknown else self._retries_max
                if limit is not None and failures > min(limit, self._retries_max):
                    raise
                if failures == 1:
                    _log.warning("cluster does not answer; trying again", error=str(error))
                self._wait(self._retry_wait_ms / 1000)

    def ask_once(self, question: Callable[[Puller], T]) -> T:
        """Return the answer to a question that is not worth waiting for.

        Raises:
            ClientError: It failed.
        """
        if self._cluster is None:
            self._cluster = self._connect()
        return question(self._cluster)

    def begin(self, question: Callable[[Puller], T]) -> T | None:
        """Return what a question gives that waits for nothing, or None if nobody is connected.

        What it begins ends when the connections are closed.
        """
        try:
            return None if self._cluster is None else question(self._cluster)
        except NotConnected:
            return None

    def close(self) -> None:
        """Close the connections; another question opens them again."""
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.close()


def client_settings(options: Options) -> ClientSettings:
    """Return how a client reaches the cluster of the options.

    Raises:
        SettingsError: A file for TLS cannot be used.
    """
    tls = tls_if_asked(
        options.tls,
        trust_path=options.tls_trust_path,
        cert_path=options.tls_cert_path,
        key_path=options.tls_key_path,
        key_password=options.tls_key_password,
    )
    timeout_ms = options.pull_timeout_ms
    return ClientSettings(
        tls=tls,
        request_timeout_ms=timeout_ms,
        connect_timeout_ms=min(timeout_ms, _CONNECT_MS_MAX),
    )


def open_live(options: Options) -> Live:
    """Return the cluster that the options name; connections are opened when they are needed.

    Raises:
        SettingsError: A file for TLS cannot be used.
    """
    client = client_settings(options)

    def connect() -> Puller:
        # It asks once: how often to ask again is for `Live` to say.
        puller = Puller(
            options.name_server, group=options.consumer_group or GROUP, patience_ms=0, client=client
        )
        puller.start()
        return puller

    return Live(
        connect, retries_max=options.retries_max, retry_wait_ms=options.retry_wait_ms, wait=wait
    )


def wait(seconds: float) -> None:
    """Block for so long."""
    with Portal("sprocket-wait") as portal:
        portal.call(asyncio.sleep, seconds)


def read_range(
    live: Live,
    wanted: QueueSlice,
    batches: Batches,
    *,
    count_max: int,
    fail_on_data_loss: bool,
    tags: str = "*",
) -> Iterator[Any]:
    """Give the batches of one range of a queue, asking for `count_max` messages at once.

    A broker leaves out most of what has none of the `tags`, which have `||` between them; the rest
    is for `batches` to leave out.

    Raises:
        DataLost: Messages are gone, and that is an error.
        CorruptRecord: An answer holds something else than records, and the mode is FAILFAST.
        ClientError: The cluster did not answer in time.
    """
    pulls = _Pulls(live, wanted, count_max, tags)
    at = wanted.start
    while at < wanted.end:
        results = pulls.take(at)
        if not results or results[0].status is PullStatus.OFFSET_MOVED:
            at = _after_loss(wanted, at, results[0] if results else None, fail_on_data_loss)
            continue
        at = results[-1].next_offset
        pulls.begin(at)
        bodies = [result.body for result in results if result.status is PullStatus.FOUND]
        del results
        yield from _decoded(bodies, wanted, batches)


class _Pulls:
    """The answers of a range: while some are decoded, the next come in.

    So that the broker, this worker and the JVM behind it need not wait for each other. What is held
    is twice `DECODED_BYTES`, and an answer more each time.
    """

    def __init__(self, live: Live, wanted: QueueSlice, count_max: int, tags: str) -> None:
        self._live = live
        self._wanted = wanted
        self._count_max = count_max
        self._tags = tags
        self._begun: ThreadFuture[list[PullResult]] | None = None

    def begin(self, at: int) -> None:
        """Ask for what the next `take` wants, unless nobody is connected."""
        self._begun = self._live.begin(lambda cluster: self._ask(cluster, at))

    def take(self, at: int) -> list[PullResult]:
        """Return answers that lead on, or that messages are gone; none if the end is lost.

        Raises:
            ClientError: The cluster did not answer in time.
        """

        def question(cluster: Puller) -> list[PullResult]:
            begun, self._begun = self._begun, None
            results = (begun or self._ask(cluster, at)).result()
            if results[0].next_offset <= at:
                end = results[0].max_offset
                raise _NotYet(f"{name(self._wanted.queue)} ends at {end}, wanted is {at}")
            return results

        try:
            return self._live.ask(question)
        except _NotYet:
            return []

    def _ask(self, cluster: Puller, at: int) -> ThreadFuture[list[PullResult]]:
        return cluster.pull_range_soon(
            self._wanted.queue,
            at,
            self._wanted.end,
            bytes_max=DECODED_BYTES,
            count_max=self._count_max,
            tags=self._tags,
        )


def _after_loss(
    wanted: QueueSlice, at: int, result: PullResult | None, fail_on_data_loss: bool
) -> int:
    """Return where to go on when messages are gone.

    Raises:
        DataLost: That is an error.
    """
    if result is None:
        found, target = "the queue ends before that", wanted.end
    else:
        found, target = f"the oldest kept is {result.next_offset}", result.next_offset
    text = f"{name(wanted.queue)}: offset {at} is gone, {found}"
    if fail_on_data_loss:
        raise DataLost(f"{text}. failOnDataLoss=false goes on with what is there")
    _log.warning("messages are gone", queue=name(wanted.queue), wanted=at, going_on_at=target)
    return target


def _decoded(answers: list[bytes], wanted: QueueSlice, batches: Batches) -> Iterator[Any]:
    """Give the batches of some answers to pulls."""
    if not answers:
        return
    where = name(wanted.queue)
    data = answers[0] if len(answers) == 1 else b"".join(answers)
    found = walk(data, 0, len(data))
    kept = records(data, found.positions, found.stopped_at)
    if len(answers) > 1 and (kept.defect or found.stop is not Stop.END):
        for answer in answers:
            yield from _decoded([answer], wanted, batches)
        return
    offsets = kept.number("queue_offset")
    asked_for = (offsets >= wanted.start) & (offsets < wanted.end)  # a broker may send more
    yield from batches.of(kept.keep(np.asarray(asked_for)), where)
    if kept.defect or found.stop is not Stop.END:
        done = int(kept.end[-1]) if len(kept) else 0
        why = kept.defect or "no record begins here"
        batches.refuse_damage(where, None, f"byte {done} of an answer: {why}")
        yield from batches.damage(None, len(data) - done, why)
