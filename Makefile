# k3fleet: `make rehearse` runs the launch on this machine, `make test` runs all tests.
# Both set up what they need: a virtual environment here, tools in the user's cache.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
FLEET ?= fleets/demo.yaml
ARGS ?=
COVERAGE := 80
LABS ?= 2
# Hundreds of processes start in the tests: they keep the bytecode of what they load, and nobody
# compiles the many modules that none of them loads.
unexport PYTHONDONTWRITEBYTECODE
# The environment is made anew when the locked requirements, or the interpreter, change.
STAMP := $(VENV)/.ready-$(shell cat requirements/dev.txt pyproject.toml | cksum | cut -d' ' -f1)

.PHONY: rehearse test setup lint tools unit e2e bench lock clean

rehearse: setup
	$(BIN)/k3fleet rehearse $(FLEET) $(ARGS)

test: lint tools unit e2e

setup: $(STAMP)

$(STAMP): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "k3fleet needs Python 3.11 or newer; set PYTHON=…")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --no-deps --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@rm -f $(VENV)/.ready-*
	@touch $@

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The first time this compiles for tens of minutes; later it takes no time.
tools: setup
	$(BIN)/k3fleet doctor --build

unit: setup
	$(BIN)/python -m pytest -m "not lab" -n auto --cov --cov-report=term:skip-covered --cov-fail-under=$(COVERAGE)

# The real control plane, router, gateway and load, on this machine: a lab mostly waits, so two are
# up at once, each in a network namespace of its own. The tests of a file share theirs.
e2e: tools
	$(BIN)/python -m pytest -m lab --dist loadfile \
	  --tx '$(LABS)*popen//python=$(BIN)/python tests/support/namespace.py $(BIN)/python'

bench: tools
	@failed=; for bench in benchmarks/bench_*.py; do \
	  echo "== $$bench, load average $$(cut -d' ' -f1 /proc/loadavg)"; begun=$$(date +%s); \
	  $(BIN)/python $$bench || failed="$$failed $$bench"; \
	  echo "== took $$(( $$(date +%s) - begun )) s"; \
	done; test -z "$$failed" || { echo "targets missed, or not to be judged:$$failed"; exit 1; }

# Needs `uv`. No host name gets into the files.
lock:
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --override requirements/overrides.txt requirements/base.in -o requirements/base.txt
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --override requirements/overrides.txt requirements/dev.in -o requirements/dev.txt

clean:
	rm -rf $(VENV) build dist .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
