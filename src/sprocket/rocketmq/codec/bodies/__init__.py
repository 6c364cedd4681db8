"""Bodies of requests and answers: JSON, as RocketMQ's classes write and read it.

A module for each subject; what they share lies in `body_parts`.
"""
