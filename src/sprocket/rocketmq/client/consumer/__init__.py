"""Receiving messages: which queues are ours, what was pulled, what is done.

`PushConsumer`, `LitePullConsumer` and `Puller` are the faces. `assignment` holds the queues that
`rebalance` gives a member, `process_queue` what was pulled and is not done, `offsets` how far a
group is.
"""
