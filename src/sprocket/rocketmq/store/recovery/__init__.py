"""What happens between the last life of a store and the next one.

`recovery.recover` brings queues and index into agreement with the log and reports what it did;
`Checkpointer` makes derived files durable while a store is open and leaves the checkpoint from
which the next recovery begins. `Deletions` keeps what became of deleted topics.
"""
