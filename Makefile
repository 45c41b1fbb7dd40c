# make demo | make test        (only Python 3.11+, git, make and a package index are needed)
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# the real data sets, where this machine has them: tests that need them skip elsewhere
export ENTRENOUS_SHARED ?= $(wildcard $(abspath ../shared/data))
# bytecode is kept whatever the environment says: the tests start many interpreters, and pip compiles nothing here (below)
unexport PYTHONDONTWRITEBYTECODE

# what a clone installs beside the package: its neighbours and, for its tests, the laboratory and the adapter of Flower
NEIGHBOURS := \
  packages/entrenous-audit \
  packages/entrenous-field \
  packages/entrenous-network \
  packages/entrenous-ray
BESIDE := $(NEIGHBOURS) packages/entrenous-flower lab
DECLARED := pyproject.toml $(BESIDE:=/pyproject.toml)
EDITABLE := $(addprefix -e ,$(BESIDE))
# worksteal: whoever is done takes tests from the other, so that one long file keeps nobody waiting
# two workers more than cores: tests of processes wait for them half of their time
WORKERS := $(shell $(PYTHON) -c 'import os; print(os.cpu_count() + 2)')
PYTEST := $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal

.PHONY: help setup lock demo federation gossip test tests test-slow test-all lint style types failures mutants model evidence papers daily papers-docs docs dist lowest clean
help:
	@echo "make demo   train FPL on MovieLens-100K, evaluate, recommend, write a report"
	@echo "make federation  40 people over TLS on this machine, who come while rounds are made"
	@echo "make gossip 16 peers without a server; then what they did, again in one process"
	@echo "make test   check style and types, run the tests; those of lab and packages only if what they test has changed"
	@echo "make test-slow  the tests that take minutes"
	@echo "make test-all   all tests, and record for which source those of lab and packages passed"
	@echo "make lint   check style and types only"
	@echo "make failures   run the failure tests, slow ones too, and write docs/results/failures.md"
	@echo "make mutants    put a hundred small faults into copies of the source, one at a time: which tests notice? (ARGS=--list, ARGS=NAME)"
	@echo "make model      check the model of the secure sum in every order and under every choice of the server (needs spin and gcc)"
	@echo "make evidence   audit the algorithms on MovieLens-100K, and write what \`entrenous explain\` and docs/results/measured.md repeat (a quarter of an hour)"
	@echo "make papers     run every table and figure whose stored result in lab/results is absent or not fresh; goes on where it was stopped (ARGS=--list, ARGS=--confirm, ARGS=NAME)"
	@echo "make daily      begin the samples of three cheap results of today again (minutes); all come round"
	@echo "make papers-docs  fill the tables of docs/ and the pages of claims and coverage from lab/results"
	@echo "make docs       execute the tutorials, write the generated pages, and build the site into build/site (links checked, no network)"
	@echo "make dist       build the wheel and the source distribution into dist/, and check them"
	@echo "make lowest     try the lowest versions of all extras in an environment of their own"
	@echo "make lock   write requirements-dev.lock anew, which make setup LOCKED=1 installs from (UPGRADE=1: newer versions)"
	@echo "make setup  only set up .venv for the tests (each of the others sets up what it needs)"

# one .venv, one stamp for each set of extras: pip runs again only when pyproject.toml changes, so a second run needs no network;
# --no-compile: what is imported is compiled then, the rest never (55 MB and 15 s less)
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: $(PYTHON) is older than 3.11; install Python 3.11+ or run: make $(MAKECMDGOALS) PYTHON=python3.11" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

# make setup LOCKED=1, make test LOCKED=1: the versions and hashes of requirements-dev.lock, and nothing else from the index
ifneq ($(LOCKED),)
$(VENV)/.with-dev: $(DECLARED) requirements-dev.lock | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-index --no-deps --no-build-isolation -e . $(EDITABLE)
	@touch $@

$(VENV)/.torch: $(VENV)/.with-dev
	@echo "PyTorch is not in requirements-dev.lock: the tests of vae will skip"
	@touch $@
else
$(VENV)/.with-dev: $(DECLARED) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -e ".[dev]" $(EDITABLE)
	@touch $@

# PyTorch only from a wheel that pip finds on this machine (--find-links): an index may serve 3 GB; without it the tests of vae skip
$(VENV)/.torch: $(VENV)/.with-dev
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-index --no-deps torch 2>/dev/null \
	  && $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -e ".[torch]" \
	  || echo "no wheel of PyTorch on this machine: the tests of vae will skip (pip install torch brings it)"
	@touch $@
