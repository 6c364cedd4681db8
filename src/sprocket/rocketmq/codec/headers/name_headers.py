"""Headers of the NameServer's requests beyond routes and registrations; see `codec.headers`.

Source: `org.apache.rocketmq.remoting.protocol.header.namesrv`, 5.3.3.
"""

from sprocket.rocketmq.codec.headers.ext import Header, Int32, Int64


class KeyValue(Header, frozen=True, kw_only=True, gc=False):
    """PUT_KV_CONFIG 100."""

    namespace: str
    key: str
    value: str | None = None


class Key(Header, frozen=True, kw_only=True, gc=False):
    """GET_KV_CONFIG 101, DELETE_KV_CONFIG 102. Without a name nothing is found."""

    namespace: str | None = None
    key: str | None = None


class ValueAnswer(Header, frozen=True, kw_only=True, gc=False):
    """The answer of 101."""

    value: str


class Namespace(Header, frozen=True, kw_only=True, gc=False):
    """GET_KVLIST_BY_NAMESPACE 219."""

    namespace: str | None = None


class BrokerHeartbeat(Header, frozen=True, kw_only=True, gc=False, rename="camel"):
    """BROKER_HEARTBEAT 904; what only controllers read is left out."""

    cluster_name: str
    broker_addr: str


class QueryDataVersion(Header, frozen=True, kw_only=True, gc=False, rename="camel"):
    """QUERY_DATA_VERSION 322; the name and number that come along are not looked at."""

    broker_name: str = ""
    broker_addr: str
    cluster_name: str
    broker_id: Int64 | None = None


class QueryDataVersionAnswer(Header, frozen=True, kw_only=True, gc=False):
    """Whether the broker must register."""

    changed: bool


class GetMembers(Header, frozen=True, kw_only=True, gc=False, rename="camel"):
    """GET_BROKER_MEMBER_GROUP 901."""

    cluster_name: str | None = None
    broker_name: str | None = None


class BrokerNameOnly(Header, frozen=True, kw_only=True, gc=False, rename="camel"):
    """WIPE_WRITE_PERM_OF_BROKER 205, ADD_WRITE_PERM_OF_BROKER 327."""

    broker_name: str = ""


class WipeAnswer(Header, frozen=True, kw_only=True, gc=False, rename="camel"):
    """The answer of 205."""

    wipe_topic_count: Int32


class AddAnswer(Header, frozen=True, kw_only=True, gc=False, rename="camel"):
    """The answer of 327."""

    add_topic_count: Int32


class DeleteTopicInNames(Header, frozen=True, kw_only=True, gc=False, rename="camel"):
    """DELETE_TOPIC_IN_NAMESRV 216."""

    topic: str = ""
    cluster_name: str | None = None


class RegisterTopic(Header, frozen=True, kw_only=True, gc=False):
    """REGISTER_TOPIC_IN_NAMESRV 217; without a topic nothing is registered."""

    topic: str | None = None


class ClusterOnly(Header, frozen=True, kw_only=True, gc=False):
    """GET_TOPICS_BY_CLUSTER 224."""

    cluster: str = ""
