# nngen: the two commands a user needs are `make run` and `make test`.
#
#   make            build build/nngen and build/libcusim.so
#   make run        install what is missing, build, run the main job
#   make test       the same, then every test (DEVICE=cuda: on the GPU)
#   make check      the tests alone, from a ready-made build/
#   make tests      build all that check and bench need; `make ready` leaves only that in build/
#   make test-foreign   Triton's and CUTLASS's kernels as PTX on libcusim; TensorBoard on our events
#   make bench      measurements, as tables (UPDATE=1: into READMEs); DEVICE=cuda: on a GPU, from a
#                   ready-made build/, in under 9 minutes; RESULTS=DIR: where its JSON goes
#   make bless      accept the generated kernels as the new golden ones
#   make fuzz       random models by the hundred; NNGEN_FUZZ_COUNT=1000: by the thousand
#   make install    nngen, libcusim, libnngen, its headers, the models; PREFIX=/usr/local, DESTDIR=
#   make uninstall  removes them again, from the same PREFIX and DESTDIR
#   make NVTX=off   a build without profilers' ranges (in a build/ of its own: B=DIR)
#   make clean
#   make help       this list
.DELETE_ON_ERROR:
.SECONDARY:
MAKEFLAGS += --no-builtin-rules

B        := build
CC       := gcc
CXX      := g++
PREFIX   ?= /usr/local
DEVICE   ?= sim
OPT      ?= -O2 -g1
SAN      ?=
CPPFLAGS := -I. -Iruntime -D_GNU_SOURCE -MMD -MP
# NVTX ranges need the headers of the CUDA toolkit; without them nngen builds without ranges.
NVTX_INC := $(firstword $(wildcard $(CUDA_PATH)/include/nvtx3 /usr/local/cuda/include/nvtx3))
CPPFLAGS += $(if $(NVTX_INC),-isystem $(dir $(NVTX_INC)))
CPPFLAGS += $(if $(filter off,$(NVTX)),-DNNGEN_NO_NVTX)
LUA_INC  := -I/usr/include/lua5.4
WARN     := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wvla
CFLAGS   := -std=c11 $(OPT) $(WARN) $(SAN) -fPIC
CXXFLAGS := -std=c++17 $(OPT) -Wall -Wextra -Werror $(SAN) -fPIC
# Static but for libc, libm, libdl, libpthread: the binary can be copied to another machine.
LIBS     := -Wl,-Bstatic -llua5.4 -ljansson -lxxhash -lpng16 -lz -lopenblas -Wl,-Bdynamic \
            -static-libgcc -lm -ldl -lpthread

