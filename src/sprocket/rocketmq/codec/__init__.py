"""Every layout of bytes of the RocketMQ column, on the wire and in the log."""
