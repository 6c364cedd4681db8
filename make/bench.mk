# The store by itself, against its goals; a quiet machine matters.

.PHONY: bench

bench: $(STAMP) ## figures of the store and the broker for tests beside their goals (a few minutes, 6 GB of disk, all removed)
	@$(BIN)/python -m bench.fixture
	@$(BIN)/python -m bench.descriptors
	@$(BIN)/python -m bench.tables
	@$(BIN)/python -m bench.store
	@$(BIN)/python -m bench.slow_disk
	@$(BIN)/python -m bench.opening
