"""Whether the broker is healthy, for probes that ask by gRPC, such as those of Kubernetes.

Asked about no service, or about the messaging service, it is healthy while it stores messages.

Source: gRPC Health Checking Protocol.
"""

from collections.abc import Callable
from typing import Final

from sprocket.rocketmq.codec.grpc.schema import SERVICE
from sprocket.rocketmq.codec.grpc.standard_messages import HealthCheckRequest, HealthCheckResponse
from sprocket.rocketmq.server.grpc.calls import ClientCall
from sprocket.runtime.grpc import StatusCode

SERVING, NOT_SERVING, SERVICE_UNKNOWN = 1, 2, 3
WATCHES_MAX: Final = 1_000
LOOK_SECONDS: Final = 1.0

HealthCall = ClientCall[HealthCheckRequest, HealthCheckResponse]


class HealthHandlers:
    """Answers probes.

    Args:
        refusal: Gives why nothing is stored now; None if all is well.

    Threads: event loop only.
    """

    def __init__(self, refusal: Callable[[], str | None]) -> None:
        self._refusal = refusal
        self._watches: dict[HealthCall, int] = {}

    def check(self, call: HealthCall) -> None:
        """Answer how it is now."""
        status = self._status(call.request.service)
        if status == SERVICE_UNKNOWN:
            call.end(StatusCode.NOT_FOUND, "unknown service")
        else:
            call.answer(HealthCheckResponse(status=status))

    def watch(self, call: HealthCall) -> None:
        """Answer how it is now, and each time that this changes."""
        if len(self._watches) >= WATCHES_MAX:
            call.end(StatusCode.RESOURCE_EXHAUSTED, f"{WATCHES_MAX} watch already")
            return
        self._watches[call] = status = self._status(call.request.service)
        call.on_left = lambda: self._left(call)
        call.give(HealthCheckResponse(status=status))

    def look(self) -> None:
        """Tell those who watch what has changed; every second."""
        for call, before in [*self._watches.items()]:
            status = self._status(call.request.service)
            if status != before:
                self._watches[call] = status
                call.give(HealthCheckResponse(status=status))

    def end_all(self) -> None:
        """Tell those who watch that the broker stops."""
        for call in [*self._watches]:
            call.give(HealthCheckResponse(status=NOT_SERVING))
            call.end()
        self._watches.clear()

    def _left(self, call: HealthCall) -> None:
        self._watches.pop(call, None)

    def _status(self, service: str) -> int:
        if service not in ("", SERVICE):
            return SERVICE_UNKNOWN
        return SERVING if self._refusal() is None else NOT_SERVING
