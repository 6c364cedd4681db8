# The judges: the real RocketMQ 5.3.3, its Java client, and processes killed under load.
# These need Java 17 (a JDK) and, the first time, Maven and about 100 MB from Maven's registry.

ROCKETMQ := .peers/rocketmq-5.3.3
ROCKETMQ_JAR := $(ROCKETMQ)/lib/rocketmq-broker-5.3.3.jar
# Nothing is fetched for who says where the jars are.
PEERS := $(if $(SPROCKET_ROCKETMQ_LIB),,$(ROCKETMQ_JAR))

.PHONY: peers interop-java bench-rocketmq torture

peers: $(ROCKETMQ_JAR) ## fetch the real RocketMQ 5.3.3 and its Java client, once

$(ROCKETMQ_JAR): tests/interop/java/pom.xml
	@command -v mvn >/dev/null || { echo "peers: needs Maven (mvn) and a JDK 17; on Debian: apt-get install maven openjdk-17-jdk-headless" >&2; exit 1; }
	@echo "peers: RocketMQ 5.3.3 into $(ROCKETMQ), about 100 MB"
	@mvn --batch-mode --quiet --file tests/interop/java/pom.xml dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(CURDIR)/$(ROCKETMQ)/lib
	@touch $@

interop-java: $(STAMP) $(PEERS) ## the official Java client, mqadmin and the real broker against ours
	@$(BIN)/python -m pytest tests/interop -m interop -v -rs

bench-rocketmq: $(STAMP) $(PEERS) ## sends per second and per CPU second, ours and RocketMQ's
	@$(BIN)/python -m bench.rocketmq

torture: $(STAMP) ## kill -9 under load, 200 rounds
	@SPROCKET_KILL_ROUNDS=200 SPROCKET_KILL_SEED=$${SPROCKET_KILL_SEED:-$$RANDOM} \
		$(BIN)/python -m pytest tests/crash/test_kill.py -s -m "nightly or not nightly" --timeout 3600
