"""The load of pulls reads a queue to its end and begins anew, and takes no error for an answer."""

import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from bench.load import LoadError
from bench.pull_load import PullLoad
from tests.interop import link
from tests.waits import LONG_SECONDS

END = 70


@contextmanager
def broker(*, pull_code: int = 0) -> Iterator[tuple[str, list[int]]]:
    """Serve one queue of 70 messages; yield the address and the offsets that were asked for."""
    offsets: list[int] = []

    def answer(frame: bytes) -> bytes:
        size = int.from_bytes(frame[1:4], "big")
        request = json.loads(frame[4 : 4 + size])
        code, ext, body = 0, {"offset": str(END)}, b""
        if request["code"] == link.PULL_MESSAGE:
            offset = int(request["extFields"]["queueOffset"])
            offsets.append(offset)
            count = min(32, END - offset)
            code, ext = pull_code, {"nextBeginOffset": str(offset + count)}
            body = bytes(1100 * count)
        said = {"code": code, "extFields": ext, "opaque": request["opaque"]}
        header = json.dumps(said, separators=(",", ":")).encode()
        length = struct.pack(">II", 4 + len(header) + len(body), len(header))
        return length + header + body

    def serve(connection: socket.socket) -> None:
        with connection:
            data = b""
            while more := connection.recv(1 << 18):
                data += more
                while len(data) >= 4 and len(data) >= 4 + int.from_bytes(data[:4], "big"):
                    end = 4 + int.from_bytes(data[:4], "big")
                    connection.sendall(answer(data[4:end]))
                    data = data[end:]

    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            for _ in range(2):
                serve(server.accept()[0])

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}", offsets
        thread.join(LONG_SECONDS)


def test_a_backlog_is_read_again_and_again() -> None:
    """The next pull begins where the answer says, behind the end at 0; each message counts once."""
    with broker() as (address, offsets), PullLoad(address, "T", queues=1) as load:
        runs = [load.run(seconds=0)]
        while len(offsets) < 4:  # a busy machine answers once or twice in that time
            runs.append(load.run(seconds=0))
        assert offsets[:4] == [0, 32, 64, 0]
        assert sum(run.messages for run in runs) == sum(min(32, END - one) for one in offsets)
        assert sum(len(run.latencies) for run in runs) == len(offsets)


def test_an_error_is_no_answer() -> None:
    """An answer of another code than 0 to a pull ends the load."""
    with (
        broker(pull_code=19) as (address, _),
        PullLoad(address, "T", queues=1) as load,
        pytest.raises(LoadError),
    ):
        load.run(seconds=0)
