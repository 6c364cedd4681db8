"""Consume queues: for each message of a queue a unit that says where it lies in the log.

`Queues` is what a store asks of them; `FileQueues` keeps them as RocketMQ's files, `RocksQueues`
in a RocksDB, and `engines` knows which a store has. `Units` says which unit a record gets.
They are made from the log, and made again if they are lost.
"""
