# The store by itself, compared with its goals; needs a quiet machine.

.PHONY: bench bench-alternation bench-spark

bench: $(STAMP) ## figures of the store, filters and the broker for tests, and their goals (a few minutes, 6 GB of disk, all removed)
	@code=0; for part in fixture filters filtered_read rights descriptors tables store slow_disk opening; do \
		$(BIN)/python -m bench.$$part; ended=$$?; if [ $$ended -gt $$code ]; then code=$$ended; fi; \
	done; exit $$code

OLD ?= HEAD

bench-alternation: $(STAMP) ## this folder against the commit OLD, in turns under the load of bench-rocketmq (10 minutes); 1 if a row is slower
	@$(BIN)/python -m bench.alternation $(OLD)

bench-spark: $(STAMP) peers-kafka ## figures of the pipeline on Spark, and their goals; Kafka's beside (15 minutes, Java 17 and once Maven, 10 GB of disk, all removed)
	@code=0; for part in spark spark_queries spark_sink spark_kafka; do \
		$(BIN)/python -m bench.$$part; ended=$$?; if [ $$ended -gt $$code ]; then code=$$ended; fi; \
	done; exit $$code
