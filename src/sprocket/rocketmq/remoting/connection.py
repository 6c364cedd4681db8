"""One side of a connection, without I/O: bytes in, commands out.

Invariants:

1. However the bytes are split, the same commands come out in the same order.
2. Any bytes give commands or a WireError, and after a WireError nothing more comes out.
3. It holds no more than one frame and what one `receive` brought.
4. Bodies are copies: they stay valid, and hold nothing but themselves.

Source: `NettyDecoder`; docs/formats/remoting-frame.md.
"""

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import frame
from sprocket.rocketmq.codec.command import Command, decode
from sprocket.rocketmq.codec.frame import (
    FIRST_BYTES_MIN,
    FRAME_BYTES_MAX,
    HEADER_BYTES_MAX,
    LENGTH_BYTES,
    LENGTH_MIN,
    PREFIX,
    PREFIX_BYTES,
    Buffer,
)


class Connection:
    """Turns the bytes of a peer into commands, and numbers the requests of this side.

    Args:
        frame_bytes_max: The largest frame to accept, its length field included.
        opaque: The number before that of the first request of this side.
    """

    def __init__(self, *, frame_bytes_max: int = FRAME_BYTES_MAX, opaque: int = -1) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._pending = bytearray()
        self._wanted_bytes = FIRST_BYTES_MIN
        self._opaque = opaque
        self.broken: WireError | None = None
        """Why nothing more can be read, once the peer broke the protocol."""

    @property
    def pending_bytes(self) -> int:
        """What is held of a frame that is not whole yet."""
        return len(self._pending)

    def next_opaque(self) -> int:
        """Return the number for the next request of this side: 0, 1 and so on, 2³¹−1, 0."""
        self._opaque = (self._opaque + 1) & 0x7FFFFFFF
        return self._opaque

    def receive(self, data: Buffer) -> list[Command]:
        """Take bytes as they came and return every command that is now whole.

        Commands before the break of the protocol are still returned; look at `broken` after them.

        Raises:
            WireError: The peer broke the protocol and no command came before that, or it had been
                broken before this call.
        """
        if self.broken is not None:
            raise self.broken
        pending = self._pending
        if len(pending) + len(data) < self._wanted_bytes:
            pending += data
            return []
        if pending:
            whole = b"".join((pending, data))
            pending.clear()
        else:
            whole = data if isinstance(data, bytes) else bytes(data)
        commands: list[Command] = []
        position, end, length_max = 0, len(whole), self._frame_bytes_max - LENGTH_BYTES
        try:
            while end - position >= PREFIX_BYTES:
                length, mark = PREFIX.unpack_from(whole, position)
                header_bytes = mark & HEADER_BYTES_MAX
                if not LENGTH_MIN <= length <= length_max or header_bytes > length - LENGTH_BYTES:
                    raise frame.bad_prefix(length, mark, self._frame_bytes_max)
                final = position + LENGTH_BYTES + length
                if final > end:
                    break
                header_at = position + PREFIX_BYTES
                body_at = header_at + header_bytes
                header, body = whole[header_at:body_at], whole[body_at:final]
                commands.append(decode(mark >> 24, header, body, self.next_opaque))
                position = final
            self._wanted_bytes = LENGTH_BYTES
            if position < end:
                self._keep(memoryview(whole)[position:])
        except WireError as error:
            self.broken = error
            if not commands:
                raise
        return commands

    def _keep(self, rest: memoryview) -> None:
        """Keep the beginning of a frame; look at it again when as much is there as it tells of."""
        self._pending += rest
        if len(rest) >= LENGTH_BYTES:
            length = frame.checked_length(rest, self._frame_bytes_max)
            self._wanted_bytes = PREFIX_BYTES if len(rest) < PREFIX_BYTES else LENGTH_BYTES + length
