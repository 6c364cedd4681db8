"""Small text files: `.config` of a virtual host, `clean.dot` of a message store.

Source: RabbitMQ 3.10.8 `rabbit_vhost:write_config_file`, `rabbit_msg_store:store_recovery_terms`.
"""

from collections.abc import Sequence

from sprocket.base.errors import CorruptRecord
from sprocket.rabbitmq.codec.store import text_terms
from sprocket.rabbitmq.codec.terms import Atom, Term

SEGMENT_ENTRIES_MAX = 16384
"""Entries of a segment if nothing says otherwise, and the most that there can be."""
_INDEX_MODULE = Atom("rabbit_msg_store_ets_index")
_COMMENT = "%% This file is auto-generated! Edit at your own risk!"


def decode_config(data: bytes) -> int:
    """Return how many entries each segment of version 1 has, from a `.config`.

    Raises:
        CorruptRecord: It does not say so.
    """
    count = dict(_pairs(text_terms.decode(data))).get(Atom("segment_entry_count"))
    if not isinstance(count, int) or not 1 <= count <= SEGMENT_ENTRIES_MAX:
        raise CorruptRecord(
            f"expected a segment_entry_count of 1 to {SEGMENT_ENTRIES_MAX}, found {count!r:.40}"
        )
    return count


def encode_config(segment_entry_count: int) -> bytes:
    """Return the content of a `.config`."""
    return f"{_COMMENT}\n{{segment_entry_count, {segment_entry_count}}}.".encode()


def decode_clean(data: bytes) -> list[bytes]:
    """Return the references of the queues that used a store when it was stopped, in any order.

    Raises:
        CorruptRecord: It is not a `clean.dot`, or one of a store with another kind of index.
    """
    found = dict(_pairs(text_terms.decode(data)))
    module = found.get(Atom("index_module"))
    if module != _INDEX_MODULE:
        raise CorruptRecord(f"expected the index_module {_INDEX_MODULE}, found {module!r:.60}")
    references = found.get(Atom("client_refs"))
    if not isinstance(references, list):
        raise CorruptRecord(f"expected a list of client_refs, found {references!r:.60}")
    checked = [one for one in references if isinstance(one, bytes)]
    if len(checked) != len(references):
        raise CorruptRecord("expected binaries as client_refs")
    return checked


def encode_clean(references: Sequence[bytes]) -> bytes:
    """Return the content of a `clean.dot`."""
    parts: tuple[Term, ...] = (
        (Atom("client_refs"), [*references]),
        (Atom("index_module"), _INDEX_MODULE),
    )
    return "".join(f"{text_terms.encode(part)}.\n" for part in parts).encode()


def _pairs(terms: Sequence[Term]) -> list[tuple[Atom, Term]]:
    pairs = []
    for term in terms:
        match term:
            case (Atom() as name, value):
                pairs.append((name, value))
            case _:
                raise CorruptRecord(f"expected a name and a value, found {term!r:.60}")
    return pairs
