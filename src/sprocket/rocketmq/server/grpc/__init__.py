"""What clients of RocketMQ 5 ask over gRPC, and how it is answered by the broker's services.

`service` makes all that a port needs; `dispatch` finds what handles a call. The handlers are those
of remoting's siblings: none of them calls one of the others. Needs the extra `grpc`.
"""

from sprocket.rocketmq.server.grpc.service import GrpcPlace, GrpcService

__all__ = ["GrpcPlace", "GrpcService"]
