"""The messages of health and reflection, each a class; `standard_messages.pyi` has their types.

That file is made of `standard_schema`: `python -m tests.unit.rocketmq.codec.grpc.grpc_stubs`.
"""

from sprocket.rocketmq.codec.grpc import descriptors

globals().update(descriptors.STANDARD_CLASSES)
