"""What policies may say.

Every fault of a policy is reported at once, in RabbitMQ's words and order.

Source: `rabbit_policy`, `rabbit_policies:validate_policy`, `rabbit_parameter_validation`,
`rabbit_mirror_queue_misc:validate_policy`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from sprocket.rabbitmq.broker.patterns import Pattern, PatternInvalid
from sprocket.rabbitmq.broker.refusals import precondition_failed
from sprocket.rabbitmq.codec import erlang_text
from sprocket.rabbitmq.errors import RequestRefused
from sprocket.rabbitmq.model.policy import ALL, EXCHANGES, QUEUES, Policy
from sprocket.rabbitmq.model.vhost import CONNECTIONS_MAX, QUEUES_MAX

STREAM_SEGMENT_BYTES_MAX: Final = 3_000_000_000
_MAX_AGE = re.compile(r"[1-9][0-9]{0,9}[YMDhms]")

Rule = tuple[Callable[[object], bool], str]
"""Whether a value is right, and what a wrong one is said not to be."""


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_integer(value: object, least: int = 0, most: int | None = None) -> bool:
    if not isinstance(value, int) or isinstance(value, bool):
        return False
    return value >= least and (most is None or value <= most)


def _one_of(*values: object) -> Callable[[object], bool]:
    return lambda value: not isinstance(value, bool) and value in values


_RULES: dict[str, Rule] = {
    "alternate-exchange": (_is_text, "alternate exchange name"),
    "dead-letter-exchange": (_is_text, "dead letter exchange name"),
    "dead-letter-routing-key": (_is_text, "dead letter routing key"),
    "dead-letter-strategy": (_one_of("at-most-once", "at-least-once"), "dead letter strategy"),
    "message-ttl": (_is_integer, "message TTL"),
    "expires": (lambda value: _is_integer(value, 1), "queue expiry"),
    "max-length": (_is_integer, "maximum length"),
    "max-length-bytes": (_is_integer, "maximum length in bytes"),
    "max-in-memory-length": (_is_integer, "maximum memory in bytes"),
    "max-in-memory-bytes": (_is_integer, "maximum memory in bytes"),
    "queue-mode": (_one_of("default", "lazy"), "queue-mode value"),
    "queue-version": (_one_of(1, 2), "queue-version value"),
    "overflow": (
        _one_of("drop-head", "reject-publish", "reject-publish-dlx"),
        "overflow value",
    ),
    "delivery-limit": (_is_integer, "delivery limit"),
    "max-age": (
        lambda value: isinstance(value, str) and _MAX_AGE.fullmatch(value) is not None,
        "max age",
    ),
    "stream-max-segment-size-bytes": (
        lambda value: _is_integer(value, 0, STREAM_SEGMENT_BYTES_MAX),
        "segment size",
    ),
    "queue-leader-locator": (
        _one_of("client-local", "balanced", "random", "least-leaders"),
        "queue leader locator value",
    ),
    "initial-cluster-size": (_is_integer, "cluster size"),
    # What clusters make of queues: taken, so that definitions of one can be imported; without use.
    "ha-mode": (_one_of("all", "exactly", "nodes"), "ha-mode value"),
    "ha-params": (lambda _: True, "ha-params value"),
    "ha-sync-mode": (_one_of("manual", "automatic"), "ha-sync-mode value"),
    "ha-sync-batch-size": (lambda value: _is_integer(value, 1), "ha-sync-batch-size value"),
    "ha-promote-on-shutdown": (_one_of("always", "when-synced"), "ha-promote-on-shutdown value"),
    "ha-promote-on-failure": (_one_of("always", "when-synced"), "ha-promote-on-failure value"),
    "queue-master-locator": (_is_text, "queue master locator"),
}

OPERATOR_KEYS: Final = frozenset(
    {
        "delivery-limit",
        "expires",
        "max-in-memory-bytes",
        "max-in-memory-length",
        "max-length",
        "max-length-bytes",
        "message-ttl",
    }
)
"""What an operator's policy may say; of two values the smaller one counts."""


def check(policy: Policy) -> Pattern:
    """Return the pattern of a policy that may be.

    Raises:
        RequestRefused: PRECONDITION_FAILED.
    """
    faults = [*_definition_faults(policy)]
    if policy.apply_to not in (ALL, QUEUES, EXCHANGES):
        faults.append(
            f"apply-to '{policy.apply_to}' unrecognised; should be 'queues', 'exchanges' or 'all'"
        )
    pattern = None
    try:
        pattern = Pattern(policy.pattern)
    except PatternInvalid as error:
        faults.append(f"pattern should be regular expression but is invalid: {error}")
    if pattern is None or faults:
        raise _failed(faults)
    return pattern


def check_vhost_limits(limits: Mapping[str, object]) -> Mapping[str, int]:
    """Return limits of a virtual host that may be.

    Raises:
        RequestRefused: PRECONDITION_FAILED.
    """
    known = {name: value for name, value in limits.items() if name in (CONNECTIONS_MAX, QUEUES_MAX)}
    unknown = {name: value for name, value in limits.items() if name not in known}
    faults = []
    if unknown:
        faults.append(f"Unrecognised terms {erlang_text.json_text(unknown)} in limits")
    found: dict[str, int] = {}
    for name, value in known.items():
        if isinstance(value, int) and not isinstance(value, bool):
            found[name] = value
        else:
            faults.append(f"{name} should be a number, actually was {erlang_text.json_text(value)}")
    if faults:
        raise _failed(faults)
    return found


def _definition_faults(policy: Policy) -> Iterator[str]:
    if not policy.definition:
        yield "no policy provided"
        return
    unknown = {}
    for name, value in policy.definition.items():
        rule = _RULES.get(name)
        if rule is None or (policy.is_operator and name not in OPERATOR_KEYS):
            unknown[name] = value
            continue
        is_right, what = rule
        if not is_right(value):
            yield f"{erlang_text.json_text(value)} is not a valid {what}"
            return
    if unknown:
        yield f"{erlang_text.json_text(unknown)} are not recognised policy settings"


def _failed(faults: list[str]) -> RequestRefused:
    return precondition_failed("\n".join(["Validation failed", "", *faults, ""]))
