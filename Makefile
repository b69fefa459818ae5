# `make demo` and `make test` need nothing but Python 3.11 or later: each sets up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TOOLS := $(VENV)/.tools
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test lint docs release-check bench bench-full bench-parts hostile faults clean

demo: $(VENV)/.ready
	$(BIN)/dualmetric demo

test: $(TOOLS)
	$(BIN)/python -m pytest -n auto

lint: $(TOOLS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.docs
	$(BIN)/sphinx-build -E -W --keep-going -b html docs docs/_build/html

# Before a release: build, check, and install in clean environments with each extra.
release-check:
	.ci/release

# `make bench` prints, and stores nothing. `make bench-full` writes benchmarks/results and the page.
bench: $(TOOLS)
	$(BIN)/python benchmarks/peers.py --trial golub su digits

bench-full: $(TOOLS)
	$(BIN)/python benchmarks/peers.py install
	$(BIN)/python benchmarks/chooser.py scores
	$(BIN)/python benchmarks/supervision.py new_classes few_labels
	$(BIN)/python benchmarks/core.py parts
	$(BIN)/python benchmarks/tried.py
	$(BIN)/python benchmarks/peers.py
	$(BIN)/python benchmarks/peers_page.py

bench-parts: $(TOOLS)
	$(BIN)/python benchmarks/core.py
	$(BIN)/python benchmarks/wide.py text words tdt30 usps
	$(BIN)/python benchmarks/tables.py

# Hostile input and faults at random moments: make hostile SEED=7 COUNT=5000, or MINUTES=60. Cases that
# fail are kept in build/hostile. Counts of the documentation are made by
# make hostile faults COUNT=20000 CAMPAIGNS=tests/hostile/results.jsonl, then docs/store_reliability.py
SEED ?= 0
COUNT ?= 1000
MINUTES ?= inf
CAMPAIGNS ?= build/hostile/results.jsonl
CAMPAIGN := --seed $(SEED) --count $(COUNT) --minutes $(MINUTES) --results $(CAMPAIGNS)
HOSTILE := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 PYTHONPATH=src:tests $(BIN)/python -m hostile

hostile: $(TOOLS)
	$(HOSTILE).campaign fits $(CAMPAIGN)
	$(HOSTILE).campaign files $(CAMPAIGN)
	$(HOSTILE).campaign requests $(CAMPAIGN)

faults: $(TOOLS)
	$(HOSTILE).faults $(CAMPAIGN)

$(VENV)/.ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or later is needed: make PYTHON=/path/to/python3.11" if sys.version_info < (3, 11) else 0)'
	@echo "Setting up $(VENV): this takes a minute or two the first time"
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[plot]'
	@touch $@

$(TOOLS): $(VENV)/.ready
	@echo "Installing what tests and lint need"
	$(PIP) --editable '.[test,lint]'
	@touch $@

$(VENV)/.docs: $(VENV)/.ready
	@echo "Installing what the documentation needs"
	$(PIP) --editable '.[docs]'
	@touch $@

clean:
	rm -rf $(VENV) build docs/_build dist .pytest_cache .mypy_cache .ruff_cache
