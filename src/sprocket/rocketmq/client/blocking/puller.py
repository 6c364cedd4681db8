"""Reading queues at offsets that the caller keeps, from programs without an event loop."""

from typing import Unpack

from sprocket.rocketmq.client.blocking.portal import OpenedTwin, Where, calling
from sprocket.rocketmq.client.consumer import Puller
from sprocket.rocketmq.client.network import ClientOptions


class BlockingPuller(OpenedTwin[Puller]):
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
            lambda at: Puller(at, group=group, patience_ms=patience_ms, **options),
        )

    queues = calling(Puller.queues)
    min_offset = calling(Puller.min_offset)
    max_offset = calling(Puller.max_offset)
    offset_by_time = calling(Puller.offset_by_time)
    pull = calling(Puller.pull)
