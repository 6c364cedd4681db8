"""The storage engine, a synchronous library that needs no broker.

It needs numpy, which a client does not: many records are handled at once, as columns.
"""

from importlib.util import find_spec

from sprocket.rocketmq.errors import NumpyMissing

if find_spec("numpy") is None:
    raise NumpyMissing(
        "a broker, and who reads a store's folder, needs numpy; "
        "install the extra: pip install 'sprocketmq[broker]'"
    )
