# Everything runs from .venv; `make setup` fills it with exactly what requirements.lock names.
SHELL := /bin/sh
BIN := .venv/bin
READY := .venv/.ready
SOURCES := src tests tools examples packages
MINILM := $(wildcard packages/minilm/*.py packages/minilm/*.safetensors packages/minilm/*.toml packages/minilm/*.txt packages/minilm/src/*/*.py)
SITE := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

.PHONY: help setup demo chat web web-api web-images test test-fast test-pythons check fix bench load invariants soak docs conformance lock release clean
.PHONY: check-format check-lint check-types check-test-types check-arrows check-rules check-docs check-spelling

help: ## Show this list
	@echo "Threadkeep: make <target>  (a target sets up what it needs)"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(READY) ## Make .venv from requirements.lock and build the embedding model

$(READY): requirements.lock pyproject.toml packages/threadkeep-conformance/pyproject.toml packages/threadkeep-evals/pyproject.toml tools/setup.sh $(MINILM)
	@PYTHON="$(PYTHON)" sh tools/setup.sh

demo: $(READY) ## Two threads: the second knows what the first one taught
	@$(BIN)/threadkeep demo $(ARGS)

chat: $(READY) ## Talk to an agent that remembers (ARGS="--user ana")
	@$(BIN)/threadkeep chat $(ARGS)

web: $(READY) ## Build the web page into the package (Node comes with make setup)
	@$(BIN)/python -m tools.web

web-images: $(READY) ## Take the pictures of the web page in README.md and docs/ anew (needs a Chromium)
	@$(BIN)/python -m tools.web --images

web-api: $(READY) ## Write the types of the web page's client from the gateway's OpenAPI
	@$(BIN)/python -m tools.web --api

# Tests start many processes; where bytecode may not be kept, each of them compiles everything anew.
test test-fast test-pythons soak: export PYTHONDONTWRITEBYTECODE =

# Tests wait for servers and processes more than half of their time: five workers keep the two cores of CI at work. A
# test that fails runs once more: the summary names it as RERUN, and one that fails twice, or ends its worker, fails the
# run. `make soak` runs no test again.
test: $(READY) ## Run every test
	@$(BIN)/python -m pytest -q -n 5 --dist worksteal --durations=20 --reruns 1 --rerun-show-tracebacks -r fEsR -m "not soak" $(ARGS)

test-fast: $(READY) ## Run the tests that take less than half a second each: memory and SQLite
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not slow and not soak" --hypothesis-profile=fast $(ARGS)

test-pythons: $(READY) ## Run the basic tests with Python 3.12 and 3.13, where this machine has them
	@sh tools/other_pythons.sh 3.12 3.13

check: $(READY) ## Run every check: format, lint, types, arrows, rules, docs, spelling
	@$(MAKE) -k check-format check-lint check-types check-test-types check-arrows check-rules check-docs check-spelling

check-format: $(READY)
	@echo "== format"; $(BIN)/ruff format --check --quiet $(SOURCES) || { echo "run: make fix"; exit 1; }

check-lint: $(READY)
	@echo "== lint"; $(BIN)/ruff check --quiet $(SOURCES)

check-types: $(READY)
	@echo "== types"; $(BIN)/basedpyright --level error

check-test-types: $(READY)
	@echo "== types of tests and tools"; $(BIN)/basedpyright --level error -p basedpyright.tests.json

check-arrows: $(READY)
	@echo "== arrows"; PYTHONPATH=src:packages/threadkeep-conformance/src:packages/threadkeep-evals/src $(BIN)/lint-imports --no-logo

check-rules: $(READY)
	@echo "== rules"; $(BIN)/python -m tools.rules

check-docs: $(READY)
	@echo "== docs"; $(BIN)/python -m tools.reference --check; first=$$?; $(BIN)/python -m tools.docs_parity && $(SITE) && exit $$first

check-spelling: $(READY)
	@echo "== spelling"; git ls-files -z | xargs -0 $(BIN)/codespell

fix: $(READY) ## Format, mend what can be mended, write the generated reference anew
	@$(BIN)/ruff check --quiet --fix-only $(SOURCES)
	@$(BIN)/ruff format --quiet $(SOURCES)
	@$(BIN)/python -m tools.reference

bench: $(READY) ## Measure speed beside peers (ARGS="--json")
	@$(BIN)/threadkeep bench $(ARGS)

load: $(READY) ## Measure the gateway beside a bare application under load (ARGS="throughput --quick")
	@$(BIN)/python -m tests.gateway.load $(ARGS)

invariants: $(READY) ## Break it on purpose: kills, collisions, two owners (N=200, JSON=1 for one object at the end)
	@$(BIN)/python -m tests.invariants $(if $(N),--n $(N)) $(if $(JSON),--json)

soak: $(READY) ## Everything at full size: long tests, invariants, faults, benchmarks (ARGS="--quick", ARGS=faults)
	@$(BIN)/python -m tools.soak $(ARGS)

docs: $(READY) ## Write the generated reference anew, check what the docs name, build the site into .build/site
	@$(BIN)/python -m tools.reference
	@$(BIN)/python -m tools.docs_parity
	@$(SITE)

conformance: $(READY) ## Run the store conformance suite and write its report into the docs
	@$(BIN)/python -m tools.conformance

lock: $(READY) ## Resolve the newest versions anew into requirements.lock
	@sh tools/lock.sh
	@$(MAKE) setup

release: $(READY) ## Build what is published and try it as a user gets it (ARGS="--version 0.2.0" sets the version first)
	@$(BIN)/python -m tools.release $(ARGS)

clean: ## Remove .venv, built models and caches; never the memories of users
	@rm -rf .venv .build web/node_modules src/threadkeep/web/assets dist htmlcov .coverage .coverage.* .pytest_cache .ruff_cache .hypothesis .import_linter_cache uv.lock
	@rm -f packages/minilm/src/threadkeep_minilm/*.onnx packages/minilm/src/threadkeep_minilm/tokenizer.json
	@find src tests tools packages -name __pycache__ -type d -prune -exec rm -rf {} +
