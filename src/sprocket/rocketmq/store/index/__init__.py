"""The key index: which records of the log have a key, by its hash.

`Indexes` puts and finds keys, an index file after the other. It is made from the log, and made
again if it is lost; what its slots do not lead to yet is looked for in its units.
"""
