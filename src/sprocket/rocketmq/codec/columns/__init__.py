"""Many records at once, as columns: needs numpy, which the light install lacks.

`columns` decodes what Spark and the queues need; `RecordBatch` is what queues and index take.
"""
