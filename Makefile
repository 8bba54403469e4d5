# Every target makes or updates .venv by itself; python3 and make are all you need.
#   make PYTHON=python3.12 test     picks the interpreter (and rebuilds .venv with it)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help reproduce test test-settings lint release bench bench-since docs explore clean

VENV := .venv
BIN  := $(VENV)/bin

# Without PYTHON=..., any .venv that exists will do; with it, the .venv must have been made by that one.
ifeq ($(origin PYTHON),undefined)
PYTHON := python3
MADE   := $(VENV)/.made
else
MADE   := $(VENV)/.made-by-$(subst /,_,$(PYTHON))
endif

help:
	@echo "engram: training dynamics of associative memories"
	@echo
	@echo "  make reproduce   run the main job; writes out/"
	@echo "  make test        run all the tests"
	@echo "  make test-settings   run some of them again under JAX settings that users have on"
	@echo "  make lint        format, types and import layers"
	@echo "  make release     build wheel and sdist into dist/, and try them with the lowest versions of all dependencies"
	@echo "  make bench       side by side with plain PyTorch (installs torch)"
	@echo "  make bench-since     what became slower or faster since the commit before, five minutes"
	@echo "  make docs        build the documentation into docs/_build/html"
	@echo "  make explore     open the browser explorer"
	@echo "  make clean       remove .venv and everything generated"
	@echo
	@echo "Each one installs what it needs into .venv first. Options:"
	@echo "  make PYTHON=python3.12 test      use that interpreter"
	@echo "  make test ARGS='-k spike'        pass arguments on"

reproduce: $(VENV)/.has-fast
	@$(BIN)/engram reproduce $(ARGS)

test: $(VENV)/.has-test
	@$(BIN)/python -m pytest -n auto --maxprocesses=4 --dist worksteal $(ARGS)

# The first run also checks the types and shapes of every call, which costs a tenth of the time: its table of
# public functions has them all. The last compiles as on a user's machine.
SETTINGS = $(BIN)/python -m pytest -n auto --maxprocesses=4 --dist worksteal -m settings -q \
  $(ARGS) $(shell grep -rl --include='test_*.py' mark.settings tests)
test-settings: $(VENV)/.has-test
	JAX_ENABLE_X64=1 $(SETTINGS) --jaxtyping-packages=engram,beartype.beartype
	JAX_DEBUG_NANS=1 JAX_DEBUG_INFS=1 $(SETTINGS)
	env -u JAX_PLATFORMS ENGRAM_TEST_PLAIN=1 $(SETTINGS)

lint: $(VENV)/.has-test
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/basedpyright
	@$(BIN)/lint-imports

release: $(VENV)/.has-test
	@$(BIN)/python tools/check_release.py

bench: $(VENV)/.has-bench $(VENV)/.has-fast
	@$(BIN)/engram bench $(ARGS)

bench-since: $(VENV)/.has-bench
	@$(BIN)/python tools/compare_commits.py $(ARGS)

docs: $(VENV)/.has-docs
	@$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

explore: $(VENV)/.has-base
	@$(BIN)/engram explore $(ARGS)

clean:
	rm -rf $(VENV) out docs/_build build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- the environment: one stamp per extra, written last, so an interrupted install is done again ---

$(VENV)/.has-base: pyproject.toml constraints.txt $(MADE)
	@echo "Installing engram into $(VENV) (a minute or two the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.has-%: pyproject.toml constraints.txt $(MADE)
	@echo "Installing engram[$*] into $(VENV) (a minute or two the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[$*]"
	@touch $@

.PRECIOUS: $(VENV)/.has-%

$(MADE):
	@command -v "$(PYTHON)" > /dev/null || { \
	  echo "engram needs Python 3.11 or newer, and '$(PYTHON)' is not here: install it, or name yours with 'make PYTHON=/path/to/python3.12 ...'."; exit 1; }
	@"$(PYTHON)" --version > /dev/null 2>&1 || { \
	  echo "engram needs Python 3.11 or newer, and '$(PYTHON)' cannot be run: install it, or name yours with 'make PYTHON=/path/to/python3.12 ...'."; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "engram needs Python 3.11 or newer, and '$(PYTHON)' is $$("$(PYTHON)" --version 2>&1): install a newer one, or name it with 'make PYTHON=python3.12 ...'."; exit 1; }
	@"$(PYTHON)" -c 'import venv, ensurepip' 2> /dev/null || { \
	  echo "'$(PYTHON)' has no venv module: install it (Debian and Ubuntu: apt install python3-venv), then run make again."; exit 1; }
	@"$(PYTHON)" -m venv --clear $(VENV)
	@touch $(VENV)/.made "$(VENV)/.made-by-$(subst /,_,$(PYTHON))"
