"""Texts that RocketMQ writes to files: its own JSON, tables, Java's properties.

`fastjson` is the JSON of the library that RocketMQ uses, `tables` are topics and groups, `values`
reads single values as tolerantly as RocketMQ does.
"""
