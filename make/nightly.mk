# Tests that are too long for `make test`: minutes, not hours.

.PHONY: nightly fuzz-http2 starvation mutants planted

nightly: $(STAMP) ## Spark on clusters, power loss by 20,000 states, a million mutated frames of each protocol (50,000 at sockets; of gRPC two million and one), every disk call failing in turn, each sync taken out, the wheel installed
	@$(BIN)/python -m pytest tests/unit tests/interop tests/crash tests/anomaly tests/property tests/fuzz tests/test_wheel.py $(DISTRIBUTED) -m nightly -rfEs --timeout 3600

starvation: $(STAMP) ## 20 clients of each product beside a node that lacks descriptors, memory, room, a reader of its log, or is flooded: what they met (4 minutes; a part of `make nightly`)
	@$(BIN)/python -m pytest tests/anomaly/test_starvation.py -m nightly -s

FRAMES ?= 50000000

fuzz-http2: $(STAMP) ## FRAMES frames (50 million) of HTTP/2, right and changed, at the codec of gRPC; what it made of them
	@SPROCKET_HTTP2_FRAMES=$(FRAMES) $(BIN)/python -m pytest tests/fuzz/test_http2_frames.py -n 0 -s -m "nightly or not nightly"

MUTANTS ?= 300
SEED ?=

mutants: $(STAMP) ## MUTANTS faults planted in store, logs, group commit and confirms, one at a time; the tests that must see them, and which survived (about an hour)
	@$(BIN)/python -m tests.mutants --count $(MUTANTS) $(if $(SEED),--seed $(SEED))

planted: $(STAMP) ## ten faults of ten kinds, planted one at a time, and the test of `make test` that sees each (3 minutes)
	@$(BIN)/python -m tests.planted_faults
