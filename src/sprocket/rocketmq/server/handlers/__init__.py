"""A module for each family of requests, and in it a class with a table.

A row of the table is a code, the header of such requests, and the function that answers them.
"""
