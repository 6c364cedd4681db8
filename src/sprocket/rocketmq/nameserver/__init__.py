"""The NameServer: which broker serves which topic."""
