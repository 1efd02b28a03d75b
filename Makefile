# Two commands: `make quickstart` and `make test`. Each first installs its requirements into .venv from the
# locks in requirements/, unless the locks have not changed. The machine needs Python 3.11 or newer, its pip,
# and make.

VENV ?= .venv
# The first interpreter on the PATH that is new enough; `make PYTHON=/path/to/python` overrides it.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && exit; done; \
	echo python3)

BIN := $(VENV)/bin
# Stamps: an empty file marks a lock as installed in this environment.
TOOLS := $(VENV)/.installed-tools
PACKAGE := $(VENV)/.installed-package
TRAIN := $(VENV)/.installed-train
DEV := $(VENV)/.installed-dev
CUDA := $(VENV)/.installed-cuda
INSTALL = $(BIN)/uv pip install --python $(BIN)/python

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help quickstart test apart chaos fuzz cuda cuda-wheels check format lock image clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s%s\n", $$1, $$2}' $(MAKEFILE_LIST)

quickstart: $(TRAIN) $(PACKAGE) ## train, evaluate and export a small model with recipes/quickstart
	$(BIN)/recipe run recipes/quickstart

JOBS ?= 2
test: $(DEV) $(PACKAGE) ## run the tests in JOBS (2) processes; PYTEST_ARGS="-k name" goes to pytest
	$(BIN)/python -m pytest -n $(JOBS) --dist loadscope $(PYTEST_ARGS)

# These pin libraries in conflicting versions: their tests need separate environments.
ELSEWHERE := $(VENV)/elsewhere
APPS := $(VENV)/appworld
apart: $(ELSEWHERE)/.installed $(APPS)/.installed $(DEV) $(PACKAGE) ## run the tests of W&B, MLflow, Trackio, reasoning-gym, TextArena, AppWorld
	POSTTRAIN_TEST_APART=1 PYTHONPATH=spec:compiler:runtime POSTTRAIN_TEST_TEXTARENA=$(abspath $(ELSEWHERE))/bin/python \
	POSTTRAIN_TEST_APPWORLD=$(abspath $(APPS))/bin/python $(ELSEWHERE)/bin/python -m pytest $(PYTEST_ARGS) \
	tests/runtime/trackers/test_trackers.py tests/runtime/data/test_reasoning_gym.py tests/runtime/environments/test_external_environments.py
	POSTTRAIN_TEST_APPWORLD=$(abspath $(APPS))/bin/python $(BIN)/python -m pytest $(PYTEST_ARGS) \
	tests/recipes/test_full_recipes.py -k appworld

N ?= 500
chaos: $(DEV) $(PACKAGE) ## inject N faults (500) into runs: kills, full disks, damage, clock jumps; SEED=7 repeats
	$(BIN)/python -m tests.runtime.chaos --faults $(N) $(if $(SEED),--seed $(SEED))

SECONDS ?= 600
fuzz: $(DEV) $(PACKAGE) ## mutate recipes and compile them, for SECONDS; installs atheris
	$(INSTALL) -q atheris
	$(BIN)/python -m tests.compiler.fuzz_atheris --seconds $(SECONDS)

# On the locked stack; with STACK=host on the packages of PYTHON, plus those of PIECES (perf/cuda/README.md).
STACK ?= locked
CUDA_NEEDS := $(if $(filter host,$(STACK)),,$(if $(DRY),$(DEV),$(CUDA)) $(PACKAGE))
cuda: $(CUDA_NEEDS) ## measure on this machine's NVIDIA GPU; PART=memory one part, DRY=1 on a CPU, STACK=host
	$(if $(filter host,$(STACK)),$(PYTHON),$(BIN)/python) -m perf.cuda $(PART) $(if $(DRY),--dry) \
	--stack $(STACK) $(if $(PIECES),--pieces $(PIECES)) $(if $(OUT),--out $(OUT)) $(if $(IMAGE),--image $(IMAGE))

cuda-wheels: $(DEV) ## collect in .wheels the packages that a GPU host without network lacks
	$(BIN)/python -m perf.cuda.wheels collect --to .wheels

check: $(DEV) $(PACKAGE) ## check lint, formatting, types and import contracts
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports --no-logo

