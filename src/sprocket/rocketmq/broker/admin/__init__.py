"""What operators and upkeep ask of a broker: deletions, cleaning.

`removal` deletes topics and groups, `upkeep` makes derived files durable and deletes what is old.
"""

from sprocket.rocketmq.broker.admin.folding import fold
from sprocket.rocketmq.broker.admin.removal import Removal
from sprocket.rocketmq.broker.admin.upkeep import Upkeep

__all__ = ["Removal", "Upkeep", "fold"]
