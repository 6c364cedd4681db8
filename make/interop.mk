# Tests with the real RocketMQ 5.3.3 and its clients, and with processes killed under load.
# These need Java 17 (a JDK) and, the first time, Maven and about 110 MB from Maven's registry; the Go
# client needs Go 1.21 and, the first time, about 10 MB from Go's module proxy.

ROCKETMQ := .peers/rocketmq-5.3.3
ROCKETMQ_JAR := $(ROCKETMQ)/lib/rocketmq-broker-5.3.3.jar
CLIENT_4 := .peers/rocketmq-4.9.8
CLIENT_4_JAR := $(CLIENT_4)/lib/rocketmq-client-4.9.8.jar
SPRING := .peers/rocketmq-spring-2.3.1
SPRING_JAR := $(SPRING)/lib/rocketmq-spring-boot-starter-2.3.1.jar
GO_PEER := .peers/go/peer
# If these variables say where the jars are, or the program with the Go client, nothing is fetched.
PEERS := $(if $(SPROCKET_ROCKETMQ_LIB),,$(ROCKETMQ_JAR)) $(if $(SPROCKET_ROCKETMQ_4_LIB),,$(CLIENT_4_JAR)) $(if $(SPROCKET_ROCKETMQ_SPRING_LIB),,$(SPRING_JAR))
PEERS_GO := $(if $(SPROCKET_GO_PEER),,$(GO_PEER))
KAFKA := .peers/kafka-4.3.1
KAFKA_JAR := $(KAFKA)/lib/kafka_2.13-4.3.1.jar
SPARK_KAFKA := .peers/spark-kafka-4.2.0
SPARK_KAFKA_JAR := $(SPARK_KAFKA)/lib/spark-sql-kafka-0-10_2.13-4.2.0.jar
PROXY := .peers/rocketmq-proxy-5.3.3
PROXY_JAR := $(PROXY)/lib/rocketmq-proxy-5.3.3.jar
SDK_PYTHON := .peers/sdks/python/bin/python
SDK_NODE := .peers/sdks/node/node_modules/rocketmq-client-nodejs/package.json
SDK_JAVA := .peers/sdks/java/lib/rocketmq-client-java-5.1.0.jar
SDK_GO := .peers/sdks/go/peer
SDK_RUST := .peers/sdks/rust/peer
GRPCURL := .peers/go/grpcurl
PEERS_SDKS := $(if $(SPROCKET_SDK_GO),,$(SDK_GO)) $(if $(SPROCKET_SDK_RUST),,$(SDK_RUST)) $(if $(SPROCKET_GRPCURL),,$(GRPCURL)) $(if $(SPROCKET_ROCKETMQ_PROXY_LIB),,$(PROXY_JAR)) $(if $(SPROCKET_SDK_PYTHON),,$(SDK_PYTHON)) $(if $(SPROCKET_SDK_NODE),,$(SDK_NODE)) $(if $(SPROCKET_SDK_JAVA),,$(SDK_JAVA))
NEEDS_MAVEN = command -v mvn >/dev/null || { echo "peers: needs Maven (mvn) and a JDK 17; on Debian: apt-get install maven openjdk-17-jdk-headless" >&2; exit 1; }
COPY_JARS = mvn --batch-mode --quiet dependency:copy-dependencies -DincludeScope=runtime

RABBITMQ := .peers/rabbitmq-3.10.8
RABBITMQ_ERL := $(RABBITMQ)/usr/lib/erlang/bin/erl
RABBITMQ_ERLANG := asn1 base crypto eldap ftp inets mnesia os-mon parsetools public-key runtime-tools snmp ssl syntax-tools tftp tools xmerl
PEERS_RABBITMQ := $(if $(SPROCKET_RABBITMQ_ROOT),,$(RABBITMQ_ERL))
H2SPEC := .peers/go/h2spec
ETCD := .peers/etcd/usr/bin/etcd
PEERS_ETCD := $(if $(SPROCKET_ETCD),,$(ETCD))

.PHONY: peers peers-etcd peers-sdks interop-grpc bench-grpc h2spec h2-floods ha-run torture-ha interop-etcd peers-go peers-kafka peers-rabbitmq interop-ha interop-java interop-client interop-go interop-rabbitmq peers-amqp interop-amqp bench-rocketmq bench-ha bench-rabbitmq torture

peers: $(ROCKETMQ_JAR) $(CLIENT_4_JAR) $(SPRING_JAR) ## fetch the real RocketMQ 5.3.3, its Java clients 5.3.3 and 4.9.8, and Spring's, once

