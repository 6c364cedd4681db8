"""Requests that store messages or read them: sends, replies, what comes back, pulls, queries.

Each class has a table of request codes, the header of each, and the function that answers.
"""
