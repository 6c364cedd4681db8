"""One channel: every method that a client may send on it, given to the services of its vhost.

Invariants

1. Answers come in the order of the questions. What has to wait holds the connection until it is
   answered (`Replies.wait_for`).
2. A declaration is answered when it is durable; so is what takes one back.
3. Whatever a service refuses closes the channel, or, by its code, the connection.

Source: `rabbit_channel`; docs/formats/amqp.md.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TypeVar

from sprocket.base import log
from sprocket.base.audit import Actor
from sprocket.base.clock import Clock
from sprocket.base.errors import StoreError
from sprocket.rabbitmq.broker.access import Need
from sprocket.rabbitmq.broker.channels import REPLY_TO, BrokerChannel, Got
from sprocket.rabbitmq.broker.publishing import Publisher
from sprocket.rabbitmq.broker.queues import BrokerQueue
from sprocket.rabbitmq.broker.refusals import not_found
from sprocket.rabbitmq.broker.topology import Requester, check_consumption
from sprocket.rabbitmq.broker.vhost_broker import VhostBroker
from sprocket.rabbitmq.codec.amqp import AmqpError, ReplyCode, SentMessage, methods
from sprocket.rabbitmq.errors import RequestRefused
from sprocket.rabbitmq.model.binding import Binding, Destination, binding
from sprocket.rabbitmq.model.declared_queue import DeclaredQueue
from sprocket.rabbitmq.model.exchange import Exchange
from sprocket.rabbitmq.model.resource import ResourceKind, queue_resource
from sprocket.rabbitmq.server.handlers.channel_writer import ChannelWriter
from sprocket.rabbitmq.server.session import Replies

_PRIORITY = "x-priority"

_log = log.get_limited_logger(__name__)

T = TypeVar("T")
Failed = Callable[[StoreError], None]


class ChannelMethods:
    """See the head of the module; a `session.ChannelService`.

    Args:
        vhost: Where the client is.
        requester: The client, as the topology knows it.
        publisher: And to those who publish.
        replies: Takes what is said to it.
        understands: The capabilities that it has.
        clock: Of the machine.
        closed: Called once when the channel ends.
        actor: The client, as the log names it.

    Threads: event loop only.
    """

    def __init__(
        self,
        vhost: VhostBroker,
        requester: Requester,
        publisher: Publisher,
        replies: Replies,
        understands: frozenset[str],
        clock: Clock,
        closed: Callable[["ChannelMethods"], None],
        actor: Actor,
    ) -> None:
        self._vhost = vhost
        self._topology = vhost.topology
        self._requester = requester
        self._access = requester.access
        self._publisher = publisher
        self._replies = replies
        self._client = ChannelWriter(replies, understands, self._fail)
        self._busy_with: methods.AmqpMethod | None = None
        """What the channel has not answered yet."""
        self._ended: Callable[[], None] | None = None
        """Ends the wait for that."""
        self._rest: Iterator[None] | None = None
        """The rest of what its client has asked for, while others have their turn."""
        self._is_closed = False
        self._closed = closed
        self._actor = actor
        self._channel = BrokerChannel(
            self._client, vhost.turns, vhost.commits, vhost.replies, clock
        )

    @property
    def channel(self) -> BrokerChannel:
        """What its client has."""
        return self._channel

    @property
    def number(self) -> int:
        """What the client calls it."""
        return self._replies.number

    def check_overdue(self, timeout_seconds: float) -> None:
        """Close the channel if its client has had something for too long."""
        if self._channel.is_overdue(timeout_seconds):
            why = (
                f"delivery acknowledgement on channel {self._replies.number} timed out. Timeout "
                f"value used: {round(timeout_seconds * 1000)} ms. This timeout value can be "
                "configured, see consumers doc guide to learn more"
            )
            self._replies.fail(AmqpError(ReplyCode.PRECONDITION_FAILED, why))

    # Called by the session.

    def published(self, messages: Sequence[SentMessage]) -> None:
        """Take messages; if that is much work others have their turn meanwhile."""
        found = self._vhost.publishing.publications(messages, self._publisher, self._reply_key)
        try:
            self._do_in_turns(self._channel.publish_in_turns(found), messages[0].method)
        except RequestRefused as refusal:
            raise _as_amqp(refusal) from refusal

    def _do_in_turns(
        self,
        work: Iterator[None],
        method: methods.AmqpMethod,
        then: Callable[[], None] = lambda: None,
    ) -> None:
        """Do what a method asks for, and then call `then`; others may have their turn meanwhile."""
        try:
            for _ in work:
                self._rest = chain(work, _called(then))
                self._ask(method, lambda: self._vhost.turns.later(self._go_on))
                return
        finally:
            self._vhost.note_write()
        then()

    def _go_on(self) -> None:
        """Continue with what was cut short; once the channel is closed, that is its business."""
        work = self._rest
        if work is None:
            return
        try:
            for _ in work:
                self._vhost.turns.later(self._go_on)
                return
        except RequestRefused as refusal:
            self._fail(refusal)
        except Exception:
            _log.exception("a handler failed", channel=self.number)
            self._fail(RequestRefused(ReplyCode.INTERNAL_ERROR, ""))
        finally:
            self._vhost.note_write()
        self._rest = None
        self._answered()

    def acknowledged(self, tags: Sequence[int], *, is_multiple: bool) -> None:
        """Take acknowledgements."""
        try:
            if is_multiple:
                (tag,) = tags
                method = methods.BasicAck(tag, is_multiple)
                self._do_in_turns(self._channel.settle_in_turns(tag, is_ack=True), method)
            else:
                self._channel.ack(tags)
                self._vhost.note_write()
        except RequestRefused as refusal:
            raise _as_amqp(refusal) from refusal

    def called(self, method: methods.AmqpMethod) -> None:
        """Do what a method asks for."""
        try:
            self._do(method)
        except RequestRefused as refusal:
            raise _as_amqp(refusal) from refusal
        except StoreError as error:
            raise _failed(error) from error

    def close_in_turns(self) -> Iterator[None]:
        """Send nothing more; return what gives back what the channel holds."""
        self._is_closed = True
        self._rest = None
        work = self._channel.close_in_turns()
        self._answered()
        return self._give_back(work)

    def _give_back(self, work: Iterator[None]) -> Iterator[None]:
        yield from work
        self._vhost.count_closed(self._channel)
        self._vhost.note_write()
        self._closed(self)

    # Methods.

    def _do(self, method: methods.AmqpMethod) -> None:
        send, channel = self._replies.send, self._channel
        match method:
            case methods.BasicReject():
                channel.reject(method.delivery_tag, is_requeue=method.requeue)
                self._vhost.note_write()
            case methods.BasicNack():
                tag, is_requeue = method.delivery_tag, method.requeue
                if method.multiple:
                    self._do_in_turns(channel.settle_in_turns(tag, is_requeue=is_requeue), method)
                else:
                    channel.reject(tag, is_requeue=is_requeue)
                    self._vhost.note_write()
            case methods.BasicGet():
                self._get(method)
            case methods.BasicConsume():
                self._consume(method)
            case methods.BasicCancel():
                channel.cancel(method.consumer_tag)
                if not method.nowait:
                    send(methods.BasicCancelOk(method.consumer_tag))
            case methods.BasicQos():
                if method.prefetch_size:
                    raise _not_implemented(f"prefetch_size!=0 ({method.prefetch_size})")
                channel.qos(method.prefetch_count, is_global=method.is_global)
                send(methods.BasicQosOk())
            case methods.BasicRecover() | methods.BasicRecoverAsync():
                if not method.requeue:
                    raise _not_implemented("requeue=false")

                def recovered() -> None:
                    if isinstance(method, methods.BasicRecover):
                        send(methods.BasicRecoverOk())

                self._do_in_turns(channel.recover_in_turns(), method, recovered)
            case methods.ExchangeDeclare():
                self._declare_exchange(method)
            case methods.ExchangeDelete():
                self._delete_exchange(method)
                self._when_durable(method, None if method.nowait else methods.ExchangeDeleteOk())
            case methods.ExchangeBind():
                self._topology.bind(self._of_exchanges(method), self._requester)
                self._when_durable(method, None if method.nowait else methods.ExchangeBindOk())
            case methods.ExchangeUnbind():
                self._topology.unbind(self._of_exchanges(method), self._requester)
                self._when_durable(method, None if method.nowait else methods.ExchangeUnbindOk())
            case methods.QueueDeclare():
                self._declare_queue(method)
            case methods.QueueBind():
                self._topology.bind(self._of_queue(method), self._requester)
                self._when_durable(method, None if method.nowait else methods.QueueBindOk())
            case methods.QueueUnbind():
                self._topology.unbind(self._of_queue(method), self._requester)
                self._when_durable(method, methods.QueueUnbindOk())
            case methods.QueuePurge():
                self._purge(method)
            case methods.QueueDelete():
                self._delete_queue(method)
            case methods.ConfirmSelect():
                channel.confirm_select()
                if not method.nowait:
                    send(methods.ConfirmSelectOk())
            case methods.TxSelect():
                channel.tx_select()
                send(methods.TxSelectOk())
            case methods.TxCommit():
                self._commit(method)
            case methods.TxRollback():
                channel.tx_rollback()
                send(methods.TxRollbackOk())
            case methods.ChannelFlow():
                if not method.active:
                    raise _not_implemented("active=false")
                send(methods.ChannelFlowOk(True))
            case methods.ChannelFlowOk():
                return  # nobody has asked
            case methods.AccessRequest():
                send(methods.AccessRequestOk())
            case methods.BasicCancelOk():
                return  # cancellations are sent without waiting for this
            case _:
                raise AmqpError(ReplyCode.COMMAND_INVALID, "unimplemented method")

    # Exchanges.

    def _declare_exchange(self, method: methods.ExchangeDeclare) -> None:
        if method.passive:
            self._topology.check_exchange(method.exchange)
        elif self._is_put_off(method, Destination(ResourceKind.EXCHANGE, method.exchange)):
            return
        else:
            wanted = Exchange(
                vhost=self._vhost.name,
                name=method.exchange,
                type=method.type,
                is_durable=method.durable,
                is_auto_delete=method.auto_delete,
                is_internal=method.internal,
                arguments=method.arguments,
            )
            if self._topology.declare_exchange(wanted, self._requester):
                self._did("declare exchange", method.exchange, type=method.type)
        self._when_durable(method, None if method.nowait else methods.ExchangeDeclareOk())

    def _delete_exchange(self, method: methods.ExchangeDelete) -> None:
        was_there = self._topology.find_exchange(method.exchange) is not None
        self._topology.delete_exchange(method.exchange, self._requester, if_unused=method.if_unused)
        if was_there:
            self._did("delete exchange", method.exchange)

    def _did(self, event: str, name: str, **what: object) -> None:
        self._actor.did(event, vhost=self._vhost.name, name=name, **what)

    def _of_exchanges(self, method: methods.ExchangeBind | methods.ExchangeUnbind) -> Binding:
        return binding(
            self._vhost.name,
            method.source,
            Destination(ResourceKind.EXCHANGE, method.destination),
            method.routing_key,
            method.arguments,
        )

    # Queues.

    def _declare_queue(self, method: methods.QueueDeclare) -> None:
        if method.queue.startswith(REPLY_TO):
            self._look_at_replies(method)
            return
        if method.passive:
            self._look_at_queue(method)
            return
        if self._is_put_off(method, Destination(ResourceKind.QUEUE, method.queue)):
            return
        wanted = DeclaredQueue(
            vhost=self._vhost.name,
            name=method.queue,
            is_durable=method.durable,
            is_auto_delete=method.auto_delete,
            owner=self._requester.connection if method.exclusive else None,
            arguments=method.arguments,
        )
        declared = self._vhost.declare(wanted, self._requester)
        name = self._channel.last_queue = declared.queue.name
        if declared.is_new:
            self._did("declare queue", name)
        answer = None
        if not method.nowait:
            depth = self._vhost.queue(name, self._requester).depth()
            answer = methods.QueueDeclareOk(name, depth.ready, depth.consumers)
        self._when_durable(method, answer)

    def _is_put_off(
        self, method: methods.QueueDeclare | methods.ExchangeDeclare, what: Destination
    ) -> bool:
        """Declare something later, if its predecessor of the same name still goes."""
        if not self._vhost.is_going(what):
            return False

        def begin(ended: Callable[[], None]) -> None:
            def go_on() -> None:
                try:
                    if not self._is_closed:
                        self.called(method)
                except AmqpError as error:
                    self._replies.fail(_about(error, method))
                ended()

            self._vhost.when_gone(what, go_on)

        self._replies.wait_for(begin)
        return True

    def _look_at_queue(self, method: methods.QueueDeclare) -> None:
        """Say how much is in a queue; an empty name is that of no queue here."""
        found = self._topology.check_queue(method.queue, self._requester)
        queue = self._vhost.queue(found.name, self._requester)
        queue.touch()
        self._channel.last_queue = found.name
        if not method.nowait:
            depth = queue.depth()
            self._replies.send(methods.QueueDeclareOk(found.name, depth.ready, depth.consumers))

    def _look_at_replies(self, method: methods.QueueDeclare) -> None:
        """Say whether somebody waits for replies, passively or not: no queue comes of it."""
        name = method.queue
        if name != REPLY_TO and not self._vhost.replies.is_open(name):
            raise not_found(queue_resource(name, self._vhost.name))
        if not method.nowait:
            self._replies.send(methods.QueueDeclareOk(name, 0, 1))

    def _of_queue(self, method: methods.QueueBind | methods.QueueUnbind) -> Binding:
        key = method.routing_key
        name = self._named(method.queue)
        if not method.queue and not key:
            key = name
        return binding(
            self._vhost.name,
            method.exchange,
            Destination(ResourceKind.QUEUE, name),
            key,
            method.arguments,
        )

    def _purge(self, method: methods.QueuePurge) -> None:
        queue = self._readable(self._named(method.queue))

        def done(count: int) -> None:
            self._did("purge queue", queue.label, messages=count)
            if not method.nowait:
                self._replies.send(methods.QueuePurgeOk(count))

        self._wait(method, queue.purge, done)
        self._vhost.note_write()

    def _delete_queue(self, method: methods.QueueDelete) -> None:
        name = self._named(method.queue)
        was_there = self._topology.find_queue(name) is not None

        def delete(done: Callable[[int], None], failed: Failed) -> None:
            self._vhost.delete(
                name,
                self._requester,
                done,
                failed,
                if_unused=method.if_unused,
                if_empty=method.if_empty,
            )

        def done(count: int) -> None:
            if was_there:
                self._did("delete queue", name, messages=count)
            if not method.nowait:
                self._replies.send(methods.QueueDeleteOk(count))
            self._client.release_cancellations()

        self._client.hold_cancellations()
        try:
            self._wait(method, delete, done)
        except (AmqpError, RequestRefused, StoreError):
            self._client.release_cancellations()
            raise

    def _named(self, name: str) -> str:
        """Return the name of a queue; an empty one stands for what was declared last."""
        if name:
            return name
        if not self._channel.last_queue:
            raise AmqpError(ReplyCode.NOT_FOUND, "no previously declared queue")
        return self._channel.last_queue

    def _readable(self, name: str) -> BrokerQueue:
        """Return a queue that the client may read."""
        self._access.check(Need.READ, queue_resource(name, self._vhost.name))
        return self._vhost.queue(name, self._requester)

    # Messages.

    def _reply_key(self) -> str:
        return self._channel.reply_key

    def _consume(self, method: methods.BasicConsume) -> None:
        if method.queue == REPLY_TO:
            tag = self._channel.consume_replies(method.consumer_tag, no_ack=method.no_ack)
            if not method.nowait:
                self._replies.send(methods.BasicConsumeOk(tag))
            return
        name = self._named(method.queue)
        queue = self._readable(name)
        check_consumption(self._topology.queue(name, self._requester), method.arguments)
        given = method.arguments.get(_PRIORITY)
        priority = given.value if given is not None and isinstance(given.value, int) else 0
        tag = self._channel.consume(
            queue,
            method.consumer_tag,
            no_ack=method.no_ack,
            is_exclusive=method.exclusive,
            priority=priority,
            arguments=method.arguments,
        )
        # Deliveries begin at the end of this turn.
        if not method.nowait:
            self._replies.send(methods.BasicConsumeOk(tag))

    def _get(self, method: methods.BasicGet) -> None:
        queue = self._readable(self._named(method.queue))
        self._ask(method, lambda: self._channel.get(queue, self._got, no_ack=method.no_ack))
        self._vhost.note_write()

    def _commit(self, method: methods.TxCommit) -> None:
        self._ask(method, lambda: self._channel.tx_commit(self._committed))

    # Waiting.

    def _when_durable(self, method: methods.AmqpMethod, answer: methods.AmqpMethod | None) -> None:
        """Answer when all that was declared is durable."""

        def start(done: Callable[[None], None], failed: Failed) -> None:
            def durable(error: StoreError | None) -> None:
                if error is None:
                    done(None)
                else:
                    failed(error)

            self._vhost.declarations.when_durable(durable)

        def done(_: None) -> None:
            if answer is not None:
                self._replies.send(answer)

        self._wait(method, start, done)

    def _wait(
        self,
        method: methods.AmqpMethod,
        start: Callable[[Callable[[T], None], Failed], None],
        done: Callable[[T], None],
    ) -> None:
        """Begin what ends with one of two calls, perhaps later, and do nothing else until then."""

        def begin(ended: Callable[[], None]) -> None:
            def succeeded(result: T) -> None:
                done(result)
                ended()

            def failed(error: StoreError) -> None:
                self._replies.fail(_about(_failed(error), method))
                ended()

            start(succeeded, failed)

        self._replies.wait_for(begin)

    def _ask(self, method: methods.AmqpMethod, start: Callable[[], None]) -> None:
        """Begin what the channel answers, perhaps later, and do nothing else until then.

        A channel that is closed does not answer.
        """

        def begin(ended: Callable[[], None]) -> None:
            self._busy_with, self._ended = method, ended
            start()

        self._replies.wait_for(begin)

    def _answered(self) -> None:
        ended, self._busy_with, self._ended = self._ended, None, None
        if ended is not None:
            ended()

    def _got(self, found: Got | None) -> None:
        self._client.got(found)
        self._answered()

    def _committed(self) -> None:
        self._replies.send(methods.TxCommitOk())
        self._answered()

    def _fail(self, refusal: RequestRefused) -> None:
        """Close the channel, as something went wrong that it waited for."""
        error = _as_amqp(refusal)
        self._replies.fail(error if self._busy_with is None else _about(error, self._busy_with))
        self._answered()


def _as_amqp(refusal: RequestRefused) -> AmqpError:
    return AmqpError(ReplyCode(refusal.code), refusal.remark)


def _not_implemented(why: str) -> AmqpError:
    return AmqpError(ReplyCode.NOT_IMPLEMENTED, why)


def _failed(error: StoreError) -> AmqpError:
    """Return what a client is told about a disk that fails."""
    _log.error("a client's request failed", why=str(error))
    return AmqpError(ReplyCode.INTERNAL_ERROR, str(error))


def _called(then: Callable[[], None]) -> Iterator[None]:
    """Return a last step, which is a call."""
    then()
    yield from ()


def _about(error: AmqpError, method: methods.AmqpMethod) -> AmqpError:
    return AmqpError(error.code, error.explanation, methods.layout_of(method).id)
