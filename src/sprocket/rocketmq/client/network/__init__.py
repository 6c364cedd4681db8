"""What every client shares: connections, routes, and the requests to brokers.

`ClientInstance` has an identity and sends heartbeats; several producers and consumers may hold a
share of one (`lease`). `Routes` knows which broker serves which topic.
"""