GEN_SRC  := $(shell find gen -name '*.c')
RUN_SRC  := $(shell find runtime -path runtime/sim -prune -o -name '*.c' -print)
SIM_SRC  := $(shell find runtime/sim -name '*.c' -o -name '*.cc' -o -name '*.S')
TEMPLATES := $(addprefix templates/,*.cu parts/*.cu lib/*.cuh lib/*.h embed/*)
LUA      := $(shell find gen -name '*.lua')
CHUNKS   := $(LUA:%.lua=$(B)/obj/%.luac)
ASSETS   := $(LUA) $(CHUNKS) $(wildcard $(TEMPLATES))
SIM_ASSETS := $(shell find runtime/sim/device -type f ! -name '*.s' ! -name README.md) \
              $(B)/obj/runtime/sim/device/cusim_guard.o

obj       = $(patsubst %,$(B)/obj/%.o,$(basename $(1)))
LIB_OBJ  := $(call obj,$(filter-out gen/main.c,$(GEN_SRC)) $(RUN_SRC)) $(B)/obj/assets.o
SIM_OBJ  := $(call obj,$(SIM_SRC)) $(B)/obj/sim_assets.o

# Tests are compiled to be run once; some carry OpenBLAS, and are linked faster where that can be.
TEST_OPT  ?= -O0 -g
TEST_LD   := $(firstword $(foreach ld,lld gold,$(if $(shell command -v ld.$(ld)),-fuse-ld=$(ld))))
TEST_SRC := $(shell find tests -name 'test_*.c' 2>/dev/null)
TEST_BIN := $(patsubst %.c,$(B)/%,$(TEST_SRC))
TEST_SH  := $(shell find tests -name 'test_*.sh' 2>/dev/null)
TEST_ALL  = $(TEST_BIN) $(BENCH_BIN) $(B)/tests/lang/evaluate $(B)/tests/train/renote \
            $(B)/libcusim_ucontext.so

.PHONY: all run test test-foreign tests ready check bench fuzz bless install uninstall clean help setup
all: $(B)/nngen $(B)/libcusim.so

# What these targets build they build on all cores, unless make was given a number.
JOBS = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc))

setup:
	@.ci/setup.sh

# These call make again: beside the goal `all` they wait for it, for both would write the same files.
run test tests bench fuzz: $(filter all,$(MAKECMDGOALS))

run: setup
	@$(MAKE) -s $(JOBS) --no-print-directory all
	$(B)/nngen models/resnet18.lua

test: setup
	@$(MAKE) -s $(JOBS) --no-print-directory all $(TEST_ALL)
	@DEVICE=$(DEVICE) tests/run.sh $(TEST_SH) $(TEST_BIN)

# The tests of a ready-made build/, on a machine that has no compiler or packages.
check:
	@DEVICE=$(DEVICE) tests/run.sh $(TEST_SH) $(if $(wildcard $(B)/obj),$(TEST_BIN),$(wildcard $(TEST_BIN)))

BENCH_BIN := $(patsubst %.c,$(B)/%,$(wildcard tests/bench/bench_*.c))
RESULTS   ?= tests/bench/results
ifeq ($(DEVICE),cuda)
bench:
	@python3 tests/bench/gpu.py --results $(RESULTS)
else
bench: setup
	@$(MAKE) -s $(JOBS) --no-print-directory all $(BENCH_BIN) $(B)/tests/sim/test_planted \
	  $(B)/tests/train/renote
	@tests/bench/bench.sh $(if $(UPDATE),--update)
endif

# Everything built, to be copied to a machine that has a GPU but neither compiler nor packages.
tests: setup
	@$(MAKE) -s $(JOBS) --no-print-directory all $(TEST_ALL)
	@git rev-parse HEAD >$(B)/commit 2>/dev/null || rm -f $(B)/commit
# Without what only makes or tests the compiler and libcusim, which a GPU has no part in.
ready: tests
	rm -rf $(B)/obj $(B)/foreign $(B)/libnngen.a
	rm -rf $(addprefix $(B)/tests/,cache cxx precompiled gen sim lang/test_calls lang/evaluate)
	rm -f $(B)/libcusim_ucontext.so $(patsubst %,$(B)/tests/bench/bench_%,sim checks)
	@find $(B) -name '*.d' -delete -o -type f -perm -u+x ! -name '*.sh' -exec strip --strip-unneeded {} +
	@du -sh $(B)

# Random models and contractions by the thousand: make fuzz NNGEN_FUZZ_COUNT=1000
fuzz: setup
	@$(MAKE) -s $(JOBS) --no-print-directory all
	@NNGEN_FUZZ_COUNT=$(or $(NNGEN_FUZZ_COUNT),100) NNGEN_FUZZ_FIRST=$(or $(NNGEN_FUZZ_FIRST),1) NNGEN_TEST_TIMEOUT=86400 \
	  tests/run.sh tests/models/test_fuzz.sh tests/models/test_attend_fuzz.sh tests/models/test_contraction.sh

test-foreign: all
	@tests/foreign/run.sh

bless: all $(B)/tests/gen/test_ir
	@BLESS=1 $(B)/tests/gen/test_ir >/dev/null; BLESS=1 tests/gen/test_golden.sh; BLESS=1 tests/errors/test_errors.sh >/dev/null
	@git diff --stat -- tests

$(B)/nngen: $(B)/obj/gen/main.o $(B)/libnngen.a
	$(CC) $(SAN) -o $@ $^ $(LIBS)

# An archive, so that a test links only what it uses: the command line needs main.c's verbs.
$(B)/libnngen.a: $(LIB_OBJ)
	rm -f $@
	ar rcs $@ $^

SIM_VERSIONS := -Wl,--version-script=runtime/sim/versions.map
$(B)/libcusim.so: $(SIM_OBJ) runtime/sim/versions.map
	$(CXX) -shared $(SAN) $(SIM_VERSIONS) -o $@ $(SIM_OBJ) -static-libgcc -static-libstdc++ -ldl -lpthread

# The same with the C library's ucontext in place of fiber_switch.S, as on other processors; for a test.
UCONTEXT_OBJ := $(patsubst %/fiber.o,%/fiber_ucontext.o,$(filter-out %/fiber_switch.o,$(SIM_OBJ)))
$(B)/obj/runtime/sim/exec/fiber_ucontext.o: runtime/sim/exec/fiber.c
	$(CC) $(CPPFLAGS) $(CFLAGS) -DCUSIM_UCONTEXT -c -o $@ $<
$(B)/libcusim_ucontext.so: $(UCONTEXT_OBJ)
	$(CXX) -shared $(SAN) $(SIM_VERSIONS) -o $@ $^ -static-libgcc -static-libstdc++ -ldl -lpthread

$(B)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(LUA_INC) $(CFLAGS) -c -o $@ $<

$(B)/obj/%.o: %.cc
	@mkdir -p $(@D)
	$(CXX) $(CPPFLAGS) $(CXXFLAGS) -c -o $@ $<

$(B)/obj/%.o: %.S
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) -c -o $@ $<

$(B)/obj/%.o: %.s
	@mkdir -p $(@D)
	$(CC) -c -o $@ $<

# Lua files are carried as texts, which help reads, and compiled.
$(B)/obj/compile_lua: .ci/compile_lua.c
	@mkdir -p $(@D)
	$(CC) $(LUA_INC) -std=c11 $(WARN) -o $@ $< -llua5.4 -lm -ldl
$(B)/obj/%.luac: %.lua $(B)/obj/compile_lua
	@mkdir -p $(@D)
	@$(B)/obj/compile_lua $< $@

# Files carried inside the binary: a table `assets` of name, begin, end (runtime/assets.h).
define incbin
	@mkdir -p $(@D)
	@.ci/incbin.sh $(1) $(2) > $(@:.o=.S)
	$(CC) -c -o $@ $(@:.o=.S)
endef
$(B)/obj/assets.o: $(ASSETS) .ci/incbin.sh
	$(call incbin,assets,$(ASSETS))
$(B)/obj/sim_assets.o: $(SIM_ASSETS) .ci/incbin.sh Makefile
	$(call incbin,sim_assets,$(SIM_ASSETS))

# Beside the tests, so that they run on a machine without the package.
$(B)/libcmocka.so.0:
	@cp $$($(CC) -print-file-name=libcmocka.so.0) $@

$(B)/tests/%: tests/%.c $(B)/libnngen.a $(B)/libcusim.so | $(B)/libcmocka.so.0
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(LUA_INC) -Itests $(CFLAGS) $(TEST_OPT) -o $@ $< $(B)/libnngen.a -lcmocka \
	  -Wl,-rpath,'$$ORIGIN/../..' $(TEST_LD) $(TEST_LINK) $(LIBS)
$(BENCH_BIN): TEST_OPT := $(OPT)

# Its faulty malloc, mmap and the like stand in for the C library's, also for libcusim.
$(B)/tests/sim/test_resources: TEST_LINK := -rdynamic

# The binary carries its Lua files and templates inside, libcusim its headers: nothing of the tree
# is needed at run time. An nngen in bin/ finds libcusim in lib/ beside it.
INTO     := $(DESTDIR)$(abspath $(PREFIX))
HEADERS  := runtime/nngen_runtime.h runtime/nngen_train.h runtime/nngen_data.h runtime/nngen_image.h runtime/plan.h
SIM_HEADERS := runtime/sim/counters.h runtime/sim/names.h
MODELS   := $(wildcard models/*.lua) models/README.md
VERSION  := $(shell sed -n 's/.*kVersion\[\] = "\(.*\)";/\1/p' gen/main.c)
FOLDERS  := $(addprefix $(INTO)/,bin lib/pkgconfig include/nngen include/cusim share/nngen/models)

install: all
	install -d $(FOLDERS)
	install $(B)/nngen $(INTO)/bin/
	install $(B)/libcusim.so $(INTO)/lib/
	install -m 644 $(B)/libnngen.a $(INTO)/lib/
	install -m 644 $(HEADERS) $(INTO)/include/nngen/
	install -m 644 $(SIM_HEADERS) $(INTO)/include/cusim/
	install -m 644 $(MODELS) $(INTO)/share/nngen/models/
	sed 's|@PREFIX@|$(abspath $(PREFIX))|; s|@VERSION@|$(VERSION)|' .ci/nngen.pc.in \
	  >$(INTO)/lib/pkgconfig/nngen.pc

uninstall:
	rm -f $(INTO)/bin/nngen $(addprefix $(INTO)/lib/,libcusim.so libnngen.a pkgconfig/nngen.pc)
	rm -f $(addprefix $(INTO)/include/nngen/,$(notdir $(HEADERS)))
	rm -f $(addprefix $(INTO)/include/cusim/,$(notdir $(SIM_HEADERS)))
	rm -f $(addprefix $(INTO)/share/nngen/,$(MODELS))
	-rmdir --ignore-fail-on-non-empty $(addprefix $(INTO)/,include/nngen include/cusim share/nngen/models share/nngen)

help:
	@sed -n '3,/^[^#]/s/^#   //p' Makefile

clean:
	rm -rf $(filter-out $(B)/.gitignore,$(wildcard $(B)/*))

-include $(shell find $(B) -name '*.d' 2>/dev/null)
