"""Requests about topics and about the broker itself.

Each class has a table of request codes, the header of each, and the function that answers.
"""
