"""Consumer groups: their settings, who is connected, who may read which queue, how far they are.

`Groups` keeps the settings, `ClientManager` the connected clients, `QueueLocks` who reads a queue
alone, `ConsumerOffsets` what was committed, and `progress` compares that with the queues.
"""
