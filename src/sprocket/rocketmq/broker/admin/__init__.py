"""What operators and upkeep ask of a broker: figures, settings, deletions, cleaning.

`runtime_info` tells figures, `config` the settings, `removal` deletes topics and groups,
`upkeep` makes derived files durable and deletes what is old.
"""
