# A fresh clone needs no more than `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test-fast test-room test test-all storm fuzz fuzz-http soak wheel dist release docs interpreters rooms screenshots kafka check bench ablation format warm clean

demo: $(VENV)/demo.stamp  ## stream real and made-up data through the embedded log
	$(BIN)/streamnb demo

# Rewriting the assertions of all tests takes each worker longer than importing them: what Python compiles is kept.
export PYTHONDONTWRITEBYTECODE :=

# Tests mostly wait, for brokers and for processes that they start: five at a time keep two processors busy.
WORKERS ?= 5
PYTEST := $(BIN)/python -m pytest --dist loadfile --no-loadscope-reorder --durations 25 --durations-min 20

UNITS := $(addprefix tests/,config engine features formats kernels models scoring statistics toolbox values verification)
test-fast: $(VENV)/dev.stamp  ## laws and units: no broker, no process of its own
	HYPOTHESIS_PROFILE=fast $(PYTEST) -n 2 -q -m "not broker and not thorough and not slow" tests/laws $(UNITS)

ROOM ?=
test-room: $(VENV)/dev.stamp  ## the tests of one room of the package, without a broker: ROOM=engine/labels
	$(PYTEST) -n 2 -q -m "not broker and not thorough" tests/$(ROOM)

CHECKED := tests/house/test_layering.py tests/house/test_docs.py tests/house/test_site.py tests/house/test_language.py

test: $(VENV)/dev.stamp  ## everything that shows that the product works, on both logs, with a short storm
	$(PYTEST) -n $(WORKERS) -m "not thorough" $(CHECKED:%=--ignore %)

test-all: $(VENV)/dev.stamp  ## what `make test` leaves out: a sample of crash points, every error of the clients, long runs
	$(PYTEST) -n $(WORKERS) -m "not storm and thorough"

SEED ?=
storm: $(VENV)/dev.stamp  ## kill learners and brokers at random moments, then recount; and at every step of a life; more examples of each law (an hour; SEED=N for one storm again)
	$(BIN)/python -m tests.system.storm $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[spark]'
	$(BIN)/python -m tests.system.storm.spark $(if $(SEED),--seed $(SEED))
	CRASHES=all MUTATIONS=400 $(BIN)/python -m pytest -q tests/system/crashes/test_crash_points.py tests/system/crashes/test_zombies.py tests/system/hostile/test_states.py
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'moto[server]>=5.1,<6'
	PATH="$(CURDIR)/$(BIN):$$PATH" $(PYTEST) -n $(WORKERS) -m storm
	HYPOTHESIS_PROFILE=storm $(BIN)/python -m pytest -q -m "not broker and not thorough" tests/laws
	$(PYTEST) -n $(WORKERS) -q -m "not broker and not thorough" $(UNITS) tests/spark

FUZZ_SECONDS ?= 600
fuzz: $(VENV)/dev.stamp  ## whatever bytes as events, labels, snapshots, journal and configuration: no crash, no hang, no traceback
	$(BIN)/python -m tests.system.hostile.fuzz $(FUZZ_SECONDS)

fuzz-http: $(VENV)/dev.stamp  ## `streamnb serve` beside a learner, asked by schemathesis all that its OpenAPI allows, and more
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'schemathesis>=4.32,<5'
	$(BIN)/python -m tests.system.hostile.fuzz_http $(FUZZ_SECONDS)

soak: $(VENV)/dev.stamp  ## half an hour of load on a broker of its own: does memory stay flat?
	$(BIN)/python -m tests.brokers.soak

KERNELS ?=
wheel: $(VENV)/demo.stamp  ## dist/*.whl with machine code for x86-64-v3 and any x86-64 (KERNELS=--default: of the default model alone)
	$(BIN)/python -m streamnb.kernels.wheel $(KERNELS)
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	rm -rf streamnb/kernels/machine_code

