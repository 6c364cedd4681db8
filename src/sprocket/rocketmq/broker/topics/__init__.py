"""The topics that a broker serves: their settings, and how new ones come about.

`Topics` keeps them in `config/topics.json` and a journal; `attributes` changes RocketMQ 5's named
settings.
"""
