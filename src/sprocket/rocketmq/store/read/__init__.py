"""Reading messages: from a queue offset on, by key, by id, by time.

`Reader` answers with the records as they lie in the log; a filter says which of a queue's are
wanted.
"""
