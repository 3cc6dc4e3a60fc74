# Everything a checkout needs: `make test` sets up .venv, checks the code and runs the tests. `make help` lists the rest.

PYTHON ?= python3
# Passed to pip when .venv is set up, such as an index that holds PyTorch's CPU wheels.
PIP_ARGS ?=
# Passed to pytest, such as PYTEST_ARGS='-k beam'.
PYTEST_ARGS ?=

# Where `make paper` keeps its trainings.
PAPER_WORK ?= .paper

# How much of the soak: the share of its counts.
SOAK ?= 1

# Named by what it was installed from: a finished set-up is found without the network, a changed one is renewed.
STAMP := .venv/stamp-$(shell cat pyproject.toml constraints.txt | cksum | cut -d ' ' -f 1)
ONE_THREAD := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

.DEFAULT_GOAL := help
.PHONY: help demo test check soak bench paper browser clean

help: ## List the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

demo: $(STAMP) ## Train, measure and try a small translator
	.venv/bin/transduce demo

test: check ## Set up, check and run every test but the slow ones
	$(ONE_THREAD) .venv/bin/python -m pytest -n 2 -m 'not slow' --timeout=300 --durations=15 $(PYTEST_ARGS)

check: $(STAMP) ## Lint, format, types, and who may import whom
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/lint-imports

soak: $(STAMP) ## Run the slow tests, hours of faults; SOAK=0.05 a twentieth of them; writes docs/reliability.md
	$(ONE_THREAD) TRANSDUCE_SOAK=$(SOAK) TRANSDUCE_SOAK_PAGE=docs/reliability.md .venv/bin/python -m pytest -m slow --timeout=14400 --durations=15 $(PYTEST_ARGS)

bench: $(STAMP) ## Measure speed on this machine
	.venv/bin/python -m benchmarks

paper: $(STAMP) ## Make the paper's tables and figures again, into docs/paper; hours, and resumable
	.venv/bin/transduce paper all --scale tiny --out docs/paper --work $(PAPER_WORK)

browser: ## Install the browser that the page's tests drive
	@if command -v chromium; then exit 0; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then apt-get update && apt-get install -y chromium; \
	else echo 'make browser: install the package chromium, such as by: sudo apt-get install chromium' >&2; exit 1; fi

clean: ## Remove .venv, caches and built packages; runs and data stay
	rm -rf .venv dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# No stamp at all means an interrupted set-up, whose packages may be there in part: begin again from nothing.
$(STAMP):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo \
	  'make: $(PYTHON) is missing or older than Python 3.11: name another, as in make PYTHON=python3.12' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo \
	  'make: $(PYTHON) has no venv: install it (Debian: apt-get install python3-venv) or name another PYTHON=' >&2; exit 1; }
	@ls .venv/stamp-* >/dev/null 2>&1 || rm -rf .venv
	@rm -f .venv/stamp-*
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install $(PIP_ARGS) -c constraints.txt -e '.[dev]'
	@touch $@
