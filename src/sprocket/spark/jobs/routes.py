r"""Routes: to which topic a message of RabbitMQ goes, and with which tag; a line for each.

    queue=orders\..* routingKey=*.eu.# topic=orders-eu tag={2}

The first route that fits decides. `vhost`, `queue` and `exchange` are regular expressions of the
whole name; `routingKey` is a pattern like that of a binding to a topic exchange: `*` stands for one
word, `#` for any number. What a route does not name, any message has. In `topic` and `tag` stand
`{vhost}`, `{queue}`, `{exchange}` and `{routingKey}` for what the message has, and `{1}`, `{2}` and
so on for the words of its routing key. A line is divided at blanks; single or double quotes keep
them, and a backslash is one.

Spark applies them, so a route becomes expressions of its SQL.
"""

import dataclasses
import re
import shlex
import string
from collections.abc import Sequence
from functools import reduce
from typing import Any

from sprocket.base.errors import SettingsError
from sprocket.base.nearest import hint
from sprocket.rocketmq.model.internal import NAME

_NAMES = ("vhost", "queue", "exchange")
_KEY = "routingKey"
_TOPIC, _TAG = "topic", "tag"
_WORDS = (*_NAMES, _KEY, _TOPIC, _TAG)
_NOT_IN_TOPICS = "[^a-zA-Z0-9_-]"
"""What becomes `_` in a part of a topic's name; `%` and `|` have a meaning for RocketMQ."""
ROUTES_MAX = 1000
"""Every message is compared with each, until one fits."""


@dataclasses.dataclass(frozen=True, slots=True)
class Route:
    """A route.

    Args:
        text: As somebody wrote it.
        patterns: Regular expressions of the whole names, by what they are compared with.
        routing_key: The pattern of routing keys; None for any.
        topic: What the topic's name is made of.
        tag: What the tag is made of.
    """

    text: str
    patterns: dict[str, str]
    routing_key: str | None
    topic: "Template"
    tag: "Template"

    def fits(self) -> Any:
        """Return an expression that says whether a message takes this route."""
        from pyspark.sql import functions as F

        found = [
            F.col(name).rlike(f"\\A(?:{pattern})\\z") for name, pattern in self.patterns.items()
        ]
        if self.routing_key is not None:
            key = routing_key()
            words = F.when(key == "", "").otherwise(F.concat(key, F.lit(".")))
            found.append(words.rlike(f"\\A{binding_expression(self.routing_key)}\\z"))
        return reduce(lambda one, other: one & other, found, F.expr("true"))


@dataclasses.dataclass(frozen=True, slots=True)
class Template:
    """A text with names in it that each message has a value for.

    Args:
        pieces: Texts, and the names after each: empty for none.
    """

    pieces: tuple[tuple[str, str], ...]

    @property
    def names(self) -> frozenset[str]:
        """The names in it."""
        return frozenset(name for _, name in self.pieces if name)

    def value(self, *, for_topic: bool) -> Any:
        """Return an expression of the text; for a topic with lawful characters alone."""
        from pyspark.sql import functions as F

        parts = []
        for text, name in self.pieces:
            parts.append(F.lit(text))
            if name:
                value = _value(name)
                parts.append(F.regexp_replace(value, _NOT_IN_TOPICS, "_") if for_topic else value)
        return F.concat(*parts) if parts else F.lit("")


def read_routes(lines: Sequence[str]) -> list[Route]:
    """Read routes; `DEFAULT` comes after them. Lines that are empty or begin with `#` are none.

    Raises:
        SettingsError: One is none; the text says which and why.
    """
    found = [_read(line.strip()) for line in lines if line.strip() and line.strip()[0] != "#"]
    if len(found) > ROUTES_MAX:
        raise SettingsError(f"{len(found)} routes; {ROUTES_MAX} at most")
    return [*found, DEFAULT]


