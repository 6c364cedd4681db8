"""gRPC over HTTP/2, the server's side: a codec without I/O that `runtime.driver` carries."""

from sprocket.runtime.grpc.connection import (
    CallBegun,
    CallLeft,
    CallReady,
    Event,
    GrpcCall,
    GrpcConnection,
    MessageReceived,
    MessagesEnded,
    RpcMethod,
)
from sprocket.runtime.grpc.status import CallFailed, StatusCode

__all__ = [
    "CallBegun",
    "CallFailed",
    "CallLeft",
    "CallReady",
    "Event",
    "GrpcCall",
    "GrpcConnection",
    "MessageReceived",
    "MessagesEnded",
    "RpcMethod",
    "StatusCode",
]
