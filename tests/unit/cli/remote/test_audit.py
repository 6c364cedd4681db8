"""Who changed topics, groups, offsets and settings is a line of the audit log."""

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

import pytest
import structlog
from tests.unit.cli.running import done

from sprocket.testing.local_broker import LocalBroker

Line = MutableMapping[str, Any]


@pytest.fixture
def told() -> Iterator[Callable[[], list[Line]]]:
    """Return what gives the audit lines since the last call."""
    with structlog.testing.capture_logs() as logs:

        def take() -> list[Line]:
            lines = [one for one in logs if one.get("logger") == "sprocket.audit"]
            logs.clear()
            for one in lines:
                assert one["peer"].startswith("127.0.0.1:")
                assert (one["through"], one["log_level"]) == ("remoting", "info")
            return lines

        yield take


def test_what_an_administrator_does(broker: LocalBroker, told: Callable[[], list[Line]]) -> None:
    """With what it was done to; what only reads has no line."""
    done(broker, "topic", "create", "orders")
    (line, *_) = told()
    assert (line["event"], line["topic"]) == ("put topic", "orders")
    done(broker, "produce", "orders", "one")
    done(broker, "topic", "ls")
    assert told() == []
    done(broker, "group", "create", "billing")
    (line,) = told()
    assert line["event"] == "put group"
    assert '"groupName":"billing"' in line["asked"]
    done(broker, "group", "reset", "billing", "--topic", "orders", "--to", "first")
    assert "reset offsets" in {one["event"] for one in told()}
    done(broker, "group", "delete", "billing", "--yes")
    (line,) = told()
    assert (line["event"], line["group_name"]) == ("delete group", "billing")
    done(broker, "topic", "delete", "orders", "--yes")
    events = {one["event"] for one in told()}
    assert events == {"delete topic", "delete topic of nameserver", "delete key value"}
