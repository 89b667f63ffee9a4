# What a person types. `make demo` needs Python 3.10+ alone; `make test` also Java 17+ and Maven, for a real Kafka broker.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.10; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
# The tests wait for processes as much as they compute: one worker more than a small machine has cores.
WORKERS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); echo $$((n < 4 ? n + 1 : n > 8 ? 8 : n)))
PIP := $(BIN)/python -m pip --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help demo test coverage check format unit chaos bench clean

help: ## Show this list
	@sed -n 's/^\([a-z]*\):.*## /\1|/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "  make %-8s %s\n", $$1, $$2}'

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "error: no Python 3.10 or newer was found; install one, or name it: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "error: this Python cannot make environments; on Debian and Ubuntu: apt install python3-venv"; exit 1; }

# A stamp per set of packages, so that a second `make demo` starts at once.
$(VENV)/installed-all: $(BIN)/python pyproject.toml
	@echo "installing tracejudge[all] into $(VENV) (about 800 MB, most of it the embedded ClickHouse engine) ..."
	@$(PIP) install --quiet --progress-bar off -e '.[all]'
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed-all
	@echo "installing the development tools into $(VENV) ..."
	@$(PIP) install --quiet --progress-bar off --upgrade 'pip>=25.1'
	@$(PIP) install --quiet --progress-bar off --group dev
	@touch $@

demo: $(VENV)/installed-all ## Run the main job on shipped traces, embedded: no key, no service
	@$(BIN)/tracejudge demo

test: check ## Format, lint, types, import rules, then every test, Kafka included
	@$(BIN)/python -m tests.support.announce
	$(BIN)/pytest -n $(WORKERS) --dist worksteal

coverage: $(VENV)/installed-dev ## The same tests, measuring which branches they reach: takes half as long again
	$(BIN)/pytest -n $(WORKERS) --dist worksteal --cov --cov-report=term:skip-covered

check: $(VENV)/installed-dev ## Format, lint, types and import rules: needs no service
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(VENV)/installed-dev ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

unit: $(VENV)/installed-dev ## The quick tests: no service, no engine
	$(BIN)/pytest tests/unit tests/property

chaos: $(VENV)/installed-dev ## Break everything at least five times over 20 000 traces on a real broker (SEED=1)
	TRACEJUDGE_CHAOS_PLANTED=1 $(BIN)/pytest -q tests/chaos -k notices
	$(BIN)/python -m tests.chaos.long_run --seed $(or $(SEED),1)

BENCHES ?= sdk consumer judging store sampling alerts replay lexical attacks

bench: $(VENV)/installed-dev ## Measure every room against its peers and goals (BENCHES="sdk store", ARGS=--quick; TRACEJUDGE_DATA)
	@missed=0; for name in $(BENCHES); do echo "== $$name"; $(BIN)/python -m tests.bench.$$name $(ARGS) || missed=1; done; exit $$missed

clean: ## Remove what this file made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage htmlcov tracejudge-demo
