"""A connection that a broker talks back to: raw frames in both directions, without threads.

`Client` adds to `Link` that a request may be sent now and its answer read later, and that what the
broker asks of its own accord is kept, to be looked at and answered in the test's own time.
"""

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from tests.interop import link
from tests.interop.link import Answer, Link

HEARTBEAT = 34
RESPONSE_FLAG = 1
ONEWAY_FLAG = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """A request of the broker's."""

    code: int
    opaque: int
    is_oneway: bool
    ext: Mapping[str, str]
    body: bytes


class Client(Link):
    """A client that the broker may ask something."""

    def __init__(self, address: str, *, timeout: float = 30.0) -> None:
        """Connect; see `Link`."""
        super().__init__(address, timeout=timeout)
        self.pushed: deque[Pushed] = deque()
        self._answers: dict[int, Answer] = {}

    def begin(self, code: int, ext: Mapping[str, object], body: bytes = b"") -> int:
        """Send a request and return its number, for `end`."""
        self._opaque += 1
        self.socket.sendall(link.encode(code, self._opaque, ext, body))
        return self._opaque

    def end(self, opaque: int) -> Answer:
        """Return the answer to the request with this number."""
        while opaque not in self._answers:
            self._take()
        return self._answers.pop(opaque)

    def ask(self, code: int, ext: Mapping[str, object], body: bytes = b"") -> Answer:
        """Send one request and return its answer; what the broker asks meanwhile is kept."""
        return self.end(self.begin(code, ext, body))

    def next_pushed(self, code: int) -> Pushed:
        """Return the broker's next request of this code; others before it are dropped."""
        while True:
            while not self.pushed:
                self._take()
            found = self.pushed.popleft()
            if found.code == code:
                return found

    def respond(self, request: Pushed, code: int = 0, body: bytes = b"") -> None:
        """Answer a request of the broker's."""
        frame = link.encode(code, request.opaque, {}, body, flag=RESPONSE_FLAG)
        self.socket.sendall(frame)

    def beat(self, client_id: str, group: str, *topics: str, **more: object) -> Answer:
        """Send a heartbeat as a consumer of `group`, and as a producer of `pg`."""
        subscriptions = [{"topic": one, "subString": "*", "subVersion": 1} for one in topics]
        body = {
            "clientID": client_id,
            "consumerDataSet": [
                {
                    "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
                    "consumeType": "CONSUME_PASSIVELY",
                    "groupName": group,
                    "messageModel": more.pop("model", "CLUSTERING"),
                    "subscriptionDataSet": subscriptions,
                    "unitMode": False,
                }
            ],
            "producerDataSet": [{"groupName": "pg"}],
        }
        return self.call(HEARTBEAT, {}, json.dumps(body | more).encode())

    def _take(self) -> None:
        """Read one frame and keep it."""
        frame = self._frame()
        size = int.from_bytes(frame[:4], "big") & 0xFFFFFF
        header = json.loads(frame[4 : 4 + size])
        if header["flag"] & RESPONSE_FLAG:
            self._answers[header["opaque"]] = link.decode(frame)
            return
        self.pushed.append(
            Pushed(
                code=header["code"],
                opaque=header["opaque"],
                is_oneway=bool(header["flag"] & ONEWAY_FLAG),
                ext=header.get("extFields") or {},
                body=frame[4 + size :],
            )
        )
