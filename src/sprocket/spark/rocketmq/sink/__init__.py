"""The sink: rows of a DataFrame become messages of topics, in batches and at least once."""
