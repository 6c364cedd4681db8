"""What the answer to a send holds besides the position of the stored message."""

from sprocket.rocketmq.codec.record import properties, recall_handle
from sprocket.rocketmq.model.internal import HALF_TOPIC, RETRY_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC
from sprocket.rocketmq.model.message import NewRecord, ProducedMessage


def real_queue_id(record: NewRecord, message: ProducedMessage) -> int:
    """Return the queue in which a record that waits will be, or that its sender named."""
    if message.queue_id >= 0:
        return message.queue_id
    found = properties.find(record.properties, properties.REAL_QID)
    if found is None or record.topic not in (SCHEDULE_TOPIC, HALF_TOPIC, TIMER_TOPIC):
        return 0
    return int(found)


def recall_handle_of(record: NewRecord, message: ProducedMessage, broker_name: str) -> str:
    """Return by what a message can be taken back, empty if it does not wait for a time."""
    if record.topic != TIMER_TOPIC or message.topic.startswith(RETRY_PREFIX):
        return ""
    due = properties.find(record.properties, properties.TIMER_OUT_MS)
    if due is None:
        return ""
    return recall_handle.encode(
        recall_handle.RecallHandle(message.topic, broker_name, int(due), record.unique_key)
    )
