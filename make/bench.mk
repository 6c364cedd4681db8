# The store by itself, against its goals; a quiet machine matters.

.PHONY: bench

bench: $(STAMP) ## the store's figures beside their goals (a few minutes, 6 GB of disk, all removed)
	@$(BIN)/python -m bench.fixture
	@$(BIN)/python -m bench.store
