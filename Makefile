# SPDX-License-Identifier: Apache-2.0
#
# The front door to the CMake build: `make run` and `make check` are all that a newcomer needs. See `make help`.

PREFIX ?= /usr/local
DESTDIR ?=
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60
STDIO_SECONDS ?= 3600
KILL_RUNS ?= 100
CHAOS_TRIALS ?= 5000
CHAOS_TRIALS_HOSTS ?= 1000
ELASTIC_TIMES ?= 20
HEALTH_TRIALS ?= 50
BLAME_TRIALS ?= 100
MPICH_CH3 ?= build/mpich-ch3
BENCH_OUT ?= build/bench
BEFORE ?=

DEV := build/dev
RELEASE := build/release
FIRST := build/first
CLANG := build/clang
DEB := build/deb
PORTABLE := build/portable
DIST := build/dist

step := @etc/step.sh
# A step that finds no more programs and modules than the packages of etc/packages bring.
only := $(CURDIR)/build/only
only_step := @PATH='$(only)/bin' PKG_CONFIG_LIBDIR='$(only)/pkgconfig' etc/step.sh
# For compilers the C library keeps freed memory, and takes huge pages: about a sixth less of the processor's time.
build := env GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.top_pad=67108864:glibc.malloc.trim_threshold=1073741824 cmake --build
# A few more than there are processors, as tests often wait. Six on two processors take a fifth longer in all than four.
ctest_options := --output-on-failure --no-tests=error
ctest := ctest $(ctest_options) --parallel $(shell expr $(JOBS) + 2)
unit_ctest := ctest $(ctest_options) --parallel $(shell expr $(JOBS) + 1) --label-regex '^(unit|fuzz)$$'
sources := git ls-files --cached --others --exclude-standard '*.cpp' '*.hpp' '*.c' '*.h'
# By their paths: where PATH leads to the same ones by others, CMake would begin anew, without the settings of the preset.
clang := -DCMAKE_C_COMPILER=$$(command -v /usr/bin/clang || echo clang) -DCMAKE_CXX_COMPILER=$$(command -v /usr/bin/clang++ || echo clang++)
test_path := -DNACRE_TEST_PATH='$(only)/bin'
# What is tested end to end only: that of `make run`, for `make check`, with some of the tests; the optimised one with all.
first_options = $(release_options) -DNACRE_E2E=some
release_options = -DCMAKE_INSTALL_PREFIX='$(PREFIX)' -DNACRE_UNIT_TESTS=OFF -DNACRE_TESTS=ON
clang_format = $(shell command -v clang-format-14 || command -v clang-format)

# A compiler cache, if there is one.
ccache := $(shell command -v ccache)
ifneq ($(ccache),)
  export CMAKE_C_COMPILER_LAUNCHER ?= $(ccache)
  export CMAKE_CXX_COMPILER_LAUNCHER ?= $(ccache)
  export CCACHE_SLOPPINESS ?= pch_defines,time_macros
endif
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(JOBS)

.DEFAULT_GOAL := help
.PHONY: help deps run check check-long check-bare bench bench-hosts build release install deb tarball wheel dist format lint clean

help: ## print this
	@echo "make TARGET, where TARGET is one of:"
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  \1\t\2/p' Makefile | expand -t 14
	@echo "Variables: PREFIX=$(PREFIX) DESTDIR=$(DESTDIR) JOBS=$(JOBS) FUZZ_SECONDS=$(FUZZ_SECONDS) STDIO_SECONDS=$(STDIO_SECONDS) KILL_RUNS=$(KILL_RUNS) CHAOS_TRIALS=$(CHAOS_TRIALS) CHAOS_TRIALS_HOSTS=$(CHAOS_TRIALS_HOSTS) ELASTIC_TIMES=$(ELASTIC_TIMES) HEALTH_TRIALS=$(HEALTH_TRIALS) BLAME_TRIALS=$(BLAME_TRIALS) MPICH_CH3=$(MPICH_CH3) BENCH_OUT=$(BENCH_OUT) BEFORE=$(BEFORE)"

deps: ## install the packages that a build needs (Debian, Ubuntu), or name those that are missing (elsewhere)
	@etc/deps.sh

run: ## build, without optimisation as that is quick, and run a first job
	@etc/deps.sh run
	@cmake --preset first $(clang)
	@$(build) $(FIRST)
	@etc/demo/run.sh $(FIRST)/nacre-shell build/demo
	@echo "To use it:  export PATH=$(CURDIR)/$(FIRST):\$$PATH    and then:  nacre run -n 4 hostname"
	@echo "This build is slow, as it is not optimised: \`make install\` and \`make deb\` make one for use."

