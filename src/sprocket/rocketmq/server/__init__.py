"""Requests from sockets to handlers and answers back."""
