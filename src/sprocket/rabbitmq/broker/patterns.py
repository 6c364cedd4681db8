"""Regular expressions that users and operators write: permissions, policies.

They are looked for in the octets of a name, as RabbitMQ does with PCRE. One that takes too long
fits nothing, so that nobody can hold the broker with an expression.
"""

from functools import lru_cache
from time import thread_time
from typing import Final

import regex

from sprocket.base import log
from sprocket.rabbitmq.model.names import name_bytes

SECONDS_MAX: Final = 0.02
"""How long one expression may look at one name, of this thread's processor time; normally it takes
a microsecond."""
BYTES_MAX: Final = 4096

_log = log.get_limited_logger(__name__)


class PatternInvalid(ValueError):
    """A text is not a regular expression; the error's text says why, as Erlang prints it."""


class Pattern:
    """An expression.

    Args:
        text: As it was written.

    Raises:
        PatternInvalid: It is not an expression.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._compiled = _compile(text)

    def fits(self, name: str) -> bool:
        """Whether it is found anywhere in a name."""
        octets = name_bytes(name)
        began = thread_time()
        while True:
            try:
                return self._compiled.search(octets, timeout=SECONDS_MAX) is not None
            except TimeoutError:  # counts what all threads did meanwhile
                if thread_time() - began >= SECONDS_MAX:
                    break
        _log.warning("a regular expression takes too long", pattern=self._text, name=name)
        return False


@lru_cache(maxsize=1024)
def _compile(text: str) -> "regex.Pattern[bytes]":
    octets = name_bytes(text)
    if len(octets) > BYTES_MAX:
        raise PatternInvalid(f'{{"regular expression is too large",{BYTES_MAX}}}')
    try:
        return regex.compile(octets)
    except regex.error as error:
        raise PatternInvalid(f'{{"{error.msg}",{error.pos or 0}}}') from error
    except (RecursionError, OverflowError, MemoryError) as error:
        raise PatternInvalid('{"regular expression is too large",0}') from error
