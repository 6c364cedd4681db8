"""What is plain is added to, and what looks plain only beside others is not."""

import pytest

from sprocket.rocketmq.broker.messages import send

ONE, OTHER = b"UNIQ_KEY\x01P\x02A\x01b\x02", b"A\x01b\x02UNIQ_KEY\x01Q\x02"


@pytest.mark.parametrize("name", sorted(send.SPECIAL))
def test_special_names_are_not_plain(name: str) -> None:
    """As names; as values, or as a part of a name, they are."""
    key = "\x02UNIQ_KEY\x01P\x02"
    assert not send.are_plain(f"{key}{name}\x01v\x02", 1)
    assert send.are_plain(f"{key}A\x01{name}\x02MY{name}\x01v\x02", 1)


@pytest.mark.parametrize(
    ("closed", "count", "expected"),
    [
        ("\x02UNIQ_KEY\x01P\x02", 1, True),
        ("\x02UNIQ_KEY\x01P\x02", 2, False),
        ("\x02UNIQ_KEY\x01\x02A\x01b\x02", 1, False),
        ("\x02UNIQ_KEY\x01P\x02A\x02", 1, False),
        ("\x02UNIQ_KEY\x01P\x02A\x01b\x01c\x02", 1, False),
        ("\x02MY_UNIQ_KEY\x01P\x02", 1, False),
        ("\x02A\x01b\x02", 1, False),
        ("\x02", 0, True),
    ],
)
def test_each_condition_counts(closed: str, count: int, expected: bool) -> None:
    """Keys, pairs and their ends, empty values."""
    assert send.are_plain(closed, count) is expected


@pytest.mark.parametrize(
    ("texts", "shared", "expected"),
    [
        ([ONE, OTHER], {}, b"end"),
        ([ONE, OTHER], {"A": "b"}, b"end"),
        ([ONE, OTHER], {"A": "c"}, None),
        ([ONE, OTHER], {"C": "d", "E": "é"}, "E\x01é\x02C\x01d\x02end".encode()),
        ([ONE, OTHER[:-1]], {}, None),
        ([ONE, b""], {}, None),
        ([ONE, b"A\x01\xff\x02UNIQ_KEY\x01Q\x02"], {}, None),
        ([ONE, b"UNIQ_KEY\x01Q\x02"], {"A": "b"}, None),
        ([ONE + b"A\x01b\x02", b"UNIQ_KEY\x01Q\x02"], {"A": "b"}, None),
        ([ONE, "A\x01é\x02UNIQ_KEY\x01Q\x02".encode()], {}, b"end"),
    ],
)
def test_parts_get_what_their_batch_has(
    texts: list[bytes], shared: dict[str, str], expected: bytes | None
) -> None:
    """Unless they have it already; if one has it otherwise, none of them is plain."""
    assert send.added_to_each(texts, shared, "end") == expected
