"""`sprocket produce`: send messages from the command line, over the wire."""

import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sprocket.base.errors import ClientError, NotConnected, RequestTimeout, SettingsError
from sprocket.cli.options import AsJson, TopicName
from sprocket.cli.remote.wire import Remote, over_the_wire
from sprocket.cli.terminal import logs, output
from sprocket.rocketmq.errors import NoRoute, NoSuchTopic
from sprocket.rocketmq.model.internal import TEMPLATE_TOPIC

if TYPE_CHECKING:
    from sprocket.rocketmq.client import Message, SendResult
    from sprocket.runtime.blocking import ThreadFuture

OUTSTANDING_MAX = 1_000
"""Messages whose answers are waited for at a time, so that memory does not grow with stdin."""
GROUP = "sprocket-cli"
"""Of the producers that commands are; brokers forget it when the command ends."""
LINE = "line "
"""How errors begin to call a line of stdin."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


@dataclass(slots=True, kw_only=True)
class Given:
    """What is to be sent.

    Attributes:
        blank_count: Lines of stdin that were left out, as a message needs a body.
    """

    body: Annotated[
        str | None, typer.Argument(help="The body; without it each line of stdin is a message.")
    ] = None
    file: Annotated[str | None, typer.Option(help="Send the content of this file.")] = None
    count: Annotated[int, typer.Option(min=1, help="Send each message this many times.")] = 1
    blank_count: int = field(default=0, init=False)

    def check(self) -> None:
        """Raise SettingsError if two things were given."""
        if self.body is not None and self.file is not None:
            raise SettingsError("a body and a --file were given: send one of them")

    def bodies(self) -> Iterator[tuple[str, bytes]]:
        """Give what errors call each, and its bytes, as often as it is to be sent."""
        for one in self._different():
            yield from repeat(one, self.count)

    def _different(self) -> Iterator[tuple[str, bytes]]:
        """Give the argument, the file, or stdin by lines."""
        if self.body is not None:
            yield "the message", self.body.encode()
        elif self.file is not None:
            from sprocket.base.disk import RealDisk, read_file

            yield self.file, read_file(RealDisk(), self.file)
        else:
            for number, line in enumerate(sys.stdin.buffer, 1):
                data = line.rstrip(b"\r\n")
                if data:
                    yield f"{LINE}{number:,}", data
                else:
                    self.blank_count += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """What each message has besides its body."""

    key: Annotated[
        list[str] | None, typer.Option(help="A key by which it can be found; may be repeated.")
    ] = None
    tag: Annotated[str, typer.Option(help="Its tag.")] = ""
    prop: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="NAME=VALUE", help="A property; may be repeated."),
    ] = None
    delay: Annotated[
        int, typer.Option(min=0, help="Delay level: 0 is none, 1 is 1 s, 2 is 5 s, 18 is 2 h.")
    ] = 0
    delay_ms: Annotated[int, typer.Option(min=0, help="Deliver it so many milliseconds later.")] = 0
    at: Annotated[str | None, typer.Option(help="Deliver it at this time.")] = None
    sharding_key: Annotated[
        str | None, typer.Option(help="Messages with one such key stay in one queue, in order.")
    ] = None

    def check(self) -> None:
        """Raise SettingsError if a property or a time is none, or two delays were given."""
        output.pairs(self.prop or [], "property")
        if (self.delay, self.delay_ms, self.at or 0).count(0) < 2:
            raise SettingsError("give one of --delay, --delay-ms and --at")
        self.deliver_at_ms()

    def deliver_at_ms(self) -> int:
        """Return the time of the delivery; 0 if none was given."""
        return 0 if self.at is None else output.time_ms(self.at)

    def message(self, topic: str, body: bytes) -> "Message":
        """Return a message; for what `check` has not refused."""
        from sprocket.rocketmq.client import Message

        return Message(
            topic,
            body,
            tag=self.tag,
            keys=self.key or (),
            properties=output.pairs(self.prop or [], "property"),
            delay_level=self.delay,
            delay_ms=self.delay_ms,
            deliver_at_ms=self.deliver_at_ms(),
        )


@over_the_wire
def produce(
    remote: Remote,
    topic: TopicName,
    timeout_ms: Annotated[
        int, typer.Option(min=1, help="Give up a message that is not stored within this time.")
    ] = 10_000,
    as_json: AsJson = False,
    *,
    given: Given,
    marks: Marks,
    log: logs.LogOptions,
) -> None:
    """Send messages to a topic: one from the argument, one from a file, or each line of stdin.

    Blank lines of stdin are left out, and counted. When a message cannot be sent, nothing after it
    is read; what was sent is reported, and the exit code is 1.
    """
    marks.check()  # before anything is read or sent
    given.check()
    sending = Sending(topic, as_json=as_json)
    with log.told():
        made = _made_by_this(remote, topic)
        _send(remote, sending, given.bodies(), marks, timeout_ms)
    if not sending.goes_on:
        output.say(sending.told())
        raise typer.Exit(1)
    if not as_json or given.blank_count:
        blank = f"; {given.blank_count:,} blank lines left out" if given.blank_count else ""
        output.say(f"{sending.told()}{made}{blank}")


def _send(
    remote: Remote,
    sending: "Sending",
    bodies: Iterator[tuple[str, bytes]],
    marks: Marks,
    timeout_ms: int,
) -> None:
    """Send until there are no more bodies, or one could not be sent."""
    from sprocket.rocketmq.client import ProducerSettings
    from sprocket.rocketmq.client.blocking import Producer

    patience = ProducerSettings(timeout_ms=timeout_ms)
    with Producer(remote.nameserver, group=GROUP, settings=patience, client=remote.client) as way:
        try:
            for what, data in bodies:
                message = marks.message(sending.topic, data)
                try:
                    answer = way.send_soon(message, sharding_key=marks.sharding_key)
                except ClientError as error:
                    sending.fail(what, error)
                else:
                    sending.expect(what, answer)
                if not sending.goes_on:
                    break
            sending.finish()
        except KeyboardInterrupt:
            sending.finish()
            output.say(f"{sending.told()}; ended by Ctrl-C")
            raise typer.Exit(INTERRUPTED) from None


@dataclass(frozen=True, slots=True)
class UnansweredMessage:
    """A message whose answer has not come."""

    what: str
    answer: "ThreadFuture[SendResult]"


class Sending:
    """Tells of each message where it lies, in the order in which they were sent.

    It writes an object or a line of text each.
    """

    def __init__(self, topic: str, *, as_json: bool) -> None:
        self.goes_on = True
        """Whether all is well: none failed, and somebody reads the output."""
        self.topic = topic
        self._as_json = as_json
        self._waiting: deque[UnansweredMessage] = deque()
        self._sent_count = 0
        self._failed_count = 0
        self._failure = ""

    def expect(self, what: str, answer: "ThreadFuture[SendResult]") -> None:
        """Wait for one more answer, and report those that have come."""
        self._waiting.append(UnansweredMessage(what, answer))
        is_told = False
        while self._waiting and (
            len(self._waiting) >= OUTSTANDING_MAX or self._waiting[0].answer.done()
        ):
            self._take()
            is_told = True
        if is_told:
            self._tell(sys.stdout.flush)

    def fail(self, what: str, error: ClientError) -> None:
        """Count a message that was not sent."""
        self._failed_count += 1
        behind = "; nothing behind it was read" if what.startswith(LINE) else ""
        self._stop(f"; {what}: {error}{behind}")

    def finish(self) -> None:
        """Wait for all answers, and report them."""
        while self._waiting:
            self._take()
        self._tell(sys.stdout.flush)

    def told(self) -> str:
        """Return what came of it, in one line."""
        text = f"{self._sent_count:,} sent to {self.topic}"
        if self._failed_count:
            text += f", {self._failed_count:,} not"
        return text + self._failure

    def _take(self) -> None:
        """Wait for the oldest answer."""
        first = self._waiting[0]
        try:
            result = first.answer.result()
        except ClientError as error:
            self.fail(first.what, error)
        else:
            self._sent_count += 1
            self._tell(partial(self._show, result))
        self._waiting.popleft()

    def _show(self, result: "SendResult") -> None:
        if self._as_json:
            output.write_json(sent_row(result))
        else:
            output.write_line(sent_line(result))

    def _tell(self, write: Callable[[], object]) -> None:
        """Write, if anybody reads it; whoever ends a pipe early wants its work to end."""
        if sys.stdout.closed:
            return
        try:
            write()
        except BrokenPipeError:
            output.stop_writing()
            self._stop("; the reader of stdout has gone, so nothing further was sent")

    def _stop(self, why: str) -> None:
        """Send nothing more; the first reason counts."""
        if self.goes_on:
            self.goes_on = False
            self._failure = why


def sent_row(result: "SendResult") -> dict[str, Any]:
    """What is said of a message that was sent."""
    return {
        "topic": result.queue.topic,
        "broker": result.queue.broker_name,
        "queue_id": result.queue.queue_id,
        "queue_offset": result.queue_offset,
        "unique_key": result.message_id,
        "offset_id": result.offset_message_id,
        "recall_handle": result.recall_handle,
        "status": result.status.name,
    }


def sent_line(result: "SendResult") -> str:
    """The same for people."""
    queue = result.queue
    text = (
        f"{queue.topic} queue {queue.queue_id} offset {result.queue_offset} id {result.message_id}"
    )
    return text if result.recall_handle is None else f"{text} recall {result.recall_handle}"


def _made_by_this(remote: Remote, topic: str) -> str:
    """Return what is to be said of a topic that is made by the first send to it.

    Raises:
        NoSuchTopic: It is not there, and no broker would make it; the text names the nearest.
    """
    from sprocket.rocketmq.client.blocking import Admin

    with Admin(remote.nameserver, client=remote.client) as admin:
        try:
            admin.route(topic)
        except NoSuchTopic as unknown:
            try:
                admin.route(TEMPLATE_TOPIC)
            except NoSuchTopic:
                raise unknown from None
            _, meant, nearest = str(unknown).partition("; did you mean ")
            return f", which was not there before{meant}{nearest}"
        except (NoRoute, NotConnected, RequestTimeout):
            return ""  # whoever sends is told, and waits as long as it may
    return ""