$(ROCKETMQ_JAR): tests/interop/java/pom.xml
	@$(NEEDS_MAVEN)
	@echo "peers: RocketMQ 5.3.3 into $(ROCKETMQ), about 100 MB"
	@$(COPY_JARS) --file tests/interop/java/pom.xml -DoutputDirectory=$(CURDIR)/$(ROCKETMQ)/lib
	@touch $@

$(CLIENT_4_JAR): tests/interop/java/pom-4.xml
	@$(NEEDS_MAVEN)
	@echo "peers: RocketMQ's Java client 4.9.8 into $(CLIENT_4), about 14 MB"
	@$(COPY_JARS) --file tests/interop/java/pom-4.xml -DoutputDirectory=$(CURDIR)/$(CLIENT_4)/lib
	@touch $@

$(SPRING_JAR): tests/interop/java/pom-spring.xml
	@$(NEEDS_MAVEN)
	@echo "peers: Spring's starter for RocketMQ into $(SPRING), about 20 MB"
	@$(COPY_JARS) --file tests/interop/java/pom-spring.xml -DoutputDirectory=$(CURDIR)/$(SPRING)/lib
	@touch $@

peers-kafka: $(KAFKA_JAR) $(SPARK_KAFKA_JAR) ## fetch Kafka's broker 4.3.1 and Spark's connector to it, once

$(KAFKA_JAR): bench/java/pom-kafka.xml
	@$(NEEDS_MAVEN)
	@echo "peers-kafka: Kafka 4.3.1 into $(KAFKA), about 45 MB"
	@$(COPY_JARS) --file $< -DoutputDirectory=$(CURDIR)/$(KAFKA)/lib
	@touch $@

$(SPARK_KAFKA_JAR): bench/java/pom-spark-kafka.xml
	@$(NEEDS_MAVEN)
	@echo "peers-kafka: Spark's connector 4.2.0 into $(SPARK_KAFKA), about 10 MB"
	@$(COPY_JARS) --file $< -DoutputDirectory=$(CURDIR)/$(SPARK_KAFKA)/lib
	@touch $@

peers-sdks: $(PEERS_SDKS) ## fetch RocketMQ's proxy 5.3.3, its SDKs for Python, Node, Java, Go and Rust, and grpcurl, once

$(PROXY_JAR): tests/interop/java/pom-proxy.xml
	@$(NEEDS_MAVEN)
	@echo "peers-sdks: RocketMQ's proxy 5.3.3 into $(PROXY), about 105 MB"
	@$(COPY_JARS) --file $< -DoutputDirectory=$(CURDIR)/$(PROXY)/lib
	@touch $@

$(SDK_JAVA): tests/interop/java/pom-sdk.xml
	@$(NEEDS_MAVEN)
	@echo "peers-sdks: RocketMQ's Java SDK 5.1.0 into .peers/sdks/java, about 20 MB"
	@$(COPY_JARS) --file $< -DoutputDirectory=$(CURDIR)/.peers/sdks/java/lib
	@touch $@

$(SDK_PYTHON): | $(STAMP)
	@echo "peers-sdks: RocketMQ's Python SDK 5.1.2 into .peers/sdks/python, about 90 MB"
	@$(BIN)/python -m venv .peers/sdks/python
	@$@ -m pip install --quiet rocketmq-python-client==5.1.2

$(SDK_NODE): tests/interop/sdks/node/package.json
	@command -v npm >/dev/null || { echo "peers-sdks: needs Node 18 or newer and npm; on Debian: apt-get install npm" >&2; exit 1; }
	@echo "peers-sdks: RocketMQ's Node SDK 1.0.8 into .peers/sdks/node, about 60 MB"
	@mkdir -p .peers/sdks/node && cp $< .peers/sdks/node/
	@npm install --silent --no-audit --no-fund --ignore-scripts --prefix .peers/sdks/node
	@touch $@

