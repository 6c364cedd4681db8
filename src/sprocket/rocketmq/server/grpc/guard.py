"""Stands before the handlers of calls: whoever has not signed or may not, never gets to one.

A call is signed over the time that it names, and nothing else of it:

    authorization: MQv2-HMAC-SHA1 Credential=NAME/…, SignedHeaders=x-mq-date-time, Signature=HEX

So whoever reads a call can sign others until the password changes: over networks that others can
read, encrypt. How old that time is does not count, since clients write their local one as if it
were UTC.

Source: RocketMQ `DefaultAuthenticationContextBuilder`, `AuthenticationPipeline`.
"""

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from typing import Final

from google.protobuf.message import Message

from sprocket.base.audit import Actor
from sprocket.rocketmq.broker.rights import KnownRights
from sprocket.rocketmq.codec.grpc.status import Code, Declined
from sprocket.rocketmq.errors import Refused
from sprocket.rocketmq.model.rights import AclUser, Requirement
from sprocket.rocketmq.server.grpc.calls import ClientCall
from sprocket.rocketmq.settings import RightsSettings

AUTHORIZATION: Final = "authorization"
DATE_TIME: Final = "x-mq-date-time"
NAME_CHARACTERS_MAX: Final = 128
"""So much of a name that somebody claims is in the log."""


class GrpcGuard:
    """Checks calls by the rights of their users.

    Args:
        rights: Users and what they may do.
        settings: What is checked; of rules, everything.

    Threads: event loop only.
    """

    def __init__(self, rights: KnownRights, settings: RightsSettings) -> None:
        self._rights = rights
        self._is_ruled = bool(settings.rules_path)
        self._is_authorizing = settings.authorization or self._is_ruled

    def check(self, call: ClientCall[Message, Message], needs: Iterable[Requirement]) -> None:
        """Return if a call may be handled.

        Raises:
            Declined: UNAUTHORIZED, nobody has signed it; FORBIDDEN, they may not.
        """
        said = signature_of(call.metadata.get(AUTHORIZATION, ""))
        name = user_of(said)
        if self._is_ruled and self._rights.is_trusted(name, call.peer.host):
            return
        try:
            user = self._authenticate(call, name, said)
        except Refused as refused:
            raise self._refused(call, name, Code.UNAUTHORIZED, refused) from refused
        if self._is_authorizing:
            try:
                self._rights.authorizer.check(user, needs, call.peer.host)
            except Refused as refused:
                raise self._refused(call, name, Code.FORBIDDEN, refused) from refused

    def _authenticate(
        self, call: ClientCall[Message, Message], name: str, said: Mapping[str, str]
    ) -> AclUser:
        user = self._rights.who(name)
        at = call.metadata.get(DATE_TIME, "")
        given = said.get("Signature", "").lower().encode("utf-8", "replace")
        if not at or not hmac.compare_digest(sign(user.password, at).encode(), given):
            raise Refused(self._rights.refusal, "check signature failed.")
        return user

    def _refused(
        self, call: ClientCall[Message, Message], name: str, code: Code, refused: Refused
    ) -> Declined:
        actor = Actor(through="grpc", peer=call.peer.told_address, user=name[:NAME_CHARACTERS_MAX])
        actor.was_refused(call.method_name, refused.remark)
        return Declined(code, refused.remark)


def sign(secret: str, at: str) -> str:
    """Return the signature over the time that a call names, in small hex digits."""
    return hmac.new(secret.encode("utf-8", "replace"), at.encode(), hashlib.sha1).hexdigest()


def signature_of(header: str) -> Mapping[str, str]:
    """Return what the header `authorization` says, by name; nothing if it is none of ours."""
    _, _, rest = header.partition(" ")
    pairs = (part.strip().partition("=") for part in rest.split(","))
    return {name: value for name, equals, value in pairs if equals}


def user_of(said: Mapping[str, str]) -> str:
    """Return the name of whoever has signed, as they say."""
    return said.get("Credential", "").partition("/")[0]
