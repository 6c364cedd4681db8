# The store by itself, against its goals; a quiet machine matters.

.PHONY: bench

bench: $(STAMP) ## figures of the store and the broker for tests beside their goals (a few minutes, 6 GB of disk, all removed)
	@code=0; for part in fixture descriptors tables store slow_disk opening; do \
		$(BIN)/python -m bench.$$part; ended=$$?; if [ $$ended -gt $$code ]; then code=$$ended; fi; \
	done; exit $$code
