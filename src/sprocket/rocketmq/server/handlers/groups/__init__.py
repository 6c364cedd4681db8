"""Requests about consumer groups: who is connected, how far they are, where they go on.

Each class has a table of request codes, the header of each, and the function that answers.
"""
