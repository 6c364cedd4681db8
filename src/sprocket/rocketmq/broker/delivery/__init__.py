"""From a pull request to its answer.

`Puller` checks a request in RocketMQ's order and reads; `PullHold` keeps those that found nothing
until something arrives; `query` finds messages by key, id and time.
"""
