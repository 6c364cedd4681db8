"""Which running cluster a job works with, and how it is reached."""

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

from sprocket.spark.jobs.job import JobOption

if TYPE_CHECKING:
    from sprocket.rocketmq.client import ClientSettings


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JobCluster:
    """A cluster, by its NameServer; none if that is empty."""

    name_server: Annotated[
        str, JobOption("A running cluster.", "HOST:PORT", also="--nameserver -n")
    ] = ""
    tls: Annotated[bool, JobOption("Encrypt every connection to it.", also="--tls")] = False
    tls_trust: Annotated[
        str, JobOption("PEM file of the authorities that its servers are signed by.", "FILE")
    ] = ""
    tls_cert: Annotated[str, JobOption("PEM file of the client certificate.", "FILE")] = ""
    tls_key: Annotated[str, JobOption("PEM file of its key.", "FILE")] = ""
    tls_key_password: Annotated[str, JobOption("Password of the key.", "TEXT")] = ""
    access_key: Annotated[str, JobOption("Sign every request as this user.", "NAME")] = ""
    secret_key: Annotated[
        str, JobOption("The password of that user; better SPROCKET_SECRET_KEY or a file.", "TEXT")
    ] = ""
    credentials: Annotated[
        str, JobOption("A file with both, such as RocketMQ's conf/tools.yml.", "FILE")
    ] = ""

    @property
    def options(self) -> dict[str, str]:
        """The same as options of the format `rocketmq`."""
        given = {
            "nameServer": self.name_server,
            "tls": "true" if self.tls else "",
            "tlsTrustPath": self.tls_trust,
            "tlsCertPath": self.tls_cert,
            "tlsKeyPath": self.tls_key,
            "tlsKeyPassword": self.tls_key_password,
            "accessKey": self.access_key,
            "secretKey": self.secret_key,
            "credentialsPath": self.credentials,
        }
        return {name: text for name, text in given.items() if text}

    @property
    def client(self) -> "ClientSettings":
        """How a client of it makes connections. Raises SettingsError: a file cannot be used."""
        from sprocket.rocketmq.client import ClientSettings, credentials_if_given, tls_if_asked

        context = tls_if_asked(
            self.tls,
            trust_path=self.tls_trust,
            cert_path=self.tls_cert,
            key_path=self.tls_key,
            key_password=self.tls_key_password,
        )
        credentials = credentials_if_given(self.access_key, self.secret_key, path=self.credentials)
        return ClientSettings(tls=context, credentials=credentials)

    def topics(self) -> frozenset[str]:
        """Return the names of all topics, the brokers' own among them.

        Raises:
            SettingsError: A file cannot be used.
            ClientError: No NameServer answered.
        """
        from sprocket.rocketmq.client.blocking import Admin

        with Admin(self.name_server, client=self.client) as admin:
            return frozenset(admin.topic.names())

    def held(self, topics: Iterable[str]) -> list[dict[str, Any]]:
        """Return a row for each of some topics that has messages: `topic`, `messages`.

        Raises:
            SettingsError, ClientError: As `topics`; or a topic is not there.
        """
        from sprocket.rocketmq.client.blocking import Admin

        with Admin(self.name_server, client=self.client) as admin:
            counts = {
                topic: sum(
                    queue.max_offset - queue.min_offset
                    for queue in admin.topic.stats(topic).queues.values()
                )
                for topic in topics
            }
        return [{"topic": topic, "messages": count} for topic, count in counts.items() if count]


NO_CLUSTER = JobCluster()
"""The value that a job has if no cluster is given."""
