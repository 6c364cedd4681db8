"""gRPC over HTTP/2, the server's side: a codec without I/O that `runtime.driver` carries."""

from sprocket.runtime.grpc.connection import (
    Call,
    Called,
    CallLeft,
    CallReady,
    Event,
    GrpcConnection,
    MessageReceived,
    MessagesEnded,
    Method,
)
from sprocket.runtime.grpc.status import CallFailed, StatusCode

__all__ = [
    "Call",
    "CallFailed",
    "CallLeft",
    "CallReady",
    "Called",
    "Event",
    "GrpcConnection",
    "MessageReceived",
    "MessagesEnded",
    "Method",
    "StatusCode",
]
