"""The messages of RocketMQ's gRPC service, which its 5.x clients speak; need the extra `grpc`."""
