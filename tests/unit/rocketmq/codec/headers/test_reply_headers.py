"""The header of a pushed reply is read as brokers write it."""

from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.command import request
from sprocket.rocketmq.codec.headers import PushReply
from sprocket.rocketmq.remoting import Connection


def test_a_pushed_reply_has_the_fields_of_a_send_and_three_more() -> None:
    """Under these names on the wire."""
    header = PushReply(
        producer_group="g",
        topic="c_REPLY_TOPIC",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=1,
        sys_flag=2,
        born_timestamp=3,
        flag=4,
        properties="a\x01b\x02",
        born_host="10.0.0.1:5",
        store_host="10.0.0.2:6",
        store_timestamp=7,
    )
    sent = b"".join(request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, 1, header))
    (command,) = Connection().receive(sent)
    assert command.ext_map() == {
        "producerGroup": "g",
        "topic": "c_REPLY_TOPIC",
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "1",
        "sysFlag": "2",
        "bornTimestamp": "3",
        "flag": "4",
        "properties": "a\x01b\x02",
        "reconsumeTimes": "0",
        "unitMode": "false",
        "bornHost": "10.0.0.1:5",
        "storeHost": "10.0.0.2:6",
        "storeTimestamp": "7",
    }
    assert command.header(PushReply) == header
