# Every target is one command of `python3 -m machine`, which needs nothing but Python.

PYTHON ?= python3
# auto, machine or processes: how `make run` runs.
MODE ?= auto
# Power cuts of `make faults`.
ROUNDS ?= 50
# How long `make soak` loads a machine.
MINUTES ?= 30
# More arguments for pytest or the benchmark, such as ARGS="-k gate".
ARGS ?=

.PHONY: help run test test-ami test-disk test-unit lint audit faults fleet soak ami bench build reproduce down clean locks

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 12

run: ## build, boot, say how to use it; Ctrl-C stops and removes it (MODE=machine|processes)
	@exec $(PYTHON) -m machine run --mode $(MODE)

test: ## everything that must pass; boot tests need root
	@exec $(PYTHON) -m machine test -- $(ARGS)

test-ami: ## make ami with Packer against a stand-in for EC2, all of provisioning over SSH
	@AMI_REHEARSAL=full exec $(PYTHON) -m machine test -- tests/boot/test_ami.py $(ARGS)

test-disk: ## the image as a disk under QEMU, with its own kernel; figures in build/disk.json
	@exec $(PYTHON) -m machine test -- tests/disk $(ARGS)

test-unit: ## the tests that need no root
	@exec $(PYTHON) -m machine test -- tests/unit $(ARGS)

lint: ## linters only: ruff, mypy, shellcheck, systemd-analyze, nginx, gixy
	@exec $(PYTHON) -m machine test -- $(wildcard tests/unit/test_lint_*.py) $(ARGS)

audit: ## strangers' scanners on a booted machine, as one table (ARGS="lynis": these rows only)
	@ROUNDS=$(ROUNDS) MINUTES=$(MINUTES) exec $(PYTHON) -m machine audit -- $(ARGS)

ami: ## an AMI of this commit in the AWS account of the environment, tried and written down
	@exec $(PYTHON) -m machine ami -- build $(ARGS)

faults: ## power cuts and other accidents, ROUNDS=50 of them; the figures are in build/faults.json
	@rm -f build/faults.json
	@ROUNDS=$(ROUNDS) exec $(PYTHON) -m machine test -- $(wildcard tests/boot/test_faults_*.py) -s $(ARGS)

fleet: ## 1 to 4 members behind a load balancer, under load: kill, replace, rotate; build/fleet.json
	@exec $(PYTHON) -m machine fleet -- $(ARGS)

soak: ## MINUTES=30 of mixed load at 90 % of capacity; the figures are in build/soak.json
	@exec $(PYTHON) -m machine soak -- --minutes $(MINUTES) $(ARGS)

bench: ## ours against stock Infinity in one run, as ratios
	@exec $(PYTHON) -m machine bench -- $(ARGS)

build: ## the machine image, cached
	@exec $(PYTHON) -m machine build

reproduce: ## the image twice, compared file by file (ARGS="--layer NAME": from that layer up)
	@exec $(PYTHON) -m machine reproduce $(ARGS)

down: ## remove every machine of this checkout
	@exec $(PYTHON) -m machine down --all

clean: down ## remove build/ and the tools' caches; the image cache stays
	rm -rf build .mypy_cache .pytest_cache .ruff_cache

locks: ## compile packer/locks/*.txt again
	packer/locks/compile.sh
