"""The messages of the protocol, each a class; `messages.pyi` says so to type checkers.

That file is made of `schema`: `python -m tests.unit.rocketmq.codec.grpc.grpc_stubs`.
"""

from sprocket.rocketmq.codec.grpc import descriptors

globals().update(descriptors.CLASSES)
