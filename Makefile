# Muster. `make` alone prints this help.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PY     := $(BIN)/python
# Every process of an instance imports the code: compiled once, not once by each of them.
unexport PYTHONDONTWRITEBYTECODE
SOURCES := core actors serve_app storage handlers services settings host tools cli telemetry

.DEFAULT_GOAL := help
.PHONY: help run test test-core test-units test-product test-kafka test-instances test-parts test-faults test-clusters test-fast check format chaos bench clean constraints sbom audit kafka-jars chromium

help: ## Print this help
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

run: $(VENV)/.installed ## Set everything up and run Muster on 127.0.0.1:8000 (Ctrl-C stops it)
	@$(PY) -m cli.main up

# First what is soon known, beside what is fetched. Then the tests, the longest first, so that there
# is something to do until the end: three at a time on two cores, because tests of instances wait a
# lot. What only computes gives way to them.
AT_FIRST := kafka-jars chromium check test-core
AND_THEN := test-product test-units test-faults test-parts test-clusters test-kafka test-instances
GIVE_WAY := nice -n 10

test: $(VENV)/.installed ## Everything CI runs: checks, then every test
	@$(MAKE) --no-print-directory -j4 --output-sync=target $(AT_FIRST)
	@$(MAKE) --no-print-directory -j3 --output-sync=target FETCHED=1 $(AND_THEN)

# Unless it was fetched just before.
JARS := $(if $(FETCHED),,kafka-jars)

# Whatever comes: counting lines takes longer there than all the rest, and finds no other ones.
HOSTILE := tests/unit/core/test_hostile_events.py tests/unit/core/test_hostile_names.py

test-core: $(VENV)/.installed
	$(GIVE_WAY) $(PY) -m pytest tests/unit/core $(HOSTILE:%=--ignore=%) --cov --cov-report=term-missing:skip-covered --cov-fail-under=100

test-units: $(VENV)/.installed
	$(GIVE_WAY) $(PY) -m pytest tests/unit --ignore=tests/unit/core
	$(GIVE_WAY) $(PY) -m pytest $(HOSTILE)

# By the instances they need: an instance takes a while to start, and time from the others as long
# as it runs. What shares one is together, and whoever needs others is not beside it.
WITH_KAFKA   := kafka/test_kafka.py operations/test_slow_clients.py operations/test_stalls.py
WITH_KAFKA   += kafka/test_kafka_changes.py kafka/test_kafka_cli.py kafka/test_restore_drill.py
WITH_KAFKA   := $(WITH_KAFKA:%=tests/acceptance/%)
OWN_INSTANCE := operations/test_cluster_front.py
OWN_INSTANCE += operations/test_host_lifecycle.py operations/test_host_running.py
OWN_INSTANCE += operations/test_overload.py operations/test_slow_clients_bare.py
OWN_INSTANCE := $(OWN_INSTANCE:%=tests/acceptance/%)
# The last of these tests ends the instance.
MORTAL       := tests/chaos/test_local.py tests/acceptance/operations/test_faults.py
MORTAL       += tests/acceptance/access/test_secrets.py
MORTAL       += tests/acceptance/gathers/test_gather_faults.py
MORTAL       += tests/acceptance/records/test_record_faults.py
ELSEWHERE    := $(WITH_KAFKA) $(OWN_INSTANCE) $(MORTAL)
test-product: $(VENV)/.installed $(JARS) $(if $(FETCHED),,chromium)
	$(PY) -m pytest tests/acceptance tests/ui $(ELSEWHERE:%=--ignore=%)

test-kafka: $(VENV)/.installed $(JARS)
	$(PY) -m pytest $(WITH_KAFKA)

test-instances: $(VENV)/.installed
	$(PY) -m pytest $(OWN_INSTANCE)

test-parts: $(VENV)/.installed $(JARS)
	$(PY) -m pytest tests/contract tests/integration tests/simulation

