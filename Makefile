# Two commands do everything on a fresh machine: `make demo` and `make test`.
.DEFAULT_GOAL := help
.PHONY: help setup demo test lint format docs docs-check web web-check check bench clean

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup: $(STAMP) ## the environment alone: .venv with the locked versions and the package

$(STAMP): requirements.lock pyproject.toml scripts/make_venv.sh
	sh scripts/make_venv.sh $(VENV)
	@touch $@

demo: $(STAMP) ## train a Chinese-English translator in two minutes and look into it
	$(BIN)/pellucid demo $(ARGS)

test: $(STAMP) $(if $(shell command -v npm),web/node_modules/.ready) ## all tests (those in a browser need node and Chromium)
	$(BIN)/python -m pytest $(ARGS)

lint: $(STAMP) ## style, format, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP) ## put the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(STAMP) ## write docs/reference.md anew
	$(BIN)/python scripts/make_reference.py

docs-check: $(STAMP) ## is docs/reference.md what the program says?
	$(BIN)/python scripts/make_reference.py --check

web/node_modules/.ready: web/package-lock.json
	cd web && npm ci --no-audit --no-fund
	@touch $@

web: web/node_modules/.ready ## build the page anew (needs node; users never do)
	cd web && npm run build

web-check: web/node_modules/.ready ## types and tests of the page; is what is committed what the source makes?
	cd web && npm run check && npm test
	sh scripts/check_page.sh

check: lint docs-check web-check test ## all that a contributor must pass

bench: $(STAMP) ## training speed beside a plain torch.nn.Transformer loop (and other peers where installed)
	$(BIN)/python benchmarks/training.py $(ARGS)

clean: ## remove the environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
