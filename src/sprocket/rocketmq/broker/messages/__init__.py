"""From a send request to its answer.

`Sender` checks a request in RocketMQ's order and makes the record; `GroupCommit` has the records
of all who send written and synced together; `PendingAcks` tells them. A message that comes back
from a consumer is a message, too (`retry`).
"""
