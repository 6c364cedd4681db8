"""The NameServer's requests: what brokers tell it, what clients and tools ask.

Each class has a table of request codes, the header of each, and the function that answers.
"""
