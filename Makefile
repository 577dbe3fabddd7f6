# Every day's commands, each safe to repeat. CMake and Ninja know what a build needs; this only puts the steps in order.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# Two steps at once would fight for the same cores; Ninja is parallel within a step.
.NOTPARALLEL:

# Tests at once; compilers at once are JOBS=n (default: what cores and memory allow).
TEST_JOBS ?= 2
# More arguments for ctest, for example CTEST_ARGS='-L plan' or CTEST_ARGS='-R liveness'.
CTEST_ARGS ?=
PYTHON := $(if $(PLIMSOLL_TORCH_DIR)$(TORCH),python3,$(CURDIR)/.venv/bin/python)
# Another version of libtorch than that of .venv, for any target: make test TORCH=2.15. It has build/ to itself until TORCH changes.
comma := ,
torches := $(subst $(comma), ,$(TORCH))
ifeq ($(words $(torches)),1)
export PLIMSOLL_TORCH := $(TORCH)
endif
BENCHES := $(basename $(notdir $(wildcard bench/*_bench.cpp)))

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: quickstart
quickstart: setup text ## From a bare machine to a small language model in training
	@scripts/build.sh release plimsoll_cli
	@echo "==> train: examples/small-lm/quickstart.yaml"
	@build/plimsoll train examples/small-lm/quickstart.yaml

.PHONY: train-small
train-small: setup text ## Train the small language model for this machine; watch it with 'make monitor' in another terminal
	@scripts/build.sh release plimsoll_cli
	@build/plimsoll train examples/small-lm/quickstart.yaml $(ARGS)

# What they need is asked for first: a machine without it hears so at once, and not after twenty minutes of building.
.PHONY: train-small-rocm
train-small-rocm: ## Train the small language model on a 12 GB AMD card; says what it needs where that is not there
	@scripts/train-small.sh rocm
	@$(MAKE) --no-print-directory setup text
	@scripts/build.sh release plimsoll_cli
	@build/plimsoll train examples/small-lm/amd.yaml $(ARGS)

.PHONY: train-small-mps
train-small-mps: ## Train the small language model on a 16 GB Apple computer; says what it needs where that is not there
	@scripts/train-small.sh mps
	@$(MAKE) --no-print-directory setup text
	@scripts/build.sh release plimsoll_cli
	@build/plimsoll train examples/small-lm/apple.yaml $(ARGS)

.PHONY: monitor
monitor: setup ## Watch the runs of this machine: memory by role against the budget, rate, devices
	@scripts/build.sh release plimsoll_cli
	@build/plimsoll monitor

.PHONY: examples
examples: setup text ## Prepare real data and train every example small, each in about two minutes
	@scripts/build.sh release plimsoll_cli write_samples
	@scripts/setup-examples.sh
	@scripts/run-examples.py $(EXAMPLES)

.PHONY: setup
setup: ## Install what a build needs: Debian packages, libtorch into .venv
	@scripts/setup.sh

.PHONY: build
build: setup ## Build everything: build/plimsoll, tests, examples, benches
	@scripts/build.sh release

.PHONY: gpu-check
gpu-check: setup ## Pack what the first minutes on an NVIDIA GPU need into build/gpu-check, for a machine with the torch wheel
	@scripts/gpu-check.sh

.PHONY: install
install: setup ## Install program, libraries and headers below PREFIX (make install PREFIX=$HOME/.local)
	@scripts/build.sh release plimsoll_cli
	@cmake --install build $(if $(PREFIX),--prefix '$(PREFIX)')

.PHONY: wheel
wheel: setup ## Make the wheel of the program, with libraries and headers, in dist/ (TORCH=2.11,2.15: for both)
	@scripts/setup-wheel.sh
ifeq ($(filter-out 0 1,$(words $(torches))),)
	@scripts/build.sh release plimsoll_installed
	@scripts/wheel.py $(WHEEL_ARGS)
else
	@scripts/wheel-torches.sh $(torches)
endif

.PHONY: package
package: wheel ## Make the wheel and an archive of the sources, in dist/
	@scripts/source-archive.sh

.PHONY: text
text: setup ## Fetch and prepare the text that the example trains on
	@[[ -f .data/gcide.txt ]] || scripts/setup.sh lists
	@PYTHON='$(PYTHON)' scripts/prepare-text.sh

.PHONY: test
test: build text ## Build, then run all tests (CTEST_ARGS='-L plan' for some)
	@scripts/setup-wheel.sh
	@scripts/setup-examples.sh
	@echo "==> test: build/"
	@ctest --preset release -j$(TEST_JOBS) $(CTEST_ARGS)

.PHONY: test-busy
test-busy: build text ## All tests three times beside 8 busy processes, then once on one core (hours; RUNS=1, LOAD=4, CTEST_ARGS)
	@scripts/setup-wheel.sh
	@TEST_JOBS=$(TEST_JOBS) CTEST_ARGS='$(CTEST_ARGS)' scripts/test-busy.sh build

.PHONY: test-masks
test-masks: setup ## Tests of kernels, scratch and equality as if the processor had fewer instructions (four runs)
	@scripts/build.sh release ops_tests run_tests weights_tests train_tests cli_tests
	@echo "==> test: build/ under masks"
	@scripts/test-masks.py build

.PHONY: test-seeds
test-seeds: setup text ## Tests that train to a threshold, with 8 seeds and under every mask: values, spread, margin
	@scripts/build.sh release run_tests weights_tests train_tests cli_tests
	@scripts/test-seeds.py $(ARGS)

.PHONY: python
python: setup ## The tests of the Python package: types, style, training next to eager PyTorch (4 GB of wheels the first time)
	@scripts/build.sh release
	@scripts/setup-python.sh
	@scripts/test-python.sh

.PHONY: mutate
mutate: setup text ## Small bugs put into the sources: which of them no test notices (an hour or more; ARGS='--count 12')
	@scripts/build.sh release
	@scripts/mutate.py $(ARGS)

# Programs of their own: the engine, the decoder and these tests, compiled once more, with no object without sanitizers.
# detect_leaks=0 (in CMakePresets.json: the tests' discovery, while building, wants it too): libtorch is not instrumented
# and keeps registries and thread pools until the process ends, so a report would be about its version more than about
# us; and LeakSanitizer needs ptrace, which many containers deny, and then fails every process.
# EXTRA_ASAN_OPTIONS=detect_leaks=1 make asan turns it on.
.PHONY: asan
asan: setup ## Tests of base, trace, plan, record and run under the address and undefined-behavior sanitizers
	@scripts/build.sh release checked_tests
	@echo "==> test: build/ under sanitizers (base trace plan record run)"
	@ctest --preset checked -j$(TEST_JOBS) $(CTEST_ARGS)

# What reads files from outside, in a build of its own with clang. TARGET names some targets: TARGET='job csv'.
.PHONY: fuzz
fuzz: ## Fuzz the readers with clang, FUZZ_SECONDS=60 each (TARGET='job csv' for some, ARGS=--coverage)
	@scripts/setup.sh fuzz
	@scripts/fuzz.py --seconds $(or $(FUZZ_SECONDS),60) $(ARGS) $(TARGET)

.PHONY: fuzz-check
fuzz-check: ## Replay the inputs of tests/fuzz/corpus, which must pass, then fuzz two minutes in all and print finds
	@scripts/setup.sh fuzz
	@scripts/fuzz.py --total 120 --jobs $(TEST_JOBS) --seed 1 --known $(ARGS)

.PHONY: bench
bench: setup ## Build, then run every bench (BENCHES=placement_bench for one)
	@scripts/build.sh release $(or $(BENCHES),$(error no bench/*_bench.cpp here))
	@for bench in $(BENCHES); do echo "==> bench: $$bench"; "build/$$bench"; done

.PHONY: bench-step
bench-step: setup text ## Step time and memory beside eager and compiled PyTorch, all models (ARGS='--cases small-lm')
	@scripts/setup-bench.sh
	@examples/gesture-ssm/prepare
	@examples/prompt-segmentation/prepare
	@scripts/build.sh release plimsoll_cli
	@echo "==> bench: step times; an idle machine tells most"
	@.venv-bench/bin/python bench/step_time.py $(ARGS)

.PHONY: bench-lean
bench-lean: setup text ## 8- and 4-bit AdamW beside torchao's and bitsandbytes', in a whole step
	@scripts/setup-bench.sh
	@scripts/build.sh release plimsoll_cli
	@echo "==> bench: lean state; an idle machine tells most"
	@.venv-bench/bin/python bench/lean_state.py $(ARGS)

.PHONY: bench-scaling
bench-scaling: setup text ## Step and planning time against layers, width, sequence, batch: figures and a picture
	@scripts/build.sh release plimsoll_cli
	@echo "==> bench: scaling"
	@python3 bench/scaling.py $(ARGS)

.PHONY: docs
docs: ## Write the reference of the public headers into build/docs (HTML, by Doxygen)
	@scripts/setup.sh doxygen
	@scripts/reference.sh

.PHONY: format
format: ## Format the C++ sources
	@scripts/check-format.sh --fix

.PHONY: check-format
check-format: ## Check the format of the C++ sources
	@scripts/check-format.sh

.PHONY: layers
layers: ## Check that the rooms of src/rooms.txt include only earlier rooms (ARGS=--list for the rooms)
	@scripts/check-layers.py $(ARGS)

.PHONY: check-torch
check-torch: build ## Compile and link what depends on the version of libtorch for the other one (2.15)
	@for file in scripts/requirements/torch-[0-9]*.txt; do series=$${file##*/torch-}; env -u PLIMSOLL_TORCH_DIR PLIMSOLL_TORCH=$${series%.txt} scripts/setup.sh torch; done
	@scripts/check-torch.py

.PHONY: words
words: ## Check the openings of comments in include and src, and the spelling (ARGS=--count for the counts)
	@scripts/check-words.py $(ARGS)

.PHONY: tidy
tidy: setup ## Run clang-tidy over src/ (TIDY_ARGS=src/plan for a part)
	@scripts/tidy.sh $(TIDY_ARGS)

.PHONY: clean
clean: ## Remove the build folders; .venv and prepared data stay
	@echo "==> clean: build/ build-*/"
	@rm -rf build build-*/
