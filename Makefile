# make setup   .venv with everything, pinned by constraints.txt, and CPU torch
# make demo    the first notebook from beginning to end, without a screen
# make test    lint, types and the whole test suite
# make lab     JupyterLab on the first notebook

PYTHON ?= python3
# A package index that has CPU builds of torch, where the usual one has only GPU builds. Empty: the usual one.
TORCH_INDEX ?=
# More arguments of JupyterLab, such as --no-browser.
LAB ?=

BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: setup demo test lab clean

setup: .venv/.installed

.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) torch hatchling editables
	$(PIP) --no-build-isolation --editable '.[dev]'
	touch $@

demo: setup
	$(BIN)/python notebooks/run.py notebooks/01-first-run.ipynb

test: setup
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest

lab: setup
	mkdir -p build/lab && cd build/lab && ../../$(BIN)/workbench lab -- $(LAB)

clean:
	rm -rf build dist .venv
