# make setup | make demo | make test        (only Python 3.11+, git, make and a package index are needed)
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
# the real data sets, where this machine has them: tests that need them skip elsewhere
export ENTRENOUS_SHARED ?= $(wildcard $(abspath ../shared/data))

.PHONY: help setup demo federation gossip test test-slow failures lint clean
help:
	@echo "make demo   train FPL on MovieLens-100K, evaluate, recommend, write a report"
	@echo "make federation  a server and 4 nodes over TLS on this machine; the model of the simulation, bit for bit"
	@echo "make gossip 16 peers without a server; some are killed, the rest goes on"
	@echo "make test   run the tests; make test-slow: those that take minutes"
	@echo "make failures   run the failure tests, slow ones too, and write docs/failures.md"
	@echo "make setup  only set up .venv (done by the others when needed)"

setup: $(STAMP)

# pip runs again only when pyproject.toml changes, so a second run needs no network
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: $(PYTHON) is older than 3.11; install Python 3.11+ or run: make $(MAKECMDGOALS) PYTHON=python3.11" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	@touch $(STAMP)

demo: setup
	@$(BIN)/entrenous demo

federation: setup
	@$(BIN)/entrenous federation try

gossip: setup
	@$(BIN)/entrenous peer try

test: setup
	$(BIN)/python -m pytest -q -n auto --dist loadfile

failures: setup
	$(BIN)/python tests/pass_table.py

test-slow: setup
	$(BIN)/python -m pytest -q -m slow --timeout 1800

lint: setup
	$(BIN)/ruff check src tests
	$(BIN)/mypy

clean:
	rm -rf $(VENV) runs
