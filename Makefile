# Needs Python 3.11 or newer and make; everything else is set up in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test test-long lint bench bench-faults reference docs man clean

demo: $(VENV)/ready
	$(BIN)/medhelm demo

test: $(VENV)/ready-dev
	$(BIN)/python -m pytest -n auto -m "not long"

test-long: $(VENV)/ready-dev
	$(BIN)/python -m pytest -n auto -m long

lint: $(VENV)/ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/ready-dev
	$(BIN)/python bench/bench.py

bench-faults: $(VENV)/ready-dev
	$(BIN)/python -m bench.studies.faults

reference: $(VENV)/ready-dev
	$(BIN)/python -m tools.checked_definitions
	$(BIN)/python -m tools.reference

docs: $(VENV)/ready-docs
	$(BIN)/python -m tools.site

man: $(VENV)/ready
	$(BIN)/python -m tools.man

# The package alone; then what development needs as well; then the site's generator.
$(VENV)/ready: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "medhelm needs Python 3.11 or newer, this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/ready-dev: $(VENV)/ready
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable . --group dev
	@touch $@

$(VENV)/ready-docs: $(VENV)/ready-dev
	$(BIN)/python -m pip install --quiet --group docs
	@touch $@

clean:
	rm -rf $(VENV) build
