"""Reading queues at offsets that the caller keeps, from programs without an event loop."""

from typing import Unpack

from sprocket.rocketmq.client.blocking.portal import OpenedTwin, Where, calling
from sprocket.rocketmq.client.consumer import puller as _puller
from sprocket.rocketmq.client.network import ClientOptions


class BlockingPuller(OpenedTwin[_puller.Puller]):
    """Pulls from single queues; see `client.Puller`."""

    def __init__(
        self,
        where: Where,
        *,
        group: str = "sprocket-puller",
        patience_ms: int = 30_000,
        **options: Unpack[ClientOptions],
    ) -> None:
        super().__init__(
            "puller",
            where,
            lambda at: _puller.Puller(at, group=group, patience_ms=patience_ms, **options),
        )

    queues = calling(_puller.Puller.queues)
    min_offset = calling(_puller.Puller.min_offset)
    max_offset = calling(_puller.Puller.max_offset)
    offset_by_time = calling(_puller.Puller.offset_by_time)
    pull = calling(_puller.Puller.pull)
