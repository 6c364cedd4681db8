"""What a client is told to go by, in answer to the settings that it says it has.

All that it said is given back, with the broker's values in place of its own.

Source: RocketMQ `GrpcClientSettingsManager`, `CustomizedRetryPolicy`, `ExponentialRetryPolicy`.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from sprocket.rocketmq.codec.grpc.messages import (
    CustomizedBackoff,
    ExponentialBackoff,
    Metric,
    RetryPolicy,
    Settings,
)
from sprocket.rocketmq.codec.grpc.times import duration
from sprocket.rocketmq.model.group import SubscriptionGroup

RECEIVE_BATCH: Final = 32
"""How many messages a consumer asks for at once."""
PRODUCER_ATTEMPTS: Final = 3
_PRODUCER_BACKOFF: Final = (10, 1_000, 2.0)
_CONSUMER_BACKOFF: Final = (5_000, 7_200_000, 2.0)
"""First wait and longest wait in ms, and by how much one is longer than the one before."""
_CONSUMER_WAITS_SECONDS: Final = (
    *(1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1_200, 1_800, 3_600, 7_200),
)
_NODE_LANGUAGE: Final = "HTTP"
"""How the SDK for Node calls itself; it does not know waits in a list, and does not wait then."""


class ConsumerTerms(Struct, frozen=True):
    """What a consumer goes by beside the settings of its group.

    Attributes:
        poll_ms: How long it lets a request for messages wait.
        language: Its own, as it says.
    """

    poll_ms: int
    language: str


def of_producer(said: Settings, body_bytes_max: int) -> Settings:
    """Return the settings of a producer."""
    made = Settings()
    made.CopyFrom(said)
    backoff = _exponential(*_PRODUCER_BACKOFF)
    made.backoff_policy.CopyFrom(
        RetryPolicy(max_attempts=PRODUCER_ATTEMPTS, exponential_backoff=backoff)
    )
    made.publishing.max_body_size = body_bytes_max
    made.publishing.validate_message_type = True
    made.metric.CopyFrom(Metric(on=False))
    return made


def of_consumer(said: Settings, group: SubscriptionGroup, terms: ConsumerTerms) -> Settings:
    """Return the settings of a consumer."""
    made = Settings()
    made.CopyFrom(said)
    made.subscription.fifo = group.consume_message_orderly
    made.subscription.receive_batch_size = RECEIVE_BATCH
    made.subscription.long_polling_timeout.CopyFrom(duration(terms.poll_ms))
    made.backoff_policy.CopyFrom(_backoff(group, terms.language))
    made.metric.CopyFrom(Metric(on=False))
    return made


def attempts_max(group: SubscriptionGroup) -> int:
    """Return how often a message is given to a group before it is a dead letter."""
    return group.retry_times_max + 1


def retry_ms(group: SubscriptionGroup, attempt: int) -> int:
    """Return how long after a failed attempt a message comes again.

    Args:
        group: Whose policy counts.
        attempt: Which attempt failed, from 1.
    """
    waits = _customized_waits_ms(group)
    if group.retry_policy.get("type") == "EXPONENTIAL":
        first_ms, longest_ms, factor = _exponential_terms(group)
        power = min(max(attempt - 1, 0), 32)
        return min(longest_ms, int(first_ms * factor**power))
    return waits[min(max(attempt, 1), len(waits)) - 1]


def _backoff(group: SubscriptionGroup, language: str) -> RetryPolicy:
    is_exponential = group.retry_policy.get("type") == "EXPONENTIAL"
    if is_exponential or language == _NODE_LANGUAGE:
        terms = _exponential_terms(group)
        return RetryPolicy(
            max_attempts=attempts_max(group), exponential_backoff=_exponential(*terms)
        )
    waits = [duration(ms) for ms in _customized_waits_ms(group)]
    return RetryPolicy(
        max_attempts=attempts_max(group), customized_backoff=CustomizedBackoff(next=waits)
    )


def _exponential(first_ms: int, longest_ms: int, factor: float) -> ExponentialBackoff:
    return ExponentialBackoff(
        initial=duration(first_ms), max=duration(longest_ms), multiplier=factor
    )


def _exponential_terms(group: SubscriptionGroup) -> tuple[int, int, float]:
    found = group.retry_policy.get("exponentialRetryPolicy")
    said = found if isinstance(found, Mapping) else {}
    first_ms, longest_ms, factor = _CONSUMER_BACKOFF
    return (
        int(_number(said.get("initial"), first_ms)),
        int(_number(said.get("max"), longest_ms)),
        _number(said.get("multiplier"), factor),
    )


def _customized_waits_ms(group: SubscriptionGroup) -> list[int]:
    """Return the waits of a group's list; RocketMQ's where it has none, as clients need some."""
    found = group.retry_policy.get("customizedRetryPolicy")
    waits = found.get("next") if isinstance(found, Mapping) else None
    if isinstance(waits, list | tuple):
        kept = [int(one) for one in waits if isinstance(one, int) and one >= 0]
        if kept:
            return kept
    return [seconds * 1000 for seconds in _CONSUMER_WAITS_SECONDS]


def _number(value: object, otherwise: float) -> float:
    return float(value) if isinstance(value, int | float) and value > 0 else otherwise
