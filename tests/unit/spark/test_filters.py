"""What is said of columns: joined, and as the text of an option."""

import pytest

from sprocket.spark.filters import ROCKETMQ, FilteredColumns, either


def test_the_option_has_what_is_said() -> None:
    """Of texts and numbers values, of times the first and the last."""
    limits = {"topic": ("a", "ü"), "queueId": (1, 2), "storeTimestamp": (None, 5)}
    assert ROCKETMQ.read(FilteredColumns.text(limits)) == limits


@pytest.mark.parametrize(
    "text",
    ["", "[]", "1", '{"topic":1}', '{"topic":[1]}', '{"queueId":["1"]}', '{"queueId":[true]}',
     '{"keys":["k"]}', '{"storeTimestamp":[1]}', '{"storeTimestamp":["a",2]}'],
)  # fmt: skip
def test_what_is_not_such_a_text(text: str) -> None:
    """It is refused, and a right one is shown."""
    with pytest.raises(ValueError, match="must be JSON such as"):
        ROCKETMQ.read(text)


def test_what_holds_for_one_of_two() -> None:
    """A column that one of them says nothing of is free."""
    one = {"topic": ("a",), "queueId": (1,), "storeTimestamp": (1, 5)}
    assert either(one, {"topic": ("b", "a")}) == {"topic": ("a", "b")}
    assert either(one, {"storeTimestamp": (3, None)}) == {"storeTimestamp": (1, None)}
    assert either(one, {"storeTimestamp": (None, None)}) == {}
