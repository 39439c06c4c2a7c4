# make setup   .venv with everything, pinned by constraints.txt, and CPU torch
# make demo    lesson 1 from beginning to end, without a screen
# make test    lint, types and, for every promise, widget, lesson, launcher and algorithm, at least one test
# make test-all  every test but for those of the three environments that follow
# make test-xla  the tests of the XLA device, with torch_xla in build/xla (7 GB: its torch 2.9 brings CUDA)
# make test-football  the tests of upstream's football engine, compiled in build/football
# make test-trackers  the tests of Weights & Biases, MLflow and Trackio, offline, with their packages in build/trackers
# make test-s3  the tests of storage, with a server of our own that speaks S3, in build/s3
# make test-recipes  recipes as SkyPilot, Kubernetes' schemas and Slurm read them, with their packages in build/recipes
# make test-hub  a run behind JupyterHub and an SSH tunnel, in a browser, with the hub in build/hub; needs npm
# make test-ray-dashboard  what Ray's dashboard and metrics show of a run, with ray[default] in build/ray-dashboard
# make test-pythons  the wheel and its extras in a bare environment of each of PYTHONS: a run, every family of environments
# make audit   known vulnerabilities of the pinned packages; it asks the package index for them
# make docs    the site of the documentation in build/site, strictly; LESSONS=executed runs the fast lessons for it first
# make pages   the pages of docs/ that are made from the code
# make lab     JupyterLab on the lessons

PYTHON ?= python3
# A package index that has CPU builds of torch, where the usual one has only GPU builds. Empty: the usual one.
TORCH_INDEX ?=
# Processes that share the tests. Many tests wait for processes of their own, so two are faster than one on two cores.
WORKERS ?= 2
# Interpreters for make test-pythons: commands, or paths.
PYTHONS ?= python3.11 python3.12 python3.13
# More arguments of pytest, such as tests/wire, and of JupyterLab, such as --no-browser.
TESTS ?=
LAB ?=
# executed: make docs runs the lessons that are fast, and the site shows their outputs.
LESSONS ?=

# A test run starts hundreds of processes: they read what the first of them compiled, whatever the shell has set.
export PYTHONDONTWRITEBYTECODE :=

BIN := .venv/bin
INSTALL := -m pip install --quiet --disable-pip-version-check --constraint
FROM_INDEX := $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
ENGINE_NEEDS := build-essential cmake libsdl2-dev libsdl2-image-dev libsdl2-ttf-dev libsdl2-gfx-dev \
	libboost-python-dev libboost-thread-dev libboost-filesystem-dev libglvnd-dev libgl1

SLURM_PACKAGES := slurm-client slurmctld slurm-wlm-basic-plugins

.PHONY: setup demo lint test test-all test-xla test-football test-trackers test-s3 test-recipes test-hub test-ray-dashboard test-pythons audit docs pages lab clean

setup: .venv/.installed

.venv/.installed: pyproject.toml constraints.txt
	@echo "Some 3 GB of packages are installed into .venv, in two steps of a minute or more each, the first of them torch."
	$(PYTHON) -m venv .venv
	$(BIN)/python $(INSTALL) constraints.txt $(FROM_INDEX) torch hatchling editables
	$(BIN)/python $(INSTALL) constraints.txt --no-build-isolation --editable '.[dev]'
	touch $@

demo: setup
	$(BIN)/python notebooks/run.py notebooks/01-first-run.ipynb

lint: setup
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pip check

test: lint
	$(BIN)/python -m pytest -n $(WORKERS) $(TESTS)

test-all: lint
	$(BIN)/python -m pytest -n $(WORKERS) -m '' $(TESTS)

# torch_xla 2.9 needs torch 2.9, so it has an environment of its own; all else is as constraints.txt has it.
test-xla: build/xla/.installed
	PJRT_DEVICE=CPU build/xla/bin/python -m pytest -m '' tests/learner/test_xla.py

build/xla/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv build/xla
	grep -v '^torch==' constraints.txt > build/xla/constraints.txt
	build/xla/bin/python $(INSTALL) build/xla/constraints.txt $(FROM_INDEX) \
		torch==2.9.0 torch_xla==2.9.0 hatchling editables pytest pytest-timeout pytest-xdist
	build/xla/bin/python $(INSTALL) build/xla/constraints.txt --no-build-isolation --editable .
	touch $@

# gfootball's pygame and our pygame-ce install one module, so it has an environment of its own, too.
test-football: build/football/.installed
	build/football/bin/python -m pytest -m '' tests/environments/test_football_engine.py

build/football/.installed: pyproject.toml constraints.txt
	@mkdir -p build && dpkg-query --show $(ENGINE_NEEDS) > build/needs.txt || \
		{ echo "The engine is compiled with packages of Debian: apt-get install --no-install-recommends $(ENGINE_NEEDS)"; exit 1; }
	$(PYTHON) -m venv build/football
	build/football/bin/python $(INSTALL) constraints.txt $(FROM_INDEX) \
		torch hatchling editables setuptools wheel psutil pytest pytest-timeout pytest-xdist
	PATH="$(CURDIR)/build/football/bin:$$PATH" CMAKE_POLICY_VERSION_MINIMUM=3.5 build/football/bin/python $(INSTALL) constraints.txt \
		--no-build-isolation --editable '.[football,football-engine]'
	touch $@

