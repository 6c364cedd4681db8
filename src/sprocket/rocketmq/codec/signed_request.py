"""Requests of somebody who signs them."""

from sprocket.rocketmq.codec import command
from sprocket.rocketmq.codec.ext import Header, codec
from sprocket.rocketmq.codec.frame import JSON, Buffer
from sprocket.rocketmq.codec.signature import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE, SigningKey
from sprocket.rocketmq.model.rights import SessionCredentials


class SignedRequests:
    """Makes the frames of requests; to be called as `command.request` is.

    Args:
        credentials: Whose requests they are.
    """

    def __init__(self, credentials: SessionCredentials) -> None:
        self._key = SigningKey(credentials.secret_key)
        self._names = {ACCESS_KEY: credentials.access_key}
        if credentials.security_token is not None:
            self._names[SECURITY_TOKEN] = credentials.security_token

    def __call__(
        self,
        code: int,
        opaque: int,
        header: Header | None = None,
        body: Buffer = b"",
        *,
        oneway: bool = False,
        serialize: int = JSON,
    ) -> list[Buffer]:
        """Return the buffers of one request's frame; see `command.request`."""
        ext = {} if header is None else codec(header.__class__).write(header)
        ext |= self._names
        ext[SIGNATURE] = self._key.sign(ext, body)
        return command.request(
            code, opaque, None, body, oneway=oneway, serialize=serialize, extra=ext
        )
