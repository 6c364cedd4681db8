"""A live cluster for the stream: requests are repeated until they are answered.

A broker that is killed and started again cannot be reached for a few seconds, and the NameServer
does not know it. Whatever fails for such a reason is tried again with new connections.
"""

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from sprocket.base import log
from sprocket.base.errors import BrokerRefused, ClientError, DataLost, NotConnected, RequestTimeout
from sprocket.base.units import MIB
from sprocket.rocketmq.client import (
    ClientSettings,
    QueueSlice,
    SliceAnswer,
    Sql,
    credentials_if_given,
    tls_if_asked,
)
from sprocket.rocketmq.client.blocking import Puller
from sprocket.rocketmq.client.network import PullStatus
from sprocket.rocketmq.codec.codes import ResponseCode
from sprocket.rocketmq.codec.columns import Mask, Records, Stop, records, scan
from sprocket.rocketmq.errors import NoRoute, NoSuchTopic
from sprocket.runtime.blocking import Portal, ThreadFuture
from sprocket.spark.rocketmq.live.offsets import name
from sprocket.spark.rocketmq.options import Options
from sprocket.spark.rocketmq.rows.batches import Batches
from sprocket.spark.rocketmq.rows.damage import DamagedRange

_log = log.get_logger(__name__)
T = TypeVar("T")

GROUP = "sprocket-spark"
"""Under which name brokers see the pulls, if no other is given; no group is joined."""
_CONNECT_MS_MAX = 3_000
DECODED_BYTES = 4 * MIB
"""Answers are gathered up to this size before they are decoded together: what is done once for all
of them costs as much as a few hundred records."""
_SLICES_AT_ONCE = 512
"""Slices whose answers are gathered at most, whatever they hold: a tenth of a second's work."""

_PASSING = frozenset(
    {
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.TOPIC_NOT_EXIST,
    }
)
"""Refusals of a broker that is starting, stopping or overloaded."""
_GONE = frozenset({ResponseCode.TOPIC_NOT_EXIST, ResponseCode.INVALID_PARAMETER})
"""Refusals of a broker that does not have the topic or the queue of a pull, or not any more."""


class _NotYet(ClientError):
    """The broker does not have what it had; it may be on its way up."""


class Live:
    """A cluster whose passing failures are waited out.

    Args:
        connect: Opens connections to it.
        retries_max: Tries after the first, for one question.
        retry_wait_ms: Pause before each.
        wait: Blocks for this many seconds.
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

    def ask(self, question: Callable[[Puller], T], *, gone_tries_max: int | None = None) -> T:
        """Return the answer to a question.

        Args:
            question: May be put more than once.
            gone_tries_max: How often to ask again for a topic or for messages that are not there;
                None as for everything else.

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
                is_gone = isinstance(error, NoSuchTopic | _NotYet) or (
                    isinstance(error, BrokerRefused) and error.code in _GONE
                )
                limit = gone_tries_max if is_gone else None
                if failures > self._retries_max or (limit is not None and failures > limit):
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
        SettingsError: A file for TLS or with credentials cannot be used.
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
        credentials=credentials_if_given(
            options.access_key, options.secret_key, path=options.credentials_path
        ),
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
            options.name_server,
            group=options.consumer_group or GROUP,
            patience_ms=0,
            replica=options.replica,
            client=client,
        )
        puller.start()
        return puller

    return Live(
        connect, retries_max=options.retries_max, retry_wait_ms=options.retry_wait_ms, wait=wait
    )


def wait(seconds: float) -> None:
    """Block for this long."""
    with Portal("sprocket-wait") as portal:
        portal.call(asyncio.sleep, seconds)


def read_task(slices: Sequence[QueueSlice], schema: Any, options: Options) -> Iterator[Any]:
    """Give the batches of one task, over connections of its own; as `read_slices`."""
    batches = Batches(schema, options, slices[0].queue.broker_name)
    live = open_live(options)
    try:
        made = read_slices(
            live,
            slices,
            batches,
            count_max=options.pull_count_max,
            fail_on_data_loss=options.fail_on_data_loss,
            tags=Sql(options.condition) if options.condition else " || ".join(options.tags) or "*",
        )
        yield from batches.added_up(made)
    finally:
        live.close()


def read_slices(
    live: Live,
    slices: Sequence[QueueSlice],
    batches: Batches,
    *,
    count_max: int,
    fail_on_data_loss: bool,
    tags: str | Sql = "*",
) -> Iterator[Any]:
    """Give the batches of slices of queues, one after the other, over the same connections.

    A pull asks for `count_max` messages at most. What small slices have is decoded together. A
    broker leaves out most of what has none of the `tags`, which have `||` between them; the rest
    is for `batches` to leave out.

    Raises:
        DataLost: Messages or a queue are gone, and that is an error.
        CorruptRecord: An answer holds something else than records, and the mode is FAILFAST.
        ClientError: The cluster did not answer in time.
    """
    pulls = _Pulls(live, slices, count_max, fail_on_data_loss, tags)
    while pulls.left:
        answers = [one for one in pulls.take() if one.result.status is PullStatus.FOUND]
        if answers:
            yield from _decoded(answers, batches)


