# Every command for this folder. `make help` lists them.
# No target needs root or a compiler; `setup` needs Python 3.11+, `run` and `test` also Java 17.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# Python 3.11 or newer; if not given, make/python.sh chooses one.
PYTHON ?=
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
# Twice the cores of where they are timed: tests wait for disks, sockets, each other and Spark.
WORKERS ?= 4
# `make test COVERAGE=1` also measures how much of src/sprocket runs.
COVERAGE ?=
PYTEST := $(if $(COVERAGE),$(BIN)/coverage run -m pytest,$(BIN)/python -m pytest)
DISTRIBUTED := -n $(WORKERS) --dist loadgroup
# The tests start hundreds of processes, each of which would compile anew all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup run rabbit-run test check lint quick durations format wheel wheel-check release clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(STAMP) ## make .venv with the pinned versions, once

$(STAMP): constraints.txt make/install.sh src/sprocket/__init__.py
	@if test -e $(STAMP); then echo "setup: $(VENV) gets what is new in constraints.txt (make clean setup begins from nothing)"; exit; fi; \
		python="$(PYTHON)"; python="$${python:-$$(make/python.sh)}"; \
		test -n "$$python" || { echo "setup: no Python 3.11 or newer that can make environments (on Debian: python3-venv); set PYTHON=/path/to/python3" >&2; exit 1; }; \
		echo "setup: $(VENV) with $$("$$python" -V) ($$python), about 1.3 GB, a minute the first time"; \
		"$$python" -m venv --clear $(VENV)
	@make/install.sh $(VENV)
	@touch $(STAMP)

run: $(STAMP) ## the main job: a year of flights through the log into Spark
	@$(BIN)/python -m examples.flights

rabbit-run: $(STAMP) ## flights as Celery tasks through AMQP, a worker and the broker killed: about 2 minutes
	@$(BIN)/python -m examples.flight_tasks

test: $(STAMP) ## every test except the nightly ones and what `make lint` runs; each that could not run is named, and the slowest
	@$(if $(COVERAGE),rm -rf build/coverage && mkdir -p build/coverage)
	@$(PYTEST) $(DISTRIBUTED) --ignore tests/test_tidy.py -m "not nightly" -rfEs --durations 30
	@$(if $(COVERAGE),$(BIN)/coverage combine --quiet)
	@$(if $(COVERAGE),echo "coverage: $$($(BIN)/coverage report --format=total --precision=1) % of src/sprocket by branch; $(BIN)/coverage report says where")

check: $(STAMP) ## before each commit: lint, beside the quick tests of rooms and contracts
	@$(MAKE) --no-print-directory --output-sync=target -j 2 lint quick

quick: $(STAMP) ## the tests of rooms and contracts that take less than 2 seconds and no Spark
	@$(BIN)/python -m pytest tests/unit tests/contract $(DISTRIBUTED) -m "not nightly and not slow and not spark"

lint: $(STAMP) ## format, lint, types, import contracts, dead code, the tidy test
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m tests.dead_code
	@$(BIN)/python -m pytest tests/test_tidy.py

durations: $(STAMP) ## run all tests with a core for each worker, and record what they take, for the order of the next run and the budget
	@$(MAKE) --no-print-directory test WORKERS=$$($(BIN)/python -c 'import os; print(os.cpu_count())')
	@$(BIN)/python -m tests.durations

format: $(STAMP) ## repair what the formatter and the linter can
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

# Files in the archives bear the time of the last commit, so that everybody who builds it makes the same bytes.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null)
DIST ?= dist

wheel: $(STAMP) ## build dist/sprocketmq-*.tar.gz and from it dist/sprocketmq-*.whl: the same bytes each time
	@rm -f $(DIST)/sprocketmq-*
	@$(if $(SOURCE_DATE_EPOCH),SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH)) $(BIN)/python -m build --no-isolation --outdir $(DIST) .

wheel-check: $(STAMP) ## build both twice and compare; install the wheel for clients, brokers and Spark, and run each (needs the network)
	@$(BIN)/python -m pytest tests/test_wheel.py -m "nightly or not nightly" -s

release: $(STAMP) ## VERSION=X.Y.Z: the fragments in changes/ become its section of CHANGELOG.md, and the package gets that version
	@$(BIN)/python make/release.py . $(VERSION)

clean: ## remove .venv, builds, caches and the data of `make run` and `make rabbit-run`
	@rm -rf $(VENV) dist build flights-data flight-tasks-data spark-warehouse metastore_db
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

-include make/*.mk
