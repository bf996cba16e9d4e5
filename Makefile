# Every target but `clean` sets up .venv first, when it is missing or its inputs have changed.
#   make demo    see it work           make check   style, types, imports
#   make test    the whole suite       make docs    the HTML documentation, in site/

PYTHON ?= python3
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest

.PHONY: demo test test-full test-tools check bench docs clean

demo: .venv/.stamp
	@$(BIN)/ascertain demo

test: .venv/.stamp
	$(PYTEST) -n 2

test-full: .venv/.stamp
	$(PYTEST) -n 2 -m "not tools" --hypothesis-profile=full

# pytest ends with 5 where it collects nothing.
test-tools: .venv/.stamp
	@$(PYTEST) -n 2 -m tools; code=$$?; \
	if [ $$code -eq 5 ]; then echo "test-tools: no test needs other programs yet"; code=0; fi; \
	exit $$code

check: .venv/.stamp
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict src
	$(BIN)/lint-imports --no-logo
	$(PYTEST) -q tests/house

bench: .venv/.stamp
	$(BIN)/python -m bench

docs: .venv/.stamp
	$(BIN)/python tools/docs.py
	$(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf build dist site .coverage* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

# The first of these that is new enough and can make an environment.
.venv/.stamp: requirements.txt pyproject.toml
	@for python in "$(PYTHON)" python3.13 python3.12 python3.11; do \
	  if "$$python" -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	  then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "Ascertain needs Python 3.11 or newer with the venv module: make PYTHON=/path/to/python" >&2; \
	  exit 1; \
	fi; \
	echo "Setting up .venv with $$("$$found" --version) (once, about a minute)"; \
	"$$found" -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@
