# Weir's command surface: CI and people call the same targets. `make help` lists them.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

.DEFAULT_GOAL := help

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): pyproject.toml requirements.lock hatch_build.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "weir: Python 3.11 or newer is needed (PYTHON=$(PYTHON))" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: install
install: $(READY) ## make .venv with the locked dependencies and Weir in it

.PHONY: native
native: $(READY) ## compile the C parts where their sources changed; warnings are errors
	WEIR_STRICT=1 $(BIN)/python hatch_build.py

.PHONY: wheels
wheels: $(READY) ## wheels for x86-64 and aarch64 into dist/: they run on every Linux with glibc 2.17 or newer
	for target in x86_64 aarch64; do env -u CC WEIR_TARGET=$$target $(BIN)/hatchling build --target wheel || exit 1; done

.PHONY: demo
demo: native ## two slices and a greedy third on one GPU (simulated where there is none)
	$(BIN)/weir demo

.PHONY: test
test: native ## every test, after the linters
	$(MAKE) --no-print-directory lint
	$(BIN)/pytest

.PHONY: soak
soak: native ## a thousand kills in allocation loops, ten minutes of damaged pages (about 12 minutes)
	$(BIN)/pytest --soak --timeout 1800 -s tests/limiter/test_storm.py tests/limiter/test_fuzz.py

.PHONY: sanitize
sanitize: native ## the limiter's tests on builds with address, undefined-behaviour and thread sanitizers (4 minutes)
	$(BIN)/python -m tests.sanitize

.PHONY: lint
lint: $(READY) ## ruff, mypy, import contract, lines of C
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@! LC_ALL=C.UTF-8 grep -rnE --include='*.[chS]' --exclude='generated_*' '^.{121}' limiter simgpu tests \
		|| { echo "C: the lines above have more than 120 columns" >&2; exit 1; }

.PHONY: format
format: $(READY) ## let ruff format and fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: docs
docs: $(READY) ## write the generated pages anew: metrics, coverage
	$(BIN)/python -m exporter.docs > docs/metrics.md
	$(BIN)/python -m limiter.docs > docs/coverage.md

.PHONY: lock
lock: $(READY) ## renew requirements.lock
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --extra dev --generate-hashes --no-emit-index-url --no-header --python-version 3.11 --upgrade -o requirements.lock pyproject.toml

.PHONY: clean
clean: ## remove what was built
	rm -rf $(VENV) build dist limiter/*.so simgpu/lib simgpu/bin