class _Pulls:
    """The answers to the pulls of a task: while some are decoded, the next come in.

    So that the broker, this worker and the JVM behind it need not wait for each other. What is held
    is twice `DECODED_BYTES`, and an answer more each time.
    """

    def __init__(
        self,
        live: Live,
        slices: Sequence[QueueSlice],
        count_max: int,
        fail_on_data_loss: bool,
        tags: str | Sql,
    ) -> None:
        self.left = deque(slices)
        """What is not read yet; the first of them begins where the last answer ended."""
        self._live = live
        self._count_max = count_max
        self._fail_on_data_loss = fail_on_data_loss
        self._tags = tags
        self._gone_tries_max: int | None = None
        self._begun: ThreadFuture[list[SliceAnswer]] | None = None

    def take(self) -> list[SliceAnswer]:
        """Return answers that lead on, and ask for the next; none if messages are gone.

        Patience for what is gone is had once: if much is gone, there is no waiting for each part of
        it, as long as nothing else is answered.

        Raises:
            DataLost: Messages or a queue are gone, and that is an error.
            ClientError: The cluster did not answer in time.
        """
        try:
            answers = self._live.ask(self._answers, gone_tries_max=self._gone_tries_max)
        except (_NotYet, NoSuchTopic, BrokerRefused) as error:
            if isinstance(error, BrokerRefused) and error.code not in _GONE:
                raise
            is_short = isinstance(error, _NotYet)
            self._pass_over("the queue ends before that" if is_short else str(error))
            self._gone_tries_max = 0
            return []
        self._gone_tries_max = None
        result = answers[0].result
        if result.status is PullStatus.OFFSET_MOVED:
            self._pass_over(f"the oldest kept is {result.next_offset}", result.next_offset)
            return []
        for answer in answers:
            self._advance(answer.result.next_offset)
        if self.left:
            self._begun = self._live.begin(self._ask)
        return answers

    def _answers(self, cluster: Puller) -> list[SliceAnswer]:
        begun, self._begun = self._begun, None
        answers = (begun or self._ask(cluster)).result()
        wanted, result = self.left[0], answers[0].result
        if result.next_offset <= wanted.start:
            at, end = wanted.start, result.max_offset
            raise _NotYet(f"{name(wanted.queue)} ends at {end}, wanted is {at}")
        return answers

    def _ask(self, cluster: Puller) -> ThreadFuture[list[SliceAnswer]]:
        return cluster.pull_slices_soon(
            list(itertools.islice(self.left, _SLICES_AT_ONCE)),
            bytes_max=DECODED_BYTES,
            count_max=self._count_max,
            tags=self._tags,
        )

    def _advance(self, offset: int) -> None:
        """Note that the first slice was read up to an offset."""
        first = self.left.popleft()
        if offset < first.end:
            self.left.appendleft(QueueSlice(first.queue, offset, first.end))

    def _pass_over(self, why: str, target: int | None = None) -> None:
        """Continue after messages that are gone: at `target`, or with the next slice.

        Raises:
            DataLost: That they are gone is an error.
        """
        first = self.left[0]
        text = f"{name(first.queue)}: offset {first.start} is gone, {why}"
        if self._fail_on_data_loss:
            raise DataLost(f"{text}. failOnDataLoss=false goes on with what is there")
        target = first.end if target is None else target
        _log.warning(
            "messages are gone", queue=name(first.queue), wanted=first.start, going_on_at=target
        )
        self._advance(target)


def _decoded(answers: Sequence[SliceAnswer], batches: Batches) -> Iterator[Any]:
    """Give the batches of some answers to pulls."""
    bodies = [answer.result.body for answer in answers]
    data = bodies[0] if len(bodies) == 1 else b"".join(bodies)
    found = scan(data, 0, len(data))
    kept = records(data, found.positions, found.stopped_at)
    if len(answers) > 1 and (kept.defect or found.stop is not Stop.END):
        for answer in answers:
            yield from _decoded([answer], batches)
        return
    queues = {answer.wanted.queue for answer in answers}
    more = f" or one of {len(queues) - 1} behind it" if len(queues) > 1 else ""
    where = name(answers[0].wanted.queue) + more
    yield from batches.of(kept, where, _asked_for(kept, answers))
    if kept.defect or found.stop is not Stop.END:
        done = int(kept.end[-1]) if len(kept) else 0
        why = f"byte {done} of an answer: {kept.defect or 'no record begins here'}"
        yield from batches.damage([DamagedRange(where, -1, len(data) - done, why)])


def _asked_for(kept: Records, answers: Sequence[SliceAnswer]) -> Mask:
    """Tell which records are of the slices they were sent for; a broker may send more."""
    ends = np.cumsum([len(answer.result.body) for answer in answers])
    number = np.searchsorted(ends, kept.end)
    starts = np.array([answer.wanted.start for answer in answers])[number]
    behind = np.array([answer.wanted.end for answer in answers])[number]
    offsets = kept.number("queue_offset")
    mask: Mask = (offsets >= starts) & (offsets < behind)
    return mask
