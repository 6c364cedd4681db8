"""Tables that grow: a snapshot, and a journal of what came since.

A new entry costs a line of the journal; the snapshot is written piece by piece in the background.
"""
