"""Passwords as RabbitMQ keeps them: a salt of four bytes, and a digest of salt and password.

So users of a RabbitMQ whose definitions are imported log in with the passwords that they have. The
digests are quick to make, which helps whoever has stolen them; RabbitMQ knows no others.

Source: `rabbit_password`, `rabbit_password_hashing_sha256`, `…_sha512`, `…_md5`.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable
from typing import Final

from sprocket.rabbitmq.model.user import MD5, SHA256, SHA512

SALT_BYTES: Final = 4

_DIGESTS: dict[str, Callable[[bytes], bytes]] = {
    SHA256: lambda data: hashlib.sha256(data).digest(),
    SHA512: lambda data: hashlib.sha512(data).digest(),
    MD5: lambda data: hashlib.md5(data, usedforsecurity=False).digest(),
}
ALGORITHMS: Final = frozenset(_DIGESTS)
"""What can be compared with."""


def hashed(password: bytes, algorithm: str = SHA256) -> bytes:
    """Return what is kept of a new password."""
    salt = secrets.token_bytes(SALT_BYTES)
    return salt + _DIGESTS[algorithm](salt + password)


def fits(password: bytes, password_hash: bytes, algorithm: str) -> bool:
    """Whether a password is the one that a hash was made of; an empty one never is."""
    if not password or len(password_hash) <= SALT_BYTES:
        return False
    salt, digest = password_hash[:SALT_BYTES], password_hash[SALT_BYTES:]
    return hmac.compare_digest(_DIGESTS[algorithm](salt + password), digest)
