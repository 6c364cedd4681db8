"""Values of the RocketMQ column; no bytes, no disk, no network."""