test-faults: $(VENV)/.installed
	$(PY) -m pytest $(MORTAL)

test-clusters: $(VENV)/.installed $(JARS)
	$(PY) -m pytest tests/chaos $(MORTAL:%=--ignore=%)

test-fast: $(VENV)/.installed ## Unit and contract tests only: seconds
	$(PY) -m pytest tests/unit tests/contract

check: $(VENV)/.installed ## Ruff, mypy strict, import rules
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(GIVE_WAY) $(PY) -m mypy
	$(BIN)/lint-imports --no-cache

format: $(VENV)/.installed ## Let ruff format and fix
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

kafka-jars: $(VENV)/.installed ## Fetch Apache Kafka for tests and `muster up --kafka embedded`, once
	@$(PY) -m host.kafka.jars

chromium: $(VENV)/.installed ## Install the browser that tests of pages drive, where that is allowed, once
	@$(PY) -m tests.support.chromium

chaos: $(VENV)/.installed ## The faults with their full numbers, and a million simulated stories: hours
	MUSTER_CHAOS=long $(PY) -m pytest tests/chaos
	$(PY) -m tests.simulation 0 1000000

bench: $(VENV)/.bench ## Every benchmark, against its peers
	$(PY) -m bench all

clean: ## Remove the virtual environment and every cache (keeps .muster, your data)
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .cache .coverage
	find . -name __pycache__ -type d -not -path './.muster/*' -prune -exec rm -rf {} +

# All of them together first, so that each set has the same versions; then each with its hashes.
COMPILE := $(PY) -m uv pip compile --quiet --universal --no-header --no-annotate --no-emit-index-url
INPUTS  := requirements/build.in pyproject.toml

constraints: $(VENV)/.installed ## Pin every dependency anew from pyproject.toml, with hashes
	$(PY) -m pip install --quiet uv
	@mkdir -p build
	$(COMPILE) --upgrade --extra dev --extra bench $(INPUTS) -o build/all.txt
	$(COMPILE) --upgrade --generate-hashes --constraint build/all.txt $(INPUTS) -o requirements/runtime.txt
	$(COMPILE) --upgrade --generate-hashes --constraint build/all.txt --extra dev $(INPUTS) -o requirements/dev.txt
	$(COMPILE) --upgrade --generate-hashes --constraint build/all.txt --extra bench $(INPUTS) -o requirements/bench.txt

sbom: $(VENV)/.installed ## Write build/sbom.json: everything Muster runs on (CycloneDX)
	@$(PY) requirements/sbom.py build/sbom.json
	@echo "build/sbom.json"

audit: $(VENV)/.installed ## Ask a vulnerability service about every dependency (needs the network)
	@test -x build/audit/bin/pip-audit || { $(PYTHON) -m venv build/audit && \
		build/audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit; }
	@rm -f build/audit.json
	@build/audit/bin/pip-audit --progress-spinner off --disable-pip --require-hashes \
		--requirement requirements/dev.txt --format json --output build/audit.json; code=$$?; \
	test -s build/audit.json || { echo "audit: the vulnerability service did not answer, so nothing was audited" >&2; exit 2; }; \
	exit $$code

# Every package must be the one that was pinned, to the byte. Only our own code is not: it is here.
# Most of it is never imported, and need not be compiled.
INSTALL := -m pip install --quiet --disable-pip-version-check --no-deps --no-compile

$(VENV)/.installed: pyproject.toml requirements/dev.txt
	@echo "Setting up $(VENV) (about a minute, once)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Muster needs Python 3.11 or newer")'
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@$(PY) $(INSTALL) --require-hashes --requirement requirements/dev.txt
	@$(PY) $(INSTALL) --no-build-isolation --editable .
	@touch $@

$(VENV)/.bench: $(VENV)/.installed requirements/bench.txt
	@$(PY) $(INSTALL) --require-hashes --requirement requirements/bench.txt
	@touch $@