# trackio wants another pillow than ours, and the three bring 250 MB, so they have an environment of their own, too.
test-trackers: build/trackers/.installed
	build/trackers/bin/python -m pytest -m '' tests/trackers tests/running/test_model_card.py

build/trackers/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv build/trackers
	grep -v '^pillow==' constraints.txt > build/trackers/constraints.txt
	build/trackers/bin/python $(INSTALL) build/trackers/constraints.txt $(FROM_INDEX) \
		torch hatchling editables pytest pytest-timeout pytest-xdist
	build/trackers/bin/python $(INSTALL) build/trackers/constraints.txt --no-build-isolation --editable \
		'.[wandb,mlflow,trackio]'
	touch $@

# ray[default] brings 40 packages for a dashboard, which no run needs.
test-ray-dashboard: build/ray-dashboard/.installed
	build/ray-dashboard/bin/python -m pytest -n0 -m '' tests/launchers/test_ray_dashboard.py

build/ray-dashboard/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv build/ray-dashboard
	build/ray-dashboard/bin/python $(INSTALL) constraints.txt $(FROM_INDEX) \
		torch hatchling editables pytest pytest-timeout pytest-xdist
	build/ray-dashboard/bin/python $(INSTALL) constraints.txt --no-build-isolation --editable '.[ray]' 'ray[default]'
	touch $@

# botocore wants another dateutil than ours.
test-s3: build/s3/.installed
	build/s3/bin/python -m pytest -m '' tests/copies

build/s3/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv build/s3
	grep -v '^python-dateutil==' constraints.txt > build/s3/constraints.txt
	build/s3/bin/python $(INSTALL) build/s3/constraints.txt $(FROM_INDEX) \
		torch hatchling editables pytest pytest-timeout pytest-xdist 'moto[server]>=5.2,<6'
	build/s3/bin/python $(INSTALL) build/s3/constraints.txt --no-build-isolation --editable '.[s3]'
	touch $@

# SkyPilot brings 80 packages with pins of their own, and none of ours is needed to read a file: build/recipes has it
# without the workbench. Slurm's programs are unpacked, not installed; without apt-get the tests of Slurm are skipped.
test-recipes: setup build/recipes/.installed
	$(BIN)/python -m pytest -n0 -m '' tests/planning/test_schedulers.py tests/planning/test_recipes.py

build/recipes/.installed:
	$(PYTHON) -m venv build/recipes
	build/recipes/bin/python -m pip install --quiet --disable-pip-version-check skypilot==0.14.1 \
		kubernetes-validate==1.37.0
	mkdir -p build/recipes/slurm
	! command -v apt-get > /dev/null || { cd build/recipes/slurm && apt-get download $(SLURM_PACKAGES) && \
		for package in *.deb; do dpkg -x $$package .; done; }
	touch $@

test-hub: build/hub/.installed
	build/hub/bin/python -m pytest -n0 -m '' tests/browser/test_hub.py

# The servers of a hub's users need both the workbench and JupyterHub.
build/hub/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv build/hub
	build/hub/bin/python $(INSTALL) constraints.txt $(FROM_INDEX) torch hatchling editables
	build/hub/bin/python $(INSTALL) constraints.txt --no-build-isolation --editable '.[dev]' \
		jupyterhub==6.1.1 asyncssh==2.24.1
	npm install --silent --prefix build/hub configurable-http-proxy@5.3.0
	touch $@

test-pythons: setup
	rm -rf build/pythons/dist
	$(BIN)/python -m build --wheel --no-isolation --outdir build/pythons/dist . > /dev/null
	$(BIN)/python tests/pythons/bare.py build/pythons/dist/*.whl $(PYTHONS) \
		$(if $(TORCH_INDEX),--torch-index $(TORCH_INDEX))

# --strict: a package that the advisories do not know fails, where it would be passed over. Builds with a local version,
# such as torch's for CPUs, are asked for as the release that they are.
audit: build/audit/.installed
	sed 's/+[a-z0-9.]*$$//' constraints.txt > build/audit/requirements.txt
	build/audit/bin/pip-audit --strict --no-deps --disable-pip --progress-spinner off \
		--requirement build/audit/requirements.txt

build/audit/.installed:
	$(PYTHON) -m venv build/audit
	build/audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit==2.10.1
	touch $@

# Sphinx and its theme have an environment of their own, which loads none of ours: the pages are plain Markdown.
docs: build/docs/.installed $(if $(LESSONS),setup)
	git ls-files '*.md' '*.py' '*.ipynb' '*.dot' '*.ts' '*.js' | grep -v /static/ | \
		xargs build/docs/bin/codespell --ignore-words docs/site/spelling.txt
	build/docs/bin/python docs/site/build.py $(if $(LESSONS),--execute $(BIN)/python)

build/docs/.installed: docs/site/requirements.txt
	$(PYTHON) -m venv build/docs
	build/docs/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --requirement docs/site/requirements.txt
	touch $@

pages: setup
	for page in algorithms api commands errors fields lessons metrics; do $(BIN)/python docs/$$page.py || exit 1; done

lab: setup
	mkdir -p build/lab && cd build/lab && ../../$(BIN)/workbench lab -- $(LAB)

clean:
	rm -rf build dist .venv
