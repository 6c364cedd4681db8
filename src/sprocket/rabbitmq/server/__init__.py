"""What a client of this column talks to: bytes to values of the broker, and back."""
