# make setup   .venv with everything, pinned by constraints.txt, and CPU torch
# make demo    the first notebook from beginning to end, without a screen
# make test    lint, types and the test suite
# make test-slow  the two tests of minutes that make test leaves out
# make test-xla  the tests of the XLA device, with torch_xla in build/xla (7 GB: PyPI's torch 2.9 brings CUDA)
# make audit   known vulnerabilities of the pinned packages (asks pypi.org), and audit-offline
# make audit-offline  the lint, with its rules for security, and that what is installed fits together; needs no network
# make lab     JupyterLab on the first notebook

PYTHON ?= python3
# A package index that has CPU builds of torch, where the usual one has only GPU builds. Empty: the usual one.
TORCH_INDEX ?=
# More arguments of JupyterLab, such as --no-browser.
LAB ?=

BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: setup demo test test-slow test-xla audit audit-offline lab clean

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

test-slow: setup
	$(BIN)/python -m pytest -m slow

# torch_xla 2.9 needs torch 2.9, so it has an environment of its own; all else is as constraints.txt has it.
test-xla: build/xla/.installed
	PJRT_DEVICE=CPU build/xla/bin/python -m pytest tests/learner/test_xla.py

build/xla/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv build/xla
	grep -v '^torch==' constraints.txt > build/xla/constraints.txt
	build/xla/bin/python -m pip install --quiet --disable-pip-version-check --constraint build/xla/constraints.txt \
		$(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) torch==2.9.0 torch_xla==2.9.0 hatchling editables \
		pytest pytest-timeout
	build/xla/bin/python -m pip install --quiet --disable-pip-version-check --constraint build/xla/constraints.txt \
		--no-build-isolation --editable .
	touch $@

# --strict: a package that the advisories do not know fails, where it would be passed over. Builds with a local version,
# such as torch's for CPUs, are asked for as the release that they are.
audit: audit-offline build/audit/.installed
	sed 's/+[a-z0-9.]*$$//' constraints.txt > build/audit/requirements.txt
	build/audit/bin/pip-audit --strict --no-deps --disable-pip --progress-spinner off \
		--requirement build/audit/requirements.txt

audit-offline: setup
	$(BIN)/ruff check .
	$(BIN)/python -m pip check

build/audit/.installed:
	$(PYTHON) -m venv build/audit
	build/audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit==2.10.1
	touch $@

lab: setup
	mkdir -p build/lab && cd build/lab && ../../$(BIN)/workbench lab -- $(LAB)

clean:
	rm -rf build dist .venv
