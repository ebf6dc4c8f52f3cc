# `make demo` and `make test` set everything up in .venv by themselves.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: install check quick test test-cluster demo bench clean

install: $(STAMP)

# torch goes first and pinned: an open range would pull the CUDA build.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -c constraints.txt torch==2.13.0
	$(BIN)/pip install -c constraints.txt -e '.[dev]'
	touch $(STAMP)

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Before each commit: checks and unit tests, in less than two minutes on two cores. Property tests try
# fewer examples than in `make test`.
quick: check
	RESILE_HISTORIES=500 $(BIN)/python -m pytest -q -n 2 --hypothesis-profile quick tests/unit

# Everything, and at the end what took longest; how long each test took is in build/durations.
test: check
	$(BIN)/python -m tests.everything

# On a whole cluster with two nodes, as root. See docs/cluster.md.
test-cluster: $(STAMP)
	$(BIN)/python -m tests.oncluster

# Kills a worker, a node and the master of a real job, and shows that it goes on.
demo: $(STAMP)
	$(BIN)/python examples/demo.py

# Minutes to an hour, on a quiet machine; see docs/benchmarks.md.
bench: $(STAMP)
	$(BIN)/python -m bench recovery
	$(BIN)/python -m bench launch
	$(BIN)/python -m bench steady
	$(BIN)/python -m bench scale
	$(BIN)/python -m bench shards
	$(BIN)/python -m bench checkpoints
	$(BIN)/python -m bench plot
	$(BIN)/python -m bench publish

# Resile's container images, pushed to the cluster's registry; only what changed. See docs/image.md.
.PHONY: image
image: $(STAMP)
	$(BIN)/python -m devcluster.images

# A real Kubernetes on this machine, as root; see docs/cluster.md.
NODES ?= 2
# A folder with the binaries of another version of Kubernetes; empty for those that are built here.
BINARIES ?=

.PHONY: cluster cluster-down cluster-status
cluster: $(STAMP)
	$(BIN)/python -m devcluster up --nodes $(NODES) $(if $(BINARIES),--binaries $(BINARIES))

cluster-down: $(STAMP)
	$(BIN)/python -m devcluster down

cluster-status: $(STAMP)
	$(BIN)/python -m devcluster status

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
