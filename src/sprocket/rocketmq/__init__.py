"""The RocketMQ column: model, codec, store, broker, NameServer, server and client."""