dist: $(VENV)/dev.stamp  ## dist/*.tar.gz and wheels without machine code, also of the client alone, for a package index: the same bytes each time
	$(BIN)/python -m build --no-isolation --outdir dist .
	rm -rf build/client
	$(BIN)/python deploy/client_package.py build/client
	$(BIN)/python -m build --no-isolation --outdir dist build/client
	$(BIN)/python -m twine check --strict dist/*.tar.gz dist/*-none-any.whl

release: dist wheel docs  ## build and check all that is uploaded, and list it; uploads nothing
	$(BIN)/python deploy/release.py dist

docs: $(VENV)/dev.stamp  ## the site of the documentation, in site/
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=. $(BIN)/python -m mkdocs build --strict --quiet

interpreters: $(VENV)/dev.stamp  ## the core of the tests on each Python that the package names and this machine has
	$(BIN)/python -m tests.house.interpreters

rooms: $(VENV)/dev.stamp  ## write the table of rooms in docs/architecture.md from their docstrings
	$(BIN)/python -m tests.house.rooms

STREAMS ?= ../shared/data
screenshots: $(VENV)/dev.stamp  ## the pictures of docs/dashboard.md, by Chromium and its driver
	$(BIN)/python -m tests.house.screenshots $(STREAMS)/sms_spam.jsonl.gz

kafka: $(VENV)/demo.stamp  ## start a broker on 127.0.0.1:9092 (or KAFKA_PORT) to try things out: needs Java 17 and Maven
	$(BIN)/python -m tests.brokers.serve

check: $(VENV)/dev.stamp  ## format, lint, types, layering, language, docs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(PYTEST) -n 2 -q --doctest-modules $(CHECKED) README.md docs streamnb

SERVED ?= $(wildcard $(STREAMS)/sms_spam.jsonl.gz)
bench: $(VENV)/dev.stamp  ## compare speed with River and others, time the whole service, and events from produced to visible
	$(BIN)/python -m tests.benchmarks.measure bench
	if [ -d $(STREAMS) ]; then \
	  $(BIN)/python -m tests.benchmarks.measure bench $(STREAMS)/spamassassin.jsonl.gz --order $(STREAMS)/spamassassin.shuffle7.txt.gz; \
	  $(BIN)/python -m tests.benchmarks.measure bench $(STREAMS)/sms_spam.jsonl.gz; \
	  $(BIN)/python -m tests.benchmarks.measure bench $(STREAMS)/20news_bydate.jsonl.gz; \
	  $(BIN)/python -m tests.benchmarks.tables $(STREAMS)/elec2.jsonl.gz $(STREAMS)/adult.jsonl.gz; \
	  $(BIN)/python -m tests.benchmarks.single_events $(foreach stream,sms_spam elec2 adult,$(STREAMS)/$(stream).jsonl.gz); \
	  $(BIN)/python -m tests.benchmarks.waiting_labels $(STREAMS)/sms_spam.jsonl.gz; \
	  $(BIN)/python -m tests.benchmarks.waiting_labels $(STREAMS)/sms_spam.jsonl.gz --kafka; \
	  $(BIN)/python -m tests.benchmarks.waiting_labels $(STREAMS)/sms_spam.jsonl.gz --pending 1000000; \
	fi
	$(BIN)/python -m tests.benchmarks.networks $(wildcard $(STREAMS)/nsl_kdd.jsonl.gz)
	$(BIN)/python -m tests.benchmarks.measure bench --growth
	$(BIN)/python -m tests.benchmarks.sequences
	$(BIN)/python -m tests.benchmarks.recovery
	$(BIN)/python -m tests.benchmarks.serving
	$(BIN)/python -m tests.benchmarks.sent_events
	$(BIN)/python -m tests.benchmarks.sent_events --kafka
	$(BIN)/python -m tests.benchmarks.watched
	$(BIN)/python -m tests.benchmarks.recovery --kafka
	$(BIN)/python -m tests.benchmarks.long_topics sqlite
	$(BIN)/python -m tests.benchmarks.long_topics kafka
	$(BIN)/python -m tests.benchmarks.measure bench $(SERVED) --log sqlite:///bench.db
	$(BIN)/python -m tests.brokers.measured bench $(SERVED)
	$(BIN)/python -m tests.benchmarks.measure latency
	$(BIN)/python -m tests.brokers.measured latency

# In their own order, but for the mails, which come sorted by label.
ABLATED ?= sms_spam 20news_bydate adult elec2 nsl_kdd river_phishing river_solarflare
ablation: $(VENV)/dev.stamp  ## what each part of the default mixture brings, stream by stream
	if [ -d $(STREAMS) ]; then \
	  $(BIN)/python -m tests.benchmarks.measure ablate --markdown $(foreach stream,$(ABLATED),$(STREAMS)/$(stream).jsonl.gz); \
	  $(BIN)/python -m tests.benchmarks.measure ablate --markdown $(STREAMS)/spamassassin.jsonl.gz --order $(STREAMS)/spamassassin.shuffle7.txt.gz; \
	fi

format: $(VENV)/dev.stamp
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "streamnb needs Python 3.11 or later; try make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

# Kernels are compiled once, here and in the open: for the demo those of the default model, for tests all. Those of a
# wheel in dist/ are taken from there.
$(VENV)/demo.stamp: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	$(BIN)/python -m streamnb.kernels.wheel --from dist
	$(BIN)/streamnb warm
	touch $@

$(VENV)/dev.stamp: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	$(BIN)/streamnb warm --all
	touch $@ $(VENV)/demo.stamp
