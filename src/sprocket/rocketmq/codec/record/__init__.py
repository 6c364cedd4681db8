"""The stored message: the one place that knows how its bytes lie.

`record` encodes and decodes one, `record_scan` walks over many, `batch` and `inner_batch` know
messages that travel together; `properties` and `ids` are parts of them. Source: RocketMQ
`MessageExtEncoder`, `MessageDecoder`.
"""
