"""Which functions and classes of the product nobody there calls, by `vulture`; for `make lint`.

`vulture` goes by names: what has the name of something that is called is not found. A function that
only tests call is dead, unless users call it, or something outside of the product does.
"""

import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from vulture import Vulture

KINDS = {"function", "method", "class", "property", "import", "unreachable_code"}
"""Fields are not looked at: most of them are declared for the wire, and read by name."""

DECORATORS = ["@*.command", "@*.callback", "@pytest.fixture"]
"""What has them is called by name: commands, and the fixtures of users' tests."""

EXCEPTIONS = {
    "how much is held, which tests of memory compare with a bound": (
        *("blocked_count", "entries_count", "watch_count"),
    ),
    "what a sender meant; hot paths look at the flag themselves": ("is_response",),
    "all that there is, for tests of each one": ("layouts",),
    "methods of AMQP that a client may send, decoded and refused": (
        *("ConnectionSecure", "ConnectionSecureOk"),
    ),
    "named in quotes only": ("Asker", "AwaitedAdmin", "Tracer"),
    "called by the event loop": ("buffer_updated", "get_buffer"),
    "called by Spark": (
        *("getDefaultReadLimit", "initialOffset", "latestOffset", "prepareForTriggerAvailableNow"),
        *("reportLatestOffset", "streamReader", "streamWriter"),
    ),
    "of sprocket.testing, for users' tests and ours": (
        *("aadvance_until", "advance_until", "heal", "http_url", "power_cut", "restart", "spoil"),
        *("step_wall",),
    ),
}
"""What may have no caller, by the reason."""


def dead(folder: Path, exceptions: Mapping[str, Collection[str]]) -> list[str]:
    """Return what nobody calls, and those exceptions for which there is nothing any more."""
    vulture = Vulture(ignore_decorators=DECORATORS)
    vulture.scavenge([str(folder)])
    excepted = {name for names in exceptions.values() for name in names}
    unused = [one for one in vulture.get_unused_code() if one.typ in KINDS]
    found = [
        f"{one.filename}:{one.first_lineno}: nobody calls the {one.typ} {one.name}"
        for one in unused
        if one.name not in excepted
    ]
    stale = excepted - {one.name for one in unused}
    return found + [f"{__file__}: {name} needs no exception" for name in sorted(stale)]


def main() -> int:
    """Print what is dead; return 1 if there is something."""
    found = dead(Path("src"), EXCEPTIONS)
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
