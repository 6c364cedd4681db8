"""Messages for the interop tests: drawn from a seed, odd where clients differ."""

import base64
import random
import string
from collections.abc import Sequence
from dataclasses import dataclass

SEED = 53_3
COMPRESS_OVER = 4096
"""The Java client compresses a body of at least this many bytes, unless it is in a batch."""

BATCH_SIZES = (1, 2, 7, 40, 50)
"""Their sum is 100, so ten times over they make the 1,000 messages in batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One message to be sent, and how."""

    how: str
    batch: int | None
    topic: str
    tag: str
    keys: str
    flag: int
    properties: dict[str, str]
    body: bytes

    def line(self) -> dict[str, object]:
        """Return what `Interop.java` reads."""
        return {
            "how": self.how,
            "batch": self.batch,
            "topic": self.topic,
            "tag": self.tag,
            "keys": self.keys,
            "flag": self.flag,
            "properties": self.properties,
            "body": base64.b64encode(self.body).decode(),
        }


def three_thousand(topic: str) -> list[Sample]:
    """Return 1,000 messages to send synchronously, 1,000 asynchronously, 1,000 in batches."""
    rng = random.Random(SEED)
    singles = [draw(rng, topic, how) for how in ("sync", "async") for _ in range(1000)]
    batches = [
        draw(rng, topic, "batch", batch=10 * turn + at)
        for turn in range(10)
        for at, size in enumerate(BATCH_SIZES)
        for _ in range(size)
    ]
    return singles + batches


def draw(rng: random.Random, topic: str, how: str, *, batch: int | None = None) -> Sample:
    """Return one message: tag A, B or AB, keys that only it has and some that many have."""
    own = f"own-{rng.getrandbits(64):016x}"
    shared = f"shared-{rng.randrange(300)}"
    return Sample(
        how=how,
        batch=batch,
        topic=topic,
        tag=rng.choice(["A", "A", "B", "AB"]),
        keys=rng.choice([own, f"{own} {shared}", f"{own} schlüssel-{rng.randrange(300)}"]),
        flag=rng.choice([0, 0, 1, 2**31 - 1, -1]),
        properties=_properties(rng),
        body=_body(rng),
    )


def unique_key(number: int) -> str:
    """Return 32 hexadecimal digits, as clients make them, the last ten of them `number`."""
    return f"7F0000010001{0:010d}{number:010d}"


def tagged(samples: Sequence[Sample], tag: str) -> list[int]:
    """Return the numbers of the samples with exactly this tag."""
    return [number for number, sample in enumerate(samples) if sample.tag == tag]


def _properties(rng: random.Random) -> dict[str, str]:
    values = ["1", "a b", "ü–€", "😀", '{"json":"as, it: is"}', "=|;", "\\n", "x" * 200]
    return {f"user-{name}": rng.choice(values) for name in rng.sample(string.ascii_lowercase, 3)}


def _body(rng: random.Random) -> bytes:
    kind = rng.randrange(20)
    if kind == 0:
        return rng.randbytes(rng.choice([1, COMPRESS_OVER - 1, COMPRESS_OVER, 6_000]))
    if kind in (1, 2):  # compressible
        size = rng.choice([COMPRESS_OVER - 1, COMPRESS_OVER, COMPRESS_OVER + 1, 20_000])
        return (b"%032x" % rng.getrandbits(128)) * (size // 32) + b"." * (size % 32)
    return rng.randbytes(rng.randrange(1, 400))
