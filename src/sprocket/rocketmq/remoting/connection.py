"""One side of a connection, without I/O: bytes in, commands out.

Invariants:

1. However the bytes are split, the same commands come out in the same order.
2. Any bytes give commands or a WireError, and after a WireError nothing more comes out.
3. It holds no more than one frame and what one `receive` brought.
4. Bodies are copies: they stay valid, and hold nothing but themselves.
5. However many pieces a frame comes in, each byte of its body is copied at most twice: when what
   the piece it came with has beside it is cut off, or the piece is small; and when it is whole.

Source: `NettyDecoder`; docs/formats/remoting-frame.md.
"""

from collections.abc import Callable

from sprocket.base.errors import WireError
from sprocket.base.units import KIB
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

_PIECE_BYTES_MIN = 4 * KIB
"""A piece that is smaller is put behind the one before: kept by itself, a byte would take 40."""


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
        self._begun: _Begun | None = None
        self._opaque = opaque
        self.broken: WireError | None = None
        """Why nothing more can be read, once the peer broke the protocol."""

    @property
    def pending_bytes(self) -> int:
        """What is held of a frame that is not whole yet."""
        return len(self._pending) + (self._begun.held_bytes if self._begun else 0)

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
        commands: list[Command] = []
        begun, pending, position = self._begun, self._pending, 0
        if begun is not None:
            position = begun.take(data)
            if begun.missing_bytes:
                return commands
        elif len(pending) + len(data) < self._wanted_bytes:
            pending += data
            return commands
        elif pending:
            data = b"".join((pending, data))
            pending.clear()
        whole = data if isinstance(data, bytes) else bytes(data)
        end, length_max = len(whole), self._frame_bytes_max - LENGTH_BYTES
        try:
            if begun is not None:
                self._begun = None
                commands.append(begun.command(self.next_opaque))
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
        held = len(rest)
        if held >= PREFIX_BYTES:
            length, mark = PREFIX.unpack_from(rest)
            body_at = PREFIX_BYTES + (mark & HEADER_BYTES_MAX)
            if held >= body_at:
                self._begun = _Begun(
                    mark >> 24, bytes(rest[PREFIX_BYTES:body_at]), LENGTH_BYTES + length - body_at
                )
                self._begun.take(rest[body_at:])
                return
            self._wanted_bytes = body_at
        elif held >= LENGTH_BYTES:
            frame.checked_length(rest, self._frame_bytes_max)
            self._wanted_bytes = PREFIX_BYTES
        self._pending += rest


class _Begun:
    """A frame whose header is there, while its body comes in pieces.

    Args:
        serialize: The frame's type byte.
        header: The header's bytes.
        missing_bytes: How many the body has.
    """

    def __init__(self, serialize: int, header: bytes, missing_bytes: int) -> None:
        self._serialize = serialize
        self._header = header
        self._pieces: list[bytes | bytearray] = []
        self.held_bytes = 0
        """What is there of the body."""
        self.missing_bytes = missing_bytes
        """What is not."""

    def take(self, data: Buffer) -> int:
        """Take what of `data` belongs to the body; return how many bytes that is."""
        size = min(len(data), self.missing_bytes)
        if size < _PIECE_BYTES_MIN:
            if not self._pieces or type(self._pieces[-1]) is bytes:
                self._pieces.append(bytearray())
            self._pieces[-1] += data[:size]
        elif type(data) is bytes:
            self._pieces.append(data[:size])  # no copy if that is all of it
        else:
            self._pieces.append(bytes(data[:size]))
        self.held_bytes += size
        self.missing_bytes -= size
        return size

    def command(self, next_opaque: Callable[[], int]) -> Command:
        """Return the whole of it; as `decode`."""
        return decode(self._serialize, self._header, b"".join(self._pieces), next_opaque)
