"""Sending messages: from what a user gives to the answer of a broker.

`Producer` is the face; `outgoing` makes a message ready, `send_lanes` keep the order of those
that wait, `send_request` speaks with the broker, `broker_faults` avoids one that fails.
"""