check: ## build and run the unit tests and a short fuzzing with sanitizers, some of the end-to-end tests on the build of `make run`, and lint
	$(step) "Dependencies" etc/deps.sh check cluster
	$(step) "Find what they bring" t/kit/only_packages $(only) build run check cluster
	$(only_step) "Configure, with sanitizers" cmake --preset dev $(clang) $(test_path)
	$(only_step) "Build the unit tests and what is fuzzed, with sanitizers" $(build) $(DEV) --target unit_tests fuzz_tests
	$(only_step) "Unit tests and a short fuzzing, with sanitizers" $(unit_ctest) --test-dir $(DEV)
	$(only_step) "Configure, for end-to-end tests" cmake --preset first $(clang) $(first_options) $(test_path)
	$(only_step) "Build, for end-to-end tests" $(build) $(FIRST)
	$(only_step) "Test, end to end" $(ctest) --test-dir $(FIRST)
	$(only_step) "Lint's own test" t/lint/selftest
	$(only_step) "Lint" t/lint/run
	@t/kit/left_out $(DEV) $(FIRST)

check-long: check ## check, then all tests, optimised and with sanitizers, Clang's warnings, fuzzing for FUZZ_SECONDS each, stdio for STDIO_SECONDS, other MPIs, a viewer of traces
	$(step) "Dependencies of the long tests" etc/deps.sh check cluster deb dist bare long
	$(step) "Find what they bring" t/kit/only_packages $(only) build run check cluster deb dist bare long
	$(only_step) "Build the rest, with sanitizers" $(build) $(DEV)
	$(only_step) "Test the rest, with sanitizers" $(ctest) --test-dir $(DEV) --label-exclude '^(unit|fuzz)$$'
	$(only_step) "Configure, with Clang" cmake --preset clang $(clang) $(test_path)
	$(only_step) "Build, with Clang" $(build) $(CLANG)
	$(only_step) "Test, with Clang" $(ctest) --test-dir $(CLANG)
	$(only_step) "Configure, with link-time optimisation" cmake --preset release $(release_options) $(test_path)
	$(only_step) "Build, with link-time optimisation" $(build) $(RELEASE)
	$(only_step) "Test, with link-time optimisation" $(ctest) --test-dir $(RELEASE) -C Long --exclude-regex '^cluster[.](build_other|elastic_cases|faults_)'
	$(only_step) "Lint, every header alone" t/lint/run --every-header headers
	$(only_step) "Fuzz" etc/fuzz.sh $(CLANG) $(FUZZ_SECONDS)
	$(only_step) "Every fault of a shell" t/e2e/fault_matrix --build $(RELEASE) --all
	$(only_step) "Healthy programs, and all kinds of deadlock, for nacre doctor" t/e2e/doctor_bench --build $(RELEASE)
	$(only_step) "A client of notices stops reading" t/e2e/stalled_reader --shell $(RELEASE)/nacre-shell
	$(only_step) "A signal at every moment of a start" t/e2e/start_signals --build $(RELEASE) --all
	$(only_step) "Random faults in random jobs" t/long/chaos --build $(RELEASE) --trials $(CHAOS_TRIALS)
	$(only_step) "Random faults in random jobs, over ssh" t/long/chaos --build $(RELEASE) --on ssh --trials $(CHAOS_TRIALS_HOSTS)
	$(only_step) "Random faults in random jobs, under srun" t/long/chaos --build $(RELEASE) --on srun --trials $(CHAOS_TRIALS_HOSTS)
	$(only_step) "Who failed first, on a loaded machine" t/e2e/blame --build $(RELEASE) --trials $(BLAME_TRIALS) --load 20
	$(only_step) "Kill ranks" t/long/kills --shell $(DEV)/nacre-shell --runs $(KILL_RUNS)
	$(only_step) "Build an older MPICH" t/long/mpich_ch3 $(MPICH_CH3)
	$(only_step) "Test with it, with HPCC, and traces in a browser" env NACRE_SHELL=$(abspath $(DEV)/nacre-shell) NACRE_BUILD_DIR=$(abspath $(DEV)) \
	  NACRE_SOURCE_DIR=$(CURDIR) MPICH_CH3=$(abspath $(MPICH_CH3)/install) bats t/long
	$(only_step) "Faults of virtual hosts" t/long/faults --build $(DEV) --times 2
	$(only_step) "Shrinks and grows in deep trees, $(ELASTIC_TIMES) times each" env NACRE_SHELL=$(abspath $(RELEASE)/nacre-shell) NACRE_BUILD_DIR=$(abspath $(RELEASE)) \
	  NACRE_SOURCE_DIR=$(CURDIR) ELASTIC_TIMES=$(ELASTIC_TIMES) t/cluster/run bats t/cluster/elastic_cases.bats
	$(only_step) "Bad hosts and healthy ones, $(HEALTH_TRIALS) times each" env NACRE_SHELL=$(abspath $(RELEASE)/nacre-shell) NACRE_BUILD_DIR=$(abspath $(RELEASE)) \
	  NACRE_SOURCE_DIR=$(CURDIR) HEALTH_TRIALS=$(HEALTH_TRIALS) t/cluster/run bats t/cluster/health.bats
	$(only_step) "Launch many times" t/long/launches --build $(RELEASE)
	$(only_step) "Launch over many virtual hosts" t/long/ssh_tree --build $(RELEASE)
	$(only_step) "A million ends of jobs, by all exit policies" $(DEV)/t/unit/unit_facts "[million]"
	$(only_step) "Simulate the overlay, many seeds" $(RELEASE)/t/sim/sim --seeds=1-200000
	$(only_step) "Simulate jobs of the shell that ships, many seeds" $(DEV)/t/sim/sim --shells --seeds=10001-11000
	$(only_step) "Simulate such jobs with faults, many seeds" $(DEV)/t/sim/sim --shells --faults=3 --seeds=10001-11000
	$(only_step) "Simulate such jobs that lose their leaders, many seeds" $(DEV)/t/sim/sim --shells --leader-lost --seeds=10001-15000
	$(only_step) "Simulate such jobs of up to 200 shells" $(DEV)/t/sim/sim --shells --members=200 --faults=2 --seeds=10001-10010
	$(only_step) "A million tasks of 8,000 shells end" $(RELEASE)/t/sim/sim --ends=1000000 --shells=8000
	$(only_step) "Break each rule of the overlay and of how a job ends" t/sim/mutations
	$(step) "Bare Debian" $(MAKE) check-bare
	$(only_step) "Fuzz the stdio" t/e2e/stdio_property --shell $(DEV)/nacre-shell --task $(DEV)/t/e2e/stdio_task --seconds $(STDIO_SECONDS)