endif

# entrenous[all], with the neighbours of this clone
$(VENV)/.with-all: $(DECLARED) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -e ".[all]" $(addprefix -e ,$(NEIGHBOURS))
	@touch $@

setup: $(VENV)/.with-dev

# for every Python and system at once, from the index that uv is set up with; it names no index. UPGRADE=1 takes newer versions
lock: $(VENV)/.with-dev
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --extra dev --generate-hashes --no-annotate --no-emit-index-url \
	  --custom-compile-command "make lock" $(if $(UPGRADE),--upgrade) --output-file requirements-dev.lock pyproject.toml

demo: $(VENV)/.with-all
	@$(BIN)/entrenous demo

federation: $(VENV)/.with-all
	@$(BIN)/entrenous federation try --rounds 6

gossip: $(VENV)/.with-all
	@folder=$$(mktemp -d)/peers; $(BIN)/entrenous federation try $$folder --peers && $(BIN)/python -m entrenous_lab.trials.replayed $$folder

# types are checked beside the tests, which leave a core idle now and then
test: style $(VENV)/.torch
	@$(MAKE) --no-print-directory --jobs=2 types tests

tests: $(VENV)/.torch
	beside=$$($(BIN)/python tests/apart.py) && $(PYTEST) tests $$beside

lint: style types

style: $(VENV)/.with-dev
	$(BIN)/ruff check src tests lab packages
	$(BIN)/ruff format --check src tests lab packages

types: $(VENV)/.with-dev
	$(BIN)/mypy

failures: $(VENV)/.with-dev
	$(BIN)/python tests/pass_table.py

# the files of a release; RELEASE=0.2.0 also refuses another version and the placeholder of the address
dist: $(VENV)/.with-dev
	rm -rf dist
	$(BIN)/python -m hatchling build --directory dist
	for one in $(NEIGHBOURS); do (cd $$one && $(CURDIR)/$(BIN)/python -m hatchling build --directory $(CURDIR)/dist) || exit 1; done
	$(BIN)/python tests/release.py dist $(if $(RELEASE),--version $(RELEASE))

# the lowest versions that the extras declare, all at once, in an environment of their own
LOW := .venv-lowest
lowest: $(VENV)/.with-dev
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(LOW)
	$(BIN)/uv pip install --quiet --python $(LOW)/bin/python --resolution lowest-direct ".[implicit,privacy,network,ray]" $(NEIGHBOURS) \
	  "pytest>=8" "pytest-timeout>=2.3" "hypothesis>=6.100" "scipy>=1.13" "pandas>=2.2" "pyarrow>=23.0.1" "ir-measures>=0.3.7" "autograd>=1.7"
	PYTHONPATH=src:lab/src NUMBA_CACHE_DIR=$(LOW)/numba $(LOW)/bin/python -m pytest -q -p no:cacheprovider \
	  tests/core tests/report tests/evaluate tests/privacy tests/runs tests/api packages/entrenous-network/tests/test_server.py packages/entrenous-network/tests/test_secure.py

evidence: $(VENV)/.with-dev
	$(BIN)/python -m entrenous_lab.survey $(ARGS)

papers: $(VENV)/.torch
	$(BIN)/entrenous papers $(ARGS)

# outside of the results: what is recorded stays
daily: $(VENV)/.with-dev
	rm -rf build/daily && mkdir -p build && cp -r lab/results build/daily
	$(BIN)/entrenous papers --confirm --daily --out build/daily $(ARGS)

papers-docs: $(VENV)/.with-dev
	$(BIN)/entrenous papers --docs

docs: $(VENV)/.with-dev
	$(BIN)/python -m entrenous_lab.site
	$(BIN)/python -m entrenous_lab.site --stage build/docs
	$(BIN)/zensical build --clean --strict

mutants: $(VENV)/.with-dev
	$(BIN)/python tests/mutants/run.py --jobs 2 $(ARGS)

model: $(VENV)/.with-dev
	$(BIN)/python -m pytest -q -m "" --timeout 1800 -rs packages/entrenous-network/tests/adversary/test_model.py

test-slow: $(VENV)/.torch
	$(BIN)/python -m pytest -q -m slow --timeout 1800

test-all: lint $(VENV)/.torch
	$(PYTEST) -m "" --timeout 1800 tests
	$(BIN)/python tests/apart.py --record

clean:
	rm -rf $(VENV) $(LOW) dist runs