$(SDK_GO): $(wildcard tests/interop/sdks/go/*)
	@command -v go >/dev/null || { echo "peers-sdks: needs Go 1.21 or newer; on Debian: apt-get install golang-go" >&2; exit 1; }
	@echo "peers-sdks: RocketMQ's Go SDK 5.1.2 into $@"
	@mkdir -p $(dir $@)
	@cd tests/interop/sdks/go && go build -o $(CURDIR)/$@ .

$(SDK_RUST): $(wildcard tests/interop/sdks/rust/* tests/interop/sdks/rust/src/*)
	@command -v cargo >/dev/null || { echo "peers-sdks: needs Rust 1.85 or newer; see https://rustup.rs" >&2; exit 1; }
	@echo "peers-sdks: RocketMQ's Rust SDK 5.0.0 into $@, which takes minutes"
	@cargo build --quiet --release --locked --manifest-path tests/interop/sdks/rust/Cargo.toml --target-dir $(CURDIR)/$(dir $@)target
	@cp $(dir $@)target/release/peer $@

$(GRPCURL):
	@command -v go >/dev/null || { echo "peers-sdks: needs Go 1.21 or newer; on Debian: apt-get install golang-go" >&2; exit 1; }
	@echo "peers-sdks: grpcurl 1.9.3 into $@"
	@GOBIN=$(CURDIR)/$(dir $@) go install github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3

$(H2SPEC):
	@command -v go >/dev/null || { echo "h2spec: needs Go 1.21 or newer; on Debian: apt-get install golang-go" >&2; exit 1; }
	@GOBIN=$(CURDIR)/$(dir $@) go install github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible

h2spec: $(STAMP) $(H2SPEC) ## the 146 conformance tests of h2spec, strict, at our HTTP/2 (10 seconds)
	@$(BIN)/python -m tests.interop.h2spec $(H2SPEC)

h2-floods: $(STAMP) ## floods of HTTP/2 of 22 kinds at a broker's port of gRPC: how each ends, the memory that it takes, p99 of another client beside it (3 minutes)
	@$(BIN)/python -m bench.http2_floods

interop-grpc: $(STAMP) $(PEERS_SDKS) ## the official SDKs of RocketMQ 5, the same scenarios at Sprocket and at the real proxy 5.3.3 (15 minutes)
	@$(BIN)/python -m tests.interop.sdk_runs
	@$(BIN)/python -m pytest tests/interop/test_grpcurl.py -m interop -v -rs

peers-etcd: $(ETCD) ## fetch the real etcd from Debian, once

$(ETCD):
	@command -v apt-get >/dev/null || { echo "peers-etcd: needs apt-get and the packages of Debian 12" >&2; exit 1; }
	@echo "peers-etcd: etcd into .peers/etcd, about 10 MB; nothing is installed"
	@mkdir -p .peers/etcd/packages
	@cd .peers/etcd/packages && apt-get download --quiet etcd-server
	@for package in .peers/etcd/packages/*.deb; do dpkg -x $$package .peers/etcd; done

ha-run: $(STAMP) $(PEERS_ETCD) ## a year of flights is sent to a pair with three members of etcd: its master is killed, stopped, cut off from etcd, from its slave, from both; what was lost (nothing), how long each switch took (3 minutes)
	@$(BIN)/python -m tests.interop.ha_run

FAULTS ?=
PLANT ?=

torture-ha: $(STAMP) $(PEERS_ETCD) ## FAULTS faults (200) of a pair and three members of etcd, drawn by SEED; what was lost (nothing), how long each kind took (an hour); PLANT=all: four faults of our own, each of which it finds
	@FAULTS="$(FAULTS)" SEED="$(SEED)" PLANT="$(PLANT)" $(BIN)/python -m tests.interop.ha_torture

interop-etcd: $(STAMP) $(PEERS_ETCD) ## the decider against the real etcd, and a pair that it decides about
	@$(BIN)/python -m pytest tests/interop/test_etcd.py tests/interop/test_ha_switch.py -m "interop or nightly" -v -rs

peers-go: $(GO_PEER) ## build the program that uses RocketMQ's Go client, once

$(GO_PEER): $(wildcard tests/interop/go/*)
	@command -v go >/dev/null || { echo "peers-go: needs Go 1.21 or newer; on Debian: apt-get install golang-go" >&2; exit 1; }
	@echo "peers-go: rocketmq-client-go/v2 into $(GO_PEER)"
	@mkdir -p $(dir $@)
	@cd tests/interop/go && go build -o $(CURDIR)/$(GO_PEER) .

peers-rabbitmq: $(RABBITMQ_ERL) ## fetch the real RabbitMQ 3.10.8 and its Erlang from Debian 12, once

$(RABBITMQ_ERL):
	@command -v apt-get >/dev/null && apt-cache policy rabbitmq-server | grep -q ' 3\.10\.8-' || { echo "peers-rabbitmq: needs apt-get and the packages of Debian 12" >&2; exit 1; }
	@echo "peers-rabbitmq: RabbitMQ 3.10.8 into $(RABBITMQ), about 35 MB; nothing is installed"
	@mkdir -p $(RABBITMQ)/packages
	@cd $(RABBITMQ)/packages && apt-get download --quiet rabbitmq-server $(addprefix erlang-,$(RABBITMQ_ERLANG))
	@for package in $(RABBITMQ)/packages/*.deb; do dpkg -x $$package $(RABBITMQ); done
	@sed -i 's#/usr/lib/erlang#$(CURDIR)/$(RABBITMQ)/usr/lib/erlang#g' $@

interop-rabbitmq: $(STAMP) $(PEERS_RABBITMQ) ## the real RabbitMQ 3.10.8: starts on our folders, answers HTTP as we do
	@$(BIN)/python -m pytest tests/interop/test_rabbitmq_folders.py tests/interop/test_rabbitmq_management.py -m interop -v -rs

peers-amqp: $(STAMP) ## fetch the suites of AMQP clients, and what they run with, once
	@PYTHON=$(CURDIR)/$(BIN)/python make/peers-amqp.sh .peers/amqp

SUITES ?=
JOBS ?= 1

interop-amqp: $(STAMP) $(PEERS_RABBITMQ) peers-amqp ## the clients' own suites (SUITES, or all), against RabbitMQ 3.10.8 and Sprocket
	@$(BIN)/python -m tests.interop.suites --jobs $(JOBS) $(SUITES)

interop-java: $(STAMP) $(PEERS) ## the official Java clients, mqadmin and the real broker against Sprocket
	@$(BIN)/python -m pytest tests/interop -m interop -v -rs --deselect tests/interop/test_go_client.py

interop-client: $(STAMP) $(if $(SPROCKET_ROCKETMQ_LIB),,$(ROCKETMQ_JAR)) ## our Python client, the same tests against Sprocket and the real RocketMQ 5.3.3
	@$(BIN)/python -m pytest tests/interop/test_client_*.py -m interop -v -rs

interop-ha: $(STAMP) $(if $(SPROCKET_ROCKETMQ_LIB),,$(ROCKETMQ_JAR)) $(if $(SPROCKET_ROCKETMQ_4_LIB),,$(CLIENT_4_JAR)) ## pairs with the real RocketMQ 5.3.3 in either role: 200,000 messages, 200 cut links, kills, reads from our slave by its Java clients (10 minutes)
	@$(BIN)/python -m pytest tests/interop/test_ha.py tests/interop/test_replicas.py tests/interop/test_reading_slaves.py -m "nightly or not nightly" -v -rs --timeout 1800

interop-go: $(STAMP) $(PEERS_GO) ## the official Go client against Sprocket
	@$(BIN)/python -m pytest tests/interop/test_go_client.py tests/interop/test_traces.py::test_we_show_traces_of_go -m interop -v -rs

bench-rocketmq: $(STAMP) $(PEERS) ## messages per second and per CPU second, ours and RocketMQ's, broker and client
	@code=0; for part in rocketmq clients; do \
		$(BIN)/python -m bench.$$part; ended=$$?; if [ $$ended -gt $$code ]; then code=$$ended; fi; \
	done; exit $$code

bench-grpc: $(STAMP) $(if $(SPROCKET_ROCKETMQ_PROXY_LIB),,$(PROXY_JAR)) ## raw sends over gRPC: our rate, CPU and memory beside those of RocketMQ's proxy 5.3.3 (8 minutes)
	@code=0; for part in grpc_rates grpc_idle; do \
		$(BIN)/python -m bench.$$part; ended=$$?; if [ $$ended -gt $$code ]; then code=$$ended; fi; \
	done; exit $$code

bench-ha: $(STAMP) $(if $(SPROCKET_ROCKETMQ_LIB),,$(ROCKETMQ_JAR)) ## what a slave costs: our pair beside RocketMQ's, ours with a slave and without, a slave that catches up (6 minutes, 15 GB of disk, all removed)
	@$(BIN)/python -m bench.replicas

bench-rabbitmq: $(STAMP) $(PEERS_RABBITMQ) ## the same of AMQP, ours and RabbitMQ's, start-up and memory (12 minutes, 10 GB of disk, all removed)
	@code=0; for part in rabbitmq amqp_opening; do \
		$(BIN)/python -m bench.$$part; ended=$$?; if [ $$ended -gt $$code ]; then code=$$ended; fi; \
	done; exit $$code

torture: $(STAMP) ## kill -9 under load: the broker, its transactions, its timed messages and the AMQP broker in 200 rounds each, consumers that pop and clients of gRPC in 40, Spark's streaming queries and its sink 50 times
	@export SPROCKET_KILL_ROUNDS=200 SPROCKET_POP_KILLS=40 SPROCKET_GRPC_KILLS=40 SPROCKET_SPARK_KILLS=50 SPROCKET_KILL_SEED=$${SPROCKET_KILL_SEED:-$$RANDOM}; \
		$(BIN)/python -m pytest tests/crash/test_kill.py tests/crash/test_transaction_kill.py tests/crash/test_timed_kill.py tests/crash/test_pop_kill.py tests/crash/test_grpc_kill.py tests/crash/test_amqp.py tests/crash/test_spark_kill.py -s -m "nightly or not nightly" --timeout 3600
