"""Doubles for tests: fake clock, simulated disk."""
