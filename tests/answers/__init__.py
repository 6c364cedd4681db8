"""Requests that a real broker and NameServer of RocketMQ 5.3.3 answered, and what they said."""
