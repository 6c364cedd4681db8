"""An unknown name leads to the one that was probably meant."""

from sprocket.base.nearest import hint, nearest


def test_the_most_alike_is_named() -> None:
    """A letter too many, letters in the wrong order, capitals."""
    names = ["orders", "payments", "orders-archive"]
    assert nearest("order", names) == "orders"
    assert nearest("paymetns", names) == "payments"
    assert nearest("ORDERS", names) == "orders"
    assert hint("oders", iter(names)) == "; did you mean orders?"


def test_words_in_common_count_more_than_letters() -> None:
    """But for a misspelling, and of those with words as long the likely ones."""
    names = ["topic", "consumerGroup", "producerGroup", "fetchOffset.numRetries", "emptyBodies"]
    assert nearest("groupid", names, ["producerGroup", "topic"]) == "producerGroup"
    assert nearest("kafka.group.id", names, ["consumerGroup"]) == "consumerGroup"
    assert nearest("retries", names) == "fetchOffset.numRetries"
    assert nearest("topics", [*names, "topicsGroup"]) == "topic"
    assert nearest("eu-orders", ["orders", "europe"]) == "orders"
    assert nearest("a-long-name-of-an-orders-topic", ["orders"]) is None


def test_nothing_alike_is_no_hint() -> None:
    """A suggestion that has nothing to do with the name would puzzle."""
    assert nearest("zzz", ["orders"]) is None
    assert hint("zzz", ["orders"]) == ""
    assert hint("orders", []) == ""


def test_a_name_spelt_in_two_ways_is_given_as_it_is() -> None:
    """Names differ by their capitals alone: one of the real ones is named, in its spelling."""
    assert nearest("oRdErs", ["Orders", "ORDERS"]) in {"Orders", "ORDERS"}


def test_many_names_are_no_burden() -> None:
    """Of a hundred thousand those of the same length are compared, so the right one is found."""
    names = [f"topic-with-a-long-name-{number:06}" for number in range(100_000)]
    assert nearest("odrers", [*names, "orders"]) == "orders"
