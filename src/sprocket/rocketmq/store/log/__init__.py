"""The commit log: every record of every topic, one behind the other, in files of one size.

`Appender` takes records up and gives each its place in its queue (`OffsetAssigner`), `CommitLog`
writes them, `Flusher` makes them durable and prepares the disk ahead. `LogScanner` walks over
what is there, past damage. Only the log counts; every other file can be made from it.
"""
