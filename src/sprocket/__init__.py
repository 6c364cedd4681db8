"""Sprocket: a message system you can `pip install`, whose disk is a DataFrame."""

__version__ = "0.3.0.dev0"