check-bare: ## as root: make run, make check, make deb, make install and the package in a bare Debian 12 and 13, as root and as a user; the tarball and the wheel there and on Ubuntu 22.04
	@for suite in bookworm trixie; do for user in '' --user; do \
	  out=$$(mktemp -d) && chmod 777 $$out && \
	  etc/step.sh "Bare $$suite $$user" t/bare/run $$user $$suite t/bare/try run check && \
	  etc/step.sh "Package for $$suite $$user" t/bare/run $$user --share $$out $$suite t/bare/try deb install && \
	  etc/step.sh "Package on $$suite $$user" t/bare/run $$user --share $$out $$suite t/bare/try package && rm -r $$out || exit; \
	done; done
	@out=$$(mktemp -d) && chmod 777 $$out && \
	  etc/step.sh "Tarball and wheel" t/bare/run --share $$out bookworm t/bare/try dist && \
	  for suite in bookworm trixie jammy; do \
	    etc/step.sh "Tarball and wheel on $$suite" t/bare/run --share $$out $$suite t/bare/try tarball wheel || exit; \
	  done && rm -r $$out

bench: ## measure against what else starts tasks, and an older release build in the folder BEFORE if it is given; tables and plots go to BENCH_OUT
	@etc/deps.sh check bench
	@cmake --preset release $(release_options)
	@$(build) $(RELEASE)
	@$(build) $(RELEASE) --target bare elastic_task measure stream pmi_client pmi_limit bench_values bench_stack bench_barrier bench_notices bench_placement bench_scale sim
	t/bench/launch --shell $(RELEASE)/nacre-shell --bare $(RELEASE)/t/bench/bare \
	  --measure $(RELEASE)/t/bench/measure --out $(BENCH_OUT)
	t/bench/plugins --shell $(RELEASE)/nacre-shell --measure $(RELEASE)/t/bench/measure \
	  --include shell/plugin/include --out $(BENCH_OUT)
	t/bench/output --shell $(RELEASE)/nacre-shell --nacre $(RELEASE)/nacre --stream $(RELEASE)/t/bench/stream \
	  --measure $(RELEASE)/t/bench/measure --out $(BENCH_OUT)
	t/bench/pmi --shell $(RELEASE)/nacre-shell --client $(RELEASE)/t/bench/pmi_client \
	  --limit $(RELEASE)/t/bench/pmi_limit --measure $(RELEASE)/t/bench/measure --out $(BENCH_OUT)
	t/bench/scheduling --shell $(RELEASE)/nacre-shell --client $(RELEASE)/t/bench/pmi_client --out $(BENCH_OUT)
	t/bench/nodes --shell $(RELEASE)/nacre-shell --nacre $(RELEASE)/nacre --bare $(RELEASE)/t/bench/bare \
	  --client $(RELEASE)/t/bench/pmi_client --limit $(RELEASE)/t/bench/pmi_limit \
	  --barrier $(RELEASE)/t/bench/bench_barrier --out $(BENCH_OUT)
	t/sim/plot --sim $(RELEASE)/t/sim/sim --out $(BENCH_OUT)
	$(RELEASE)/t/bench/bench_stack
	$(RELEASE)/t/bench/bench_values
	$(RELEASE)/t/bench/bench_notices
	$(RELEASE)/t/bench/bench_placement
	t/bench/scale --build $(RELEASE) --out $(BENCH_OUT)
	$(RELEASE)/t/sim/sim --ends=1000000 --shells=8000
	$(RELEASE)/t/sim/sim --doctor=10000
	t/bench/front --nacre $(RELEASE)/nacre --shell $(RELEASE)/nacre-shell --measure $(RELEASE)/t/bench/measure --out $(BENCH_OUT)
	t/bench/front_live --nacre $(RELEASE)/nacre --shell $(RELEASE)/nacre-shell --measure $(RELEASE)/t/bench/measure --out $(BENCH_OUT)
	t/bench/insight --nacre $(RELEASE)/nacre --shell $(RELEASE)/nacre-shell --out $(BENCH_OUT)
	t/bench/elastic --nacre $(RELEASE)/nacre --shell $(RELEASE)/nacre-shell --task $(RELEASE)/t/bench/elastic_task \
	  --client $(RELEASE)/t/bench/pmi_client --measure $(RELEASE)/t/bench/measure --out $(BENCH_OUT)
	t/bench/commands --nacre $(RELEASE)/nacre --shell $(RELEASE)/nacre-shell --out $(BENCH_OUT)
	t/bench/failure_line --nacre $(RELEASE)/nacre --shell $(RELEASE)/nacre-shell