def target(routes: Sequence[Route]) -> Any:
    """Return an expression of where a message goes: a struct of `route`, `topic` and `tag`.

    `route` is the number of the route, and `tag` is null if it is empty.
    """
    from pyspark.sql import functions as F

    *others, last = [
        (
            route.fits(),
            F.struct(
                F.lit(number).alias("route"),
                route.topic.value(for_topic=True).alias(_TOPIC),
                F.nullif(route.tag.value(for_topic=False), F.lit("")).alias(_TAG),
            ),
        )
        for number, route in enumerate(routes)
    ]
    found: Any = F
    for fits, place in others:
        found = found.when(fits, place)
    return found.otherwise(last[1]) if others else last[1]


def routing_key() -> Any:
    """Return an expression of the key that a message was published with."""
    from pyspark.sql import functions as F

    return F.coalesce(F.try_element_at("routingKeys", F.lit(1)), F.lit(""))


def binding_expression(pattern: str) -> str:
    """Return a binding's pattern as a regular expression of a key with a point after each word."""
    if not pattern:
        return ""
    meant = {"*": r"[^.]*\.", "#": r"(?:[^.]*\.)*"}
    words = pattern.split(".")
    return "".join(meant.get(word) or f"{re.escape(word)}\\." for word in words)


def _read(line: str) -> Route:
    try:
        words = _divided(line)
    except ValueError as error:
        raise SettingsError(f"route {line!r}: {error}") from error
    given: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if name not in _WORDS or not equals:
            meant = hint(name, _WORDS) or f"; there are {', '.join(_WORDS)}"
            raise SettingsError(f"route {line!r}: expected NAME=VALUE, found {word!r}{meant}")
        if name in given:
            raise SettingsError(f"route {line!r} names {name} twice")
        given[name] = value
    if _TOPIC not in given and _TAG not in given:
        raise SettingsError(f"route {line!r} leads nowhere: expected topic=… or tag=…")
    patterns = {name: given[name] for name in _NAMES if name in given}
    for name, pattern in patterns.items():
        try:
            re.compile(pattern)
        except re.error as error:
            raise SettingsError(
                f"route {line!r}: {name} must be a regular expression: {error}"
            ) from error
    topic = _template(line, given.get(_TOPIC, "{queue}"))
    for text, _ in topic.pieces:
        if text and not NAME.fullmatch(text):
            raise SettingsError(
                f"route {line!r}: expected letters, digits or %|_- in topic, found {text!r}"
            )
    if not topic.pieces:
        raise SettingsError(f"route {line!r} has an empty topic")
    return Route(
        line, patterns, given.get(_KEY), topic, _template(line, given.get(_TAG, f"{{{_KEY}}}"))
    )


def _divided(line: str) -> list[str]:
    words = shlex.shlex(line, posix=True)
    words.whitespace_split = True
    words.commenters = words.escape = ""
    return list(words)


def _template(line: str, text: str) -> Template:
    known = (*_NAMES, _KEY)
    pieces = []
    try:
        for literal, name, spec, conversion in string.Formatter().parse(text):
            if name is not None:
                if name not in known and not re.fullmatch("[1-9][0-9]{0,2}", name):
                    meant = hint(name, known) or f"; there are {', '.join(known)} and 1, 2, …"
                    raise SettingsError(f"route {line!r}: no message has {{{name}}}{meant}")
                if spec or conversion:
                    raise SettingsError(f"route {line!r}: expected {{{name}}} alone in the braces")
            pieces.append((literal, name or ""))
    except ValueError as error:
        raise SettingsError(f"route {line!r}: {text!r}: {error}") from error
    return Template(tuple(pieces))


def _value(name: str) -> Any:
    from pyspark.sql import functions as F

    if name.isdigit():
        return F.split_part(routing_key(), F.lit("."), F.lit(int(name)))
    return routing_key() if name == _KEY else F.coalesce(F.col(name), F.lit(""))


DEFAULT = _read("topic={queue} tag={routingKey}")
"""Takes what no other route does: a topic for each queue, the routing key as the tag."""
