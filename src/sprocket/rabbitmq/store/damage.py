"""What is wrong at a place in a file of a virtual host."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileDamage:
    """Something in a file that should not be there, or cannot be read.

    Attributes:
        path: The file.
        position: Bytes into it.
        what: A sentence for the person who reads it.
    """

    path: str
    position: int
    what: str

    def __str__(self) -> str:
        return f"{self.path} at {self.position}: {self.what}"
