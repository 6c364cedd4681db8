"""A web service whose orders and messages are never apart: FastAPI, SQLite, and transactions.

`uvicorn --factory examples.outbox.application:create_app` runs it.
"""
