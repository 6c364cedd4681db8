"""Headers of what administrators ask of a broker; see `headers` for the rules of these classes.

Requests whose only field is a topic use `headers.TopicOnly`.
"""

from sprocket.rocketmq.codec.headers.ext import Header, Int32, Int64


class GroupOnly(Header, frozen=True, kw_only=True, gc=False):
    """QUERY_TOPICS_BY_CONSUMER 343 and GET_SUBSCRIPTIONGROUP_CONFIG 352."""

    group: str


class GroupAndTopic(Header, frozen=True, kw_only=True, gc=False):
    """QUERY_CONSUME_TIME_SPAN 303 and QUERY_SUBSCRIPTION_BY_CONSUMER 345."""

    group: str
    topic: str


class TimeSpans(Header, frozen=True, kw_only=True, gc=False):
    """QUERY_CONSUME_TIME_SPAN 303; without a group nothing is consumed."""

    group: str = ""
    topic: str


class DeleteGroup(Header, frozen=True, kw_only=True, gc=False, rename="camel"):
    """DELETE_SUBSCRIPTIONGROUP 207."""

    group_name: str
    clean_offset: bool = False
    """Forget what the group has committed as well."""


class ConsumerConnections(Header, frozen=True, kw_only=True, gc=False, rename="camel"):
    """GET_CONSUMER_CONNECTION_LIST 203."""

    consumer_group: str


class ProducerConnections(Header, frozen=True, kw_only=True, gc=False, rename="camel"):
    """GET_PRODUCER_CONNECTION_LIST 204."""

    producer_group: str


class GetConsumeStats(Header, frozen=True, kw_only=True, gc=False, rename="camel"):
    """GET_CONSUME_STATS 208: of all topics, of one, or of several joined by `;`."""

    consumer_group: str
    topic: str = ""
    topic_list: str = ""


class GetBrokerConsumeStats(Header, frozen=True, kw_only=True, gc=False, rename="camel"):
    """GET_BROKER_CONSUME_STATS 317."""

    is_order: bool = False
    """Only topics whose order is global; false leaves nothing out."""


class QueryConsumeQueue(Header, frozen=True, kw_only=True, gc=False, rename="camel"):
    """QUERY_CONSUME_QUEUE 321: units of a queue from one on; a number that is absent is 0."""

    topic: str
    queue_id: Int32 = 0
    index: Int64 = 0
    count: Int32 = 0
    consumer_group: str | None = None


class ViewStats(Header, frozen=True, kw_only=True, gc=False, rename="camel"):
    """VIEW_BROKER_STATS_DATA 315."""

    stats_name: str
    stats_key: str


class BrokerConfigAnswer(Header, frozen=True, kw_only=True, gc=False):
    """The answer of GET_BROKER_CONFIG 26."""

    version: str
    """A data version as JSON."""
