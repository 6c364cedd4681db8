"""For a store that is closed: check it, salvage what is intact, change its engine.

`check` reports each broken rule and changes nothing; `salvage` copies every intact record into a
new store; `convert` moves queues from one engine to the other.
"""
