# A thin front for deploy/setup.sh, CMake presets and ctest; everything it does can be typed by hand.
.DEFAULT_GOAL := help
.PHONY: help demo test nightly real abuse fuzz bench sim simt simt-tsan cuda cuda-table asan tsan format tidy reference sbom image chart-test cluster-test chart-docs \
    chart-files clean

SEED ?= 1
MODEL ?= demo
JOBS ?= $(shell nproc)
MINUTES ?= 60
FLAVOUR ?= cpu
SOURCES = $(shell git ls-files '*.c' '*.h' '*.cpp' '*.cu' '*.cuh')

# Chat templates are part of it, unless TEXT is OFF (no Rust compiler) or AUTO.
TEXT ?= ON
build = cmake --preset $(1) -DKVFERRY_TEXT=$(TEXT) >build/$(1).log || { cat build/$(1).log; exit 1; }; \
        cmake --build build/$(1) -j $(JOBS)
# .ci/run puts its own in place of ctest.
CTEST ?= ctest --output-on-failure -j $$(($(JOBS) + 1))
check = cd build/$(1) && $(CTEST) $(or $(2),-LE nightly)

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 13

# On a GPU the preset cuda's program computes; where there is none, and a GPU is asked for, the driver double's does.
DEVICE ?= cpu
HAS_GPU = $(shell ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1' && echo yes)
double = build/debug/tests/e2e/kvferry_double
# A first build was measured to take 380 s of CPU, 110 of them for the Rust library, and 15 s to configure.
demo_says = mkdir -p build; echo "demo: 2 of 3: configures, 15 s, and builds in build/$(1): the first time about \
    $$(( (380 / $(JOBS) + 59) / 60 )) minutes on $(JOBS) CPUs$(2), later seconds" | tr -s ' '
demo: ## set up, build, and generate text with split prefill and decode; MODEL=smollm2: downloads a real model; DEVICE=cuda:0
ifeq ($(DEVICE),cpu)
	@echo "demo: 1 of 3: what a build needs, from the distribution: nothing if it is there"
	@deploy/setup.sh $(if $(filter demo,$(MODEL)),build,model)
	@$(call demo_says,release); $(call build,release) --target kvferry
	@cli/demo.sh build/release/kvferry $(MODEL)
else ifeq ($(HAS_GPU),yes)
	@echo "demo: 1 of 3: what a build needs, and nvcc if there is none (300 MB)"
	@deploy/setup.sh cuda
	@$(call demo_says,cuda, beside the kernels for GPUs); $(call build,cuda) --target kvferry
	@DEVICE=$(DEVICE) cli/demo.sh build/cuda/kvferry $(MODEL)
else
	@echo "demo: 1 of 3: what tests need, for there is no GPU: a double of its driver computes"
	@deploy/setup.sh test
	@$(call demo_says,debug); $(call build,debug) --target kvferry_double
	@DEVICE=$(DEVICE) SHORT=1 LD_LIBRARY_PATH=$(CURDIR)/build/debug/tests/simt/driver cli/demo.sh $(double)
endif

test: ## set up, build, and run every test but the nightly ones
	@deploy/setup.sh test
	@mkdir -p build; $(call build,debug)
	@$(call check,debug)

nightly: ## the tests that take long or install much
	@deploy/setup.sh nightly
	@mkdir -p build; $(call build,debug)
	@$(call check,debug,-L nightly)
	@deploy/setup-cuda.sh >/dev/null
	@$(call build,cuda) --target kvferry
	@$(call check,cuda,-R ^image_cuda)

real: ## a published model, split and single, with each set of kernels: greedy text must equal that of Transformers
	@deploy/setup.sh test
	@mkdir -p build; $(call build,release) --target kvferry
	@tests/real/run.sh build/release/kvferry . all

abuse: ## attacks without credentials on real processes; writes the table in docs/security.md
	@deploy/setup.sh test
	@mkdir -p build; $(call build,release) --target kvferry
	@tests/abuse/run.sh build/release/kvferry . build/foreign --table docs/security.md

fuzz: ## fuzz every parser of input from outside, for an hour in all: make fuzz MINUTES=n
	@deploy/setup.sh ci
	@tests/fuzz/run.sh build/fuzz $(MINUTES) $(JOBS)

bench: ## measure against other programs, which the bench installs: a table and JSON
	@deploy/setup.sh test
	@mkdir -p build; $(call build,release)
	@tests/bench/run.sh build/release

sim: ## simulate whole clusters in one process, in virtual time, from one seed: make sim SEED=n
	@deploy/setup.sh test
	@mkdir -p build; $(call build,debug) --target test_sim
	@KVFERRY_SIM_SEED=$(SEED) build/debug/tests/sim/test_sim

simt: ## run the GPU kernels on this machine: copies early and late, threads in order and shuffled
	@deploy/setup.sh test
	@mkdir -p build; $(call build,debug) --target test_simt test_simt_cases test_simt_model
	@$(call check,debug,-R ^simt -E mutants_all -LE nightly)

simt-tsan: ## the same under ThreadSanitizer, one thread for each thread of a CTA; it must find planted races
	@deploy/setup.sh ci
	@mkdir -p build; $(call build,tsan) --target test_simt test_simt_cases test_simt_model
	@$(call check,tsan,-R ^simt -E mutants_all)

cuda: ## compile kernels/cuda for each architecture, without a GPU, and compare it with the table
	@deploy/setup.sh cuda
	@deploy/setup-cuda.sh >/dev/null
	@mkdir -p build; $(call build,cuda) --target kvferry image_table gpu_conform driver_header_check
	@$(call check,cuda,-L cuda)

cuda-table: ## write kernels/cuda/resources.tsv and its table in docs/gpu.md: what the kernels use, from this compiler
	@deploy/setup.sh cuda
	@deploy/setup-cuda.sh >/dev/null
	@mkdir -p build; $(call build,cuda) --target cuda_table

asan: ## every test under AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer
	@deploy/setup.sh ci
	@mkdir -p build; $(call build,asan)
	@$(call check,asan)

tsan: ## the tests that have threads, under ThreadSanitizer
	@deploy/setup.sh ci
	@mkdir -p build; $(call build,tsan) --target thread_tests
	@$(call check,tsan) -L threads

format: ## clang-format every source file
	@deploy/setup.sh ci
	@clang-format -i $(SOURCES)

tidy: ## check the project's rules, and run clang-tidy
	@deploy/setup.sh ci
	@mkdir -p build; $(call build,clang)
	@python3 -B tests/tidy/tidy.py
	@tests/tidy/clang_tidy.sh build/clang

reference: ## write docs/reference from the tables in the code
	@deploy/setup.sh build
	@mkdir -p build docs/reference; $(call build,release) --target kvferry
	@for page in config errors metrics ports; do \
	    build/release/kvferry reference $$page >docs/reference/$$page.md || exit 1; done

sbom: ## write build/sbom.json: the linked libraries and their versions (CycloneDX)
	@deploy/setup.sh build
	@mkdir -p build; $(call build,release) --target kvferry
	@deploy/sbom.py build/release/kvferry build/sbom.json

image_preset = $(if $(filter cuda,$(FLAVOUR)),cuda,release)
image: ## build/image/kvferry.tar: the container image of a release build, for podman, docker and containerd; FLAVOUR=cuda
	@deploy/setup.sh $(if $(filter cuda,$(FLAVOUR)),cuda,build)
	$(if $(filter cuda,$(FLAVOUR)),@deploy/setup-cuda.sh >/dev/null)
	@mkdir -p build/image; $(call build,$(image_preset)) --target kvferry
	@deploy/image/make.sh build/$(image_preset)/kvferry build/image/kvferry$(patsubst %,-%,$(filter-out cpu,$(FLAVOUR))).tar $(FLAVOUR)

chart-test: ## test the Helm chart without a cluster: lint, schemas, tables of claims, --check-config
	@deploy/setup.sh test
	@mkdir -p build; $(call build,debug) --target kvferry
	@tests/deploy/run.sh build/debug/kvferry . $(CURDIR)/build/foreign

cluster-test: ## test chart and image on a Kubernetes that is built here: fake nodes, then a real kubelet
	@deploy/setup.sh nightly
	@mkdir -p build; $(call build,release) --target kvferry kvferry_revision_3
	@tests/cluster/run.sh build/release/kvferry build/release/tests/e2e/kvferry_revision_3 $(CURDIR) $(CURDIR)/build/foreign

chart-docs: ## write the chart's README from the comments in its values
	@tests/deploy/tools.sh $(CURDIR)/build/foreign
	@build/foreign/helm-docs --log-level error --chart-search-root deploy/chart/kvferry

chart-files: ## copy deploy/monitoring into the chart
	@deploy/chart/files.sh

clean: ## remove build/
	@rm -rf build