ifneq ($(BEFORE),)
	t/bench/before --before $(BEFORE) --now $(RELEASE) --bench $(RELEASE)/t/bench --out $(BENCH_OUT)
endif

bench-hosts: ## as root, on virtual hosts: measure against srun, ssh and mpirun, and what a lost leader costs; tables go to BENCH_OUT
	@etc/deps.sh check cluster
	@cmake --preset release $(release_options)
	@$(build) $(RELEASE)
	t/bench/slurm --build $(RELEASE) --out $(BENCH_OUT)
	t/bench/leader --build $(RELEASE) --out $(BENCH_OUT)
	t/bench/scale --build $(RELEASE) --out $(BENCH_OUT) pmi

build: ## build with sanitizers, debug information and tests, in build/dev
	@etc/deps.sh check
	@cmake --preset dev $(clang)
	@$(build) $(DEV)

release: deps ## build as it is installed, with link-time optimisation, in build/release
	@cmake --preset release $(release_options) -DNACRE_TESTS=OFF
	@$(build) $(RELEASE)

install: release ## install the optimised build below PREFIX, staged in DESTDIR if that is set
	@umask 022 && DESTDIR='$(DESTDIR)' cmake --install $(RELEASE)

deb: deps ## a package for Debian and Ubuntu, in build/deb
	@etc/deps.sh deb
	@cmake --preset release -B $(DEB) -DCMAKE_INSTALL_PREFIX=/usr -DNACRE_TESTS=OFF
	@$(build) $(DEB)
	@umask 022 && cd $(DEB) && cpack --config CPackConfig.cmake -G DEB
	@ls $(DEB)/*.deb

tarball: deps ## one folder for other systems, from glibc 2.34 on, in build/dist; it is to be made on Debian 12
	@etc/deps.sh dist
	@cmake --preset portable
	@$(build) $(PORTABLE)
	@etc/dist/tarball $(PORTABLE) $(DIST)

wheel: tarball ## the same for pip, with a module for Python, in build/dist
	@etc/dist/wheel "$$(ls -t $(DIST)/nacre-*-linux-$$(uname -m).tar.gz | head -n 1)" $(DIST)

dist: deb wheel ## all that others install: package, tarball, wheel, the source, and SHA256SUMS, in build/dist
	@etc/dist/collect $(DEB) $(DIST)
	@ls -l $(DIST)

format: ## format all C and C++ in place
	@etc/deps.sh check
	@$(sources) | xargs -r $(clang_format) -i

lint: ## check the tree: includes, lengths, headers, formatting, scripts, texts
	@etc/deps.sh check
	@t/lint/selftest
	@t/lint/run

clean: ## remove build/
	rm -rf build
