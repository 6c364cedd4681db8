"""Stands before the handlers: a request that is not signed or not allowed never gets to one.

The rows of the table are wrapped once, at the start; without rights there is no guard, and requests
cost what they did before.

A request is authenticated by its signature and then authorized by what it needs. Each refusal is
NO_PERMISSION with RocketMQ's sentence, and a line of the audit log; neither ever has a secret or a
signature. A code on the white list of authentication may come without a signature. Such a request
is anonymous, whatever user it names, and is refused unless the code is on the white list of
authorization too.

Under the rules of RocketMQ 4 a refusal is SYSTEM_ERROR, as there, and requests from trusted
addresses need no signature and may do everything.

Permissions to send to a topic or pull from it are cached until rights change: each further request
of the kind costs one look-up and the signature (docs/decisions/0038-fast-ways.md). Its signature is
then compared with the header as it was decoded, so that what was signed is what will be done; if it
does not fit, it is compared with all fields as they came.

Source: RocketMQ `AuthenticationPipeline`, `AuthorizationPipeline`, `DefaultAuthenticationHandler`.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from sprocket.base.audit import Actor
from sprocket.base.errors import WireError
from sprocket.rocketmq.broker.rights import Authorizer, KnownRights
from sprocket.rocketmq.codec.codes import request_name
from sprocket.rocketmq.codec.command import HOT_HEADERS, Command
from sprocket.rocketmq.codec.ext import Header, text_joiner
from sprocket.rocketmq.codec.headers import PullMessage, SendMessageV2
from sprocket.rocketmq.codec.signature import ACCESS_KEY, SIGNATURE, SigningKey
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.rights import AclUser, Action, ResourceType, need
from sprocket.rocketmq.server.dispatch import CODES, Answer, Handler, Row, unsupported
from sprocket.rocketmq.server.rights.needs import NEEDS, NOTHING_KNOWN, Needs
from sprocket.rocketmq.settings import RightsSettings
from sprocket.runtime.driver import Peer

NOBODY = "Authorization failed. Please verify your access rights and try again."
"""What is said to a request that nobody signed, where it may come so, but needs a right."""

PERMITS_MAX: Final = 10_000
"""Permits of one code that are remembered; when there are more, all are forgotten. One takes some
500 bytes."""

Permits = dict[Hashable, SigningKey]
"""Signing keys of permitted users, by user name, topic (and group) and client address."""


@dataclass(frozen=True, slots=True)
class _Signer:
    """Who signed a request, where it came from, and what decides what they may do."""

    user: AclUser
    _address: str
    _authorizer: Authorizer | None

    def check_topic(self, topic: str, action: Action) -> None:
        """Return if they may do something to a topic. Raises Refused."""
        if self._authorizer is not None:
            found = need(ResourceType.TOPIC, topic, (action,))
            self._authorizer.check(self.user, [found], self._address)


class Guard:
    """Checks requests by the rights of their users.

    Args:
        rights: Users and what they may do.
        settings: What is checked; of rules, everything.
        cluster: The broker's.
    Threads: event loop only.
    """

    def __init__(self, rights: KnownRights, settings: RightsSettings, cluster: str) -> None:
        self._rights = rights
        self._settings = settings
        self._cluster = cluster
        self._keys: dict[str, SigningKey] = {}
        self._permits: list[Permits] = []
        rights.when_changed(self._forget)

    def guarded(self, rows: Iterable[Row]) -> list[Row]:
        """Return rows that let through what is signed and allowed."""
        return [msgspec.structs.replace(row, handle=self._guarded(row)) for row in rows]

    def unknown(self, peer: Peer, command: Command) -> Answer:
        """Answer a request that no handler is for; what there is not is told to users only."""
        try:
            if not self._is_trusted(peer, command):
                self._authenticate(command, may_be_unsigned=False)
        except Refused as refused:
            return self._refuse(peer, command, refused)
        return unsupported(command)

    def _guarded(self, row: Row) -> Handler:
        settings, go_on, code = self._settings, row.handle, row.code
        is_authorizing = settings.authorization or bool(settings.rules_path)
        may_be_unsigned = code in settings.unsigned_codes
        is_authorized = is_authorizing and code not in settings.unchecked_codes
        needed = NEEDS.get(code, NOTHING_KNOWN)
        is_hot = HOT_HEADERS.get(code) in (SendMessageV2, PullMessage)
        permits: Permits = {}

        def handle(peer: Peer, command: Command) -> Answer | None:
            if self._is_trusted(peer, command):
                return go_on(peer, command)
            try:
                user = self._authenticate(command, may_be_unsigned=may_be_unsigned)
                if is_hot:
                    command.header(row.kind)  # whose error is the handler's, as in RocketMQ
                if is_authorized:
                    if user is None:
                        raise Refused(Refusal.NO_PERMISSION, NOBODY)
                    self._authorize(peer, command, user, needed, row.kind)
            except Refused as refused:
                return self._refuse(peer, command, refused)
            if user is None:
                return go_on(peer, command)
            if is_hot:
                self._permit(permits, peer, command, user)
            else:
                decides = self._rights.authorizer if is_authorized else None
                command.signer = _Signer(user, peer.host, decides)
            return go_on(peer, command)

        if not is_hot:
            return handle
        self._permits.append(permits)
        return (_sending if row.kind is SendMessageV2 else _pulling)(permits, go_on, handle)

    def _is_trusted(self, peer: Peer, command: Command) -> bool:
        """Tell whether a request need not be signed and may do everything, by where it is from."""
        if not self._settings.rules_path:
            return False
        return self._rights.is_trusted(command.ext_map().get(ACCESS_KEY, ""), peer.host)

    def _authenticate(self, command: Command, *, may_be_unsigned: bool) -> AclUser | None:
        """Return who signed a request, None for nobody.

        Raises:
            Refused: Nobody did who may.
        """
        try:
            ext = command.ext_map()
            user = self._rights.who(ext.get(ACCESS_KEY, ""))
            key = self._key_of(user)
            if key.is_right(ext.get(SIGNATURE), ext, command.body, command.version):
                return user
            raise Refused(Refusal.NO_PERMISSION, "check signature failed.")
        except Refused:
            if may_be_unsigned:
                return None
            raise

    def _key_of(self, user: AclUser) -> SigningKey:
        """Return what a user signs with."""
        key = self._keys.get(user.name)
        if key is None:
            key = self._keys[user.name] = SigningKey(user.password)
        return key

    def _authorize(
        self, peer: Peer, command: Command, user: AclUser, needed: Needs, kind: type[Header]
    ) -> None:
        """Return if a user may do what a request asks for. Raises Refused."""
        try:
            found = [*needed.of(command.header(kind), command.body, self._cluster)]
        except WireError as error:
            raise Refused(
                Refusal.NO_PERMISSION, f"parse authorization context error. {error}"
            ) from error
        self._rights.authorizer.check(user, found, peer.host)

    def _permit(self, permits: Permits, peer: Peer, command: Command, user: AclUser) -> None:
        """Remember that a request was let through, for those that are like it."""
        header = command.ext
        if isinstance(header, SendMessageV2):
            asked: Hashable = (header.access_key, header.topic, peer.host)
        elif isinstance(header, PullMessage):
            asked = (header.access_key, header.topic, peer.host, header.consumer_group)
        else:  # a header in the binary form, which is not read at once
            return
        if len(permits) >= PERMITS_MAX:
            permits.clear()
        permits[asked] = self._key_of(user)

    def _forget(self) -> None:
        """Take notice that rights are others now."""
        self._keys.clear()
        for permits in self._permits:
            permits.clear()

    def _refuse(self, peer: Peer, command: Command, refused: Refused) -> Answer:
        name = command.ext_map().get(ACCESS_KEY, "")
        actor = Actor(through="remoting", peer=peer.told_address, user=name[:NAME_CHARACTERS_MAX])
        actor.was_refused(request_name(command.code) or str(command.code), refused.remark)
        return Answer(CODES[self._rights.refusal], None, refused.remark)


def _sending(permits: Permits, go_on: Handler, otherwise: Handler) -> Handler:
    """Return what lets sends through that have a permit; others are handled otherwise."""
    joined = text_joiner(SendMessageV2, SIGNATURE)

    def handle(peer: Peer, command: Command) -> Answer | None:
        header = command.ext
        if isinstance(header, SendMessageV2):
            key = permits.get((header.access_key, header.topic, peer.host))
            if key is not None and key.is_right_of(header.signature, joined(header), command.body):
                return go_on(peer, command)
        return otherwise(peer, command)

    return handle


def _pulling(permits: Permits, go_on: Handler, otherwise: Handler) -> Handler:
    """Return the same for pulls."""
    joined = text_joiner(PullMessage, SIGNATURE)

    def handle(peer: Peer, command: Command) -> Answer | None:
        header = command.ext
        if isinstance(header, PullMessage):
            asked = (header.access_key, header.topic, peer.host, header.consumer_group)
            key = permits.get(asked)
            if key is not None and key.is_right_of(header.signature, joined(header), command.body):
                return go_on(peer, command)
        return otherwise(peer, command)

    return handle


NAME_CHARACTERS_MAX = 128
"""So much of a name that somebody claims is in the log."""
