# Everything is set up in the tree: $(VENV) for Python, target/ for Rust. `make help` lists the commands.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
HERE := $(CURDIR)
RUST := Cargo.toml Cargo.lock build.rs pyproject.toml $(shell find src -name '*.rs')
TOOLS := target/tools/bin
FEATURES := http,process,schema,sqlite,tower,tracing
INTERPRETERS := 3.11 3.12 3.13 3.14
JOB_QUEUE := examples/job_queue/Cargo.toml
FORKS := $(wildcard ../shared/oracles/session_context_*.py)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "  PYTHON=python3.12 VENV=.venv-3.12 with any of them: another interpreter, in an environment of its own"

.PHONY: parity
parity: $(VENV)/built ## real Hermes on the drop-in, compared with Hermes' own module (PARITY="options")
	$(BIN)/python -m hermes_env_bridge parity $(PARITY)

.PHONY: parity-all
parity-all: $(VENV)/built ## the session module of every release of Hermes, and of the forks that are here
	$(BIN)/python -m hermes_env_bridge parity --hermes all $(FORKS:%=--oracle %) --steps 50000 $(PARITY)

.PHONY: test
test: $(VENV)/built ## all tests, Rust and Python (PYTEST="options")
	cargo test --locked --quiet --features $(FEATURES)
	$(BIN)/python -m pytest $(PYTEST)

.PHONY: test-long
test-long: ## the model of scopes with ten thousand random programs (CASES=n)
	PROPTEST_CASES=$(or $(CASES),10000) cargo test --locked --test model -- --nocapture

.PHONY: job-queue
job-queue: ## examples/job_queue: 1,000 jobs in four worker processes, each for its own session (Rust 1.94)
	cargo clippy --locked --all-targets --quiet --manifest-path $(JOB_QUEUE) -- -D warnings
	cargo test --locked --quiet --manifest-path $(JOB_QUEUE) -- --nocapture

.PHONY: test-all
test-all: ## all tests on every interpreter found: 3.11 to 3.14, on PATH or with pyenv
	PYTHONS="$(INTERPRETERS)" sh tests/every-interpreter.sh

.PHONY: features
features: $(TOOLS)/cargo-hack ## sets of the crate's features, without warnings (DEPTH=2: at most so many at once)
	PATH="$(HERE)/$(TOOLS):$$PATH" cargo hack --feature-powerset --depth $(or $(DEPTH),2) clippy --locked --quiet -- -D warnings

.PHONY: public-api
public-api: target/public-api/listing.txt ## docs/public-api.txt, everything that is public
	cp $< docs/public-api.txt

.PHONY: public-api-check
public-api-check: target/public-api/listing.txt ## see whether docs/public-api.txt is what is public
	diff docs/public-api.txt $< || { echo "docs/public-api.txt is stale: run make public-api"; exit 1; }

.PHONY: miri
miri: ## the core's unit tests, scopes and drops under Miri (rustup component add miri rust-src --toolchain nightly)
	MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test --locked --target-dir target/miri --lib --test drops

.PHONY: lint
lint: $(VENV)/built ## formatting, clippy, ruff, strict mypy, and the stubs against the built module
	cargo fmt --check
	cargo fmt --check --manifest-path $(JOB_QUEUE)
	cargo clippy --locked --all-targets --quiet -- -D warnings
	cargo clippy --locked --features lease --quiet -- -D warnings
	cargo clippy --locked --all-targets --features $(FEATURES) --quiet -- -D warnings
	PYO3_PYTHON="$(HERE)/$(BIN)/python" cargo clippy --locked --features python --quiet -- -D warnings
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest hermes_env_bridge._core

.PHONY: fmt
fmt: $(VENV)/installed ## format Rust and Python
	cargo fmt
	cargo fmt --manifest-path $(JOB_QUEUE)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

.PHONY: bench
bench: $(VENV)/built ## Hermes' module, raw context variables and ours side by side (BENCH="options"), and in Rust
	$(BIN)/python benches/session_context.py $(BENCH)
	$(BIN)/python benches/startup.py
	cargo bench --locked --bench scope
	$(BIN)/python benches/child_env.py
	$(BIN)/python benches/guard.py

.PHONY: mutants
mutants: $(VENV)/built ## plant each fault of tests/mutants and see parity find it
	$(BIN)/python tests/mutants/run.py

.PHONY: docs
docs: ## the crate's documentation, without warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --features $(FEATURES)

.PHONY: lock
lock: $(VENV)/installed ## renew the lock files of both languages
	cargo update
	cargo update --manifest-path $(JOB_QUEUE)
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate \
	  --no-header --no-emit-index-url --no-emit-find-links -o requirements/dev.txt requirements/dev.in

.PHONY: clean
clean: ## remove what was built and set up
	rm -rf target examples/job_queue/target .venv* .cache .hypothesis .mypy_cache .ruff_cache .pytest_cache
	find python tests benches \( -name '*.so' -o -name __pycache__ \) -prune -exec rm -rf {} +

# The compiler's listing is an unstable output, and its format that of one version of the tool.
target/public-api/listing.txt: $(TOOLS)/cargo-public-api $(RUST)
	RUSTC_BOOTSTRAP=1 cargo rustdoc --locked --lib --features $(FEATURES) --target-dir target/public-api --quiet -- \
	  -Z unstable-options --output-format json
	$< --rustdoc-json target/public-api/doc/hermes_env_bridge.json --omit blanket-impls > $@

$(TOOLS)/cargo-hack:
	cargo install --locked --quiet --root target/tools cargo-hack@0.6.46

$(TOOLS)/cargo-public-api:
	cargo install --locked --quiet --root target/tools cargo-public-api@0.52.0

# An environment that a broken set-up left behind has no stamp, and is made anew.
$(VENV)/installed: requirements/dev.txt
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed: make PYTHON=...")'
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	touch $@

$(VENV)/built: $(VENV)/installed $(RUST)
	VIRTUAL_ENV="$(HERE)/$(VENV)" $(BIN)/maturin develop --release --locked --quiet
	touch $@