format: $(DEV) ## format the code and apply the linter's fixes
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# The largest lock comes first and constrains the others, so that all use one version of a package.
# Locked versions do not change without UPGRADE=1.
LOCK = $(BIN)/uv pip compile -q pyproject.toml --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --custom-compile-command 'make lock' $(if $(UPGRADE),--upgrade)
SAME = -c requirements/cuda.txt

image: ## build the CPU image, posttrain-cpu:latest; BASE=... and TAG=... override base and tag
	containers/build cpu $(or $(TAG),posttrain-cpu:latest) $(if $(BASE),--build-arg BASE=$(BASE))

lock: $(TOOLS) ## regenerate requirements/*.txt from pyproject.toml; UPGRADE=1 selects newer versions
	$(LOCK) --extra train --extra cuda -o requirements/cuda.txt
	$(LOCK) $(SAME) --extra train -o requirements/train.txt
	$(LOCK) $(SAME) -o requirements/base.txt
	$(LOCK) $(SAME) --extra train --group dev -o requirements/dev.txt
	$(LOCK:pyproject.toml=) --group tools -o requirements/tools.txt
	$(LOCK) -c requirements/base.txt --extra trackers --extra reasoning-gym --group apart -o requirements/apart.txt
	$(LOCK:pyproject.toml=) --group appworld -o requirements/appworld.txt

clean: ## remove caches and builds; keep .venv and .recipe
	rm -rf build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find spec compiler runtime recipes tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	echo 'posttrain needs Python 3.11 or newer; "$(PYTHON)" is older or missing. Install one, or name it:'; \
	echo '    make PYTHON=/path/to/python3.11 ...'; exit 1; }
	@$(PYTHON) -m pip --version >/dev/null 2>&1 || { \
	echo '"$(PYTHON)" has no pip. Install it (Debian: apt-get install python3-pip), then run make again.'; \
	exit 1; }
	@echo 'Creating an environment in $(VENV)'
	@$(PYTHON) -m venv --without-pip $(VENV)

$(TOOLS): requirements/tools.txt | $(BIN)/python
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	echo 'The environment in $(VENV) has a Python older than 3.11. Remove it and run make again.'; exit 1; }
	@echo 'Installing uv and the build tools'
	@$(PYTHON) -m pip -qq --python $(BIN)/python install --require-hashes -r requirements/tools.txt
	@touch $@

$(TRAIN): requirements/train.txt $(TOOLS)
	@echo 'Installing the training stack (several GB the first time)'
	@$(INSTALL) --require-hashes -r requirements/train.txt
	@touch $@

$(DEV): requirements/dev.txt $(TOOLS)
	@echo 'Installing the training stack and the test tools (several GB the first time)'
	@$(INSTALL) --require-hashes -r requirements/dev.txt
	@touch $@

$(CUDA): requirements/cuda.txt $(TOOLS)
	@echo 'Installing the training stack for NVIDIA GPUs (several GB the first time)'
	@$(INSTALL) --require-hashes -r requirements/cuda.txt
	@touch $@

$(ELSEWHERE)/.installed: requirements/apart.txt $(TOOLS)
	@echo 'Creating an environment in $(@D)'
	@$(BIN)/uv venv -q --clear --python $(BIN)/python $(@D)
	@$(BIN)/uv pip install -q --python $(@D)/bin/python --require-hashes -r requirements/apart.txt
	@touch $@

$(APPS)/.installed: requirements/appworld.txt $(TOOLS)
	@echo 'Creating an environment in $(@D)'
	@$(BIN)/uv venv -q --clear --python $(BIN)/python $(@D)
	@$(BIN)/uv pip install -q --python $(@D)/bin/python --require-hashes -r requirements/appworld.txt
	@APPWORLD_CACHE=$(@D)/cache $(@D)/bin/appworld install
	@touch $@

$(PACKAGE): pyproject.toml $(TOOLS)
	@echo 'Installing posttrain itself'
	@$(INSTALL) -q --no-deps --no-build-isolation -e .
	@$(BIN)/python -m compileall -q spec compiler runtime $$($(BIN)/python -c \
	'import click, ruamel.yaml as y; print(*(m.__path__[0] for m in (click, y)))')
	@touch $@
