# Needs python3 (3.11 or newer) and make; everything else goes into .venv, made on first use.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python

# These suites run twice: as they are, and with every thread dropped and reloaded from disk whenever it is free. The second
# run of the actors belongs to `make test`; that of the others would take it beyond a minute.
EVICTED := tests/actors
EVICTED_SLOWLY := tests/scenarios tests/agents

.PHONY: help demo example serve test slow check bench mutants clean
.NOTPARALLEL:
.DELETE_ON_ERROR:

help:
	@echo 'make demo     host 200 threads on real dialogues, kill the process halfway, reopen, compare'
	@echo 'make example  talk to a support desk in the terminal; offline, or TREADLE_MODEL=openai:... TREADLE_API_KEY=...'
	@echo 'make serve    the support desk as a service, with its console; prints the address (ARGS="--port 0")'
	@echo 'make test     the fast tests, then the actor tests again with --always-evict'
	@echo 'make slow     the slow tests: real kills, long explorations, wheels; more with --always-evict'
	@echo 'make check    lint, format, types'
	@echo 'make bench    product against the bare baseline, one JSON line a figure (ARGS="--only steer")'
	@echo 'make mutants  break the rules one by one and name the test that notices'
	@echo 'make clean    remove .venv and everything built'
	@echo 'Another interpreter: make PYTHON=python3.12 test'

demo: $(VENV)/ready-demo
	@$(RUN) examples/demo/main.py

# A provider's model needs more packages than the embedded one.
example: $(VENV)/ready-$(if $(TREADLE_MODEL),models,demo)
	@$(RUN) examples/support_desk/main.py $(ARGS)

serve: $(VENV)/ready-serve
	@$(RUN) examples/support_desk/service.py $(ARGS)

test: $(VENV)/ready-test
	@$(RUN) -m pytest -m 'not slow' -n 2
	@$(RUN) -m pytest -m 'not slow' --always-evict -n 2 $(EVICTED)

# Two at a time: most of them wait for a disk, for a process to die, or for a state space that one core walks through.
slow: $(VENV)/ready-test
	@$(RUN) -m pytest -m slow -n 2
	@$(RUN) -m pytest -m 'not slow' --always-evict -n 2 $(EVICTED_SLOWLY)

check: $(VENV)/ready-test $(VENV)/ready-check
	@$(RUN) -m ruff check
	@$(RUN) -m ruff format --check
	@$(RUN) -m mypy

bench: $(VENV)/ready-demo $(VENV)/ready-serve
	@$(RUN) benchmarks/run.py $(ARGS)

mutants: $(VENV)/ready-test
	@$(RUN) tests/simulation/mutants.py

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

# One stamp for each set of extras, older than pyproject.toml when the set has to be installed again.
$(VENV)/ready-%: pyproject.toml $(VENV)/bin/python
	@echo 'Installing treadle[$*] into $(VENV) ...'
	@$(RUN) -m pip install -qq --disable-pip-version-check --editable '.[$*]'
	@touch $@

# No prerequisites: made only when missing. The check must also be readable by a Python that is far too old.
$(VENV)/bin/python:
	@command -v '$(PYTHON)' >/dev/null || { echo 'treadle needs Python 3.11 or newer, and there is no $(PYTHON) here.' >&2; exit 1; }
	@'$(PYTHON)' -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "treadle needs Python 3.11 or newer; $(PYTHON) is $$('$(PYTHON)' -V 2>&1)." >&2; \
	  echo 'Name a newer one: make PYTHON=python3.12 ...' >&2; exit 1; }
	@'$(PYTHON)' -m venv --clear $(VENV) || { rm -rf $(VENV); \
	  echo '$(PYTHON) cannot make a virtual environment (on Debian and Ubuntu: apt-get install python3-venv).' >&2; exit 1; }
