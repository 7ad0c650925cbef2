# sc: durable logs of lines over WebSockets. `make demo` shows it, `make check` proves it, `make help` lists the rest.
CC ?= gcc
OUT ?= build
PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 20
JOBS ?= $(shell nproc)
VERSION := 0.1.0

# V=1 shows whole commands.
ifeq ($(V),)
Q := @
say = @printf '  %-4s %s\n' "$(1)" "$(2)"
endif

# GNU make's own default is "cc": the house compilers are gcc and clang.
ifeq ($(origin CC),default)
CC := gcc
endif

# Rooms, lowest first: each may include only rooms before it (lib/README.md; `make check-rooms`).
ROOMS := base json kv store log net durable wire cast serve client msg
# libcurl is loaded, not linked: lib/store/libcurl.h.
LIBS := -ljq -llmdb -lzstd -lxxhash -lssl -lcrypto -lz -lpthread -lm

CFLAGS ?= -O2 -g
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror
ALL_CFLAGS := -std=gnu11 -D_GNU_SOURCE -DSC_VERSION='"$(VERSION)"' -Ilib $(WARN) $(CFLAGS) $(EXTRA_CFLAGS)
ALL_LDFLAGS := $(LDFLAGS) $(EXTRA_LDFLAGS) -Wl,--as-needed
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer

PROGRAMS := $(sort $(basename $(notdir $(wildcard bin/*.c))) $(notdir $(patsubst %/,%,$(wildcard bin/*/))))
UNITS := $(patsubst tests/unit/%_test.c,$(OUT)/unit/%_test,$(wildcard tests/unit/*/*_test.c))
FUZZ := $(notdir $(basename $(wildcard tests/fuzz/*.c)))
FAULTS := $(patsubst tests/fault/%_test.c,$(OUT)/fault/%_test,$(wildcard tests/fault/*_test.c)) \
	$(patsubst tests/fault/%_preload.c,$(OUT)/fault/%.so,$(wildcard tests/fault/*_preload.c))
INTEROP := $(patsubst tests/interop/%.c,$(OUT)/interop-bin/%,$(wildcard tests/interop/*.c))
BENCH := $(patsubst tests/bench/%.c,$(OUT)/bench/%,$(wildcard tests/bench/*.c))
room_objs = $(patsubst %.c,$(OUT)/obj/%.o,$(wildcard lib/$(1)/*.c))
ROOM_LIBS := $(foreach r,$(ROOMS),$(OUT)/lib/sc-$(r).a)
# Link order: the highest room first. A unit test links its room and what that may use, no more.
LINK_ROOMS := $(foreach r,msg client serve cast wire durable net log store kv json base,$(OUT)/lib/sc-$(r).a)
LINKS_base := base
LINKS_json := json base
LINKS_kv := kv base
LINKS_store := store base
LINKS_log := log store kv json base
LINKS_net := net base
LINKS_durable := durable net log store kv json base
LINKS_wire := wire json base
LINKS_cast := cast wire log store kv json base
LINKS_serve := serve cast wire net log store kv json base
LINKS_client := client wire net log store kv json base
LINKS_msg := msg net kv json base

all: $(PROGRAMS:%=$(OUT)/bin/%) ## build the programs into build/bin

$(OUT)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

define room_rule
$(OUT)/lib/sc-$(1).a: $(call room_objs,$(1))
	@mkdir -p $$(@D)
	@rm -f $$@
	$$(call say,AR,$$@)
	$$(Q)ar rcs $$@ $$^
endef
$(foreach r,$(ROOMS),$(eval $(call room_rule,$(r))))

define program_rule
$(OUT)/bin/$(1): $(patsubst %.c,$(OUT)/obj/%.o,$(wildcard bin/$(1).c bin/$(1)/*.c)) $(ROOM_LIBS)
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)
	$$(Q)$(CC) $(ALL_LDFLAGS) -o $$@ $$(filter %.o,$$^) $(LINK_ROOMS) $(LIBS)
endef
$(foreach p,$(PROGRAMS),$(eval $(call program_rule,$(p))))

define unit_rule
$(OUT)/unit/$(1)/%_test: $(OUT)/obj/tests/unit/$(1)/%_test.o $(foreach r,$(LINKS_$(1)),$(OUT)/lib/sc-$(r).a)
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)
	$$(Q)$(CC) $(ALL_LDFLAGS) -o $$@ $$^ $(LIBS)
endef
$(foreach r,$(ROOMS),$(eval $(call unit_rule,$(r))))

$(OUT)/fault/%_test: $(OUT)/obj/tests/fault/%_test.o $(ROOM_LIBS)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $< $(LINK_ROOMS) $(LIBS)

-include tests/fault/fault.mk

# For LD_PRELOAD; not sanitized, so that it fits into any program.
$(OUT)/fault/%.so: tests/fault/%_preload.c
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE $(WARN) -O2 -g -fPIC -shared -o $@ $< -ldl

# A fuzz target with a main that feeds it the files it is given: runs the seeds, in any build.
$(OUT)/fuzz/%: $(OUT)/obj/tests/fuzz/%.o $(OUT)/obj/tests/lib/fuzz_main.o $(ROOM_LIBS)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) $(LINK_ROOMS) $(LIBS)

# The same target under libFuzzer (clang): see `make fuzz`.
$(OUT)/libfuzzer/%: $(OUT)/obj/tests/fuzz/%.o $(ROOM_LIBS)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -fsanitize=fuzzer -o $@ $< $(LINK_ROOMS) $(LIBS)

$(OUT)/interop-bin/%: $(OUT)/obj/tests/interop/%.o $(ROOM_LIBS)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $< $(LINK_ROOMS) $(LIBS)

define bench_rule
$(OUT)/bench/$(1): $(patsubst %.c,$(OUT)/obj/%.o,$(wildcard tests/bench/$(1).c tests/bench/$(1)/*.c)) $(ROOM_LIBS)
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)
	$$(Q)$(CC) $(ALL_LDFLAGS) -o $$@ $$(filter %.o,$$^) $(LINK_ROOMS) $(LIBS)
endef
$(foreach b,$(notdir $(BENCH)),$(eval $(call bench_rule,$(b))))

tests: $(UNITS) $(FUZZ:%=$(OUT)/fuzz/%) $(FAULTS) $(INTEROP) ## build what the tests run
objects: $(patsubst %.c,$(OUT)/obj/%.o,$(wildcard lib/*/*.c bin/*.c bin/*/*.c tests/unit/*/*.c tests/fuzz/*.c \
	tests/fault/*_test.c tests/interop/*.c tests/bench/*.c $(filter-out tests/bench/peers/%,$(wildcard tests/bench/*/*.c)) tests/lib/*.c))
bench-tools: $(BENCH)

unit: $(UNITS)
	@for t in $(UNITS); do $$t || exit 1; done

deps: ## install the Debian packages that are missing (root or sudo)
	@.ci/deps

demo: ## show it at work
	@.ci/deps demo
	@$(MAKE) -s --no-print-directory -j$(JOBS) all
	@PATH="$(abspath $(OUT))/bin:$$PATH" examples/demo.sh

check: deps ## run every test
	@$(MAKE) -s --no-print-directory -j$(JOBS) all tests bench-tools
	@SC_BUILD=$(OUT) tests/run.sh all

check-asan: deps ## run the tests under the address and undefined-behaviour sanitizers
	@$(MAKE) -s --no-print-directory -j$(JOBS) OUT=build/asan CFLAGS='-O1 -g' EXTRA_CFLAGS='$(SANITIZE)' EXTRA_LDFLAGS='$(SANITIZE)' \
		all tests
	@SC_BUILD=build/asan tests/run.sh asan

check-docs: all ## compare help, completions and man pages with the option tables
	@SC_BUILD=$(OUT) tests/docs.sh check

docs: all ## write completions and the generated parts of man pages
	@SC_BUILD=$(OUT) tests/docs.sh update

check-rooms: ## check includes and names against the rooms' order
	@ROOMS="$(ROOMS)" CC="$(CC)" OUT="$(OUT)" tests/rooms.sh

lint: ## check formatting, banned calls, scripts, both compilers, stray files
	@tests/lint.sh

format: ## lay out sources as .clang-format says
	@clang-format -i $(if $(FILES),$(FILES),$(wildcard lib/*/*.c bin/*.c bin/*/*.c tests/*/*.c tests/*/*/*.c))

fuzz: ## run each fuzz target for FUZZ_SECONDS
	@$(MAKE) -s --no-print-directory -j$(JOBS) OUT=build/fuzzer CC=clang CFLAGS='-O1 -g' \
		EXTRA_CFLAGS='-fsanitize=fuzzer-no-link $(SANITIZE)' EXTRA_LDFLAGS='$(SANITIZE)' \
		$(FUZZ:%=build/fuzzer/libfuzzer/%)
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tests/fuzz.sh $(FUZZ)

bench: all bench-tools ## measure, with a table at the end
	@SC_BUILD=$(OUT) tests/bench/run.sh

# Every folder is quoted: DESTDIR and PREFIX may hold blanks.
TO = $(DESTDIR)$(PREFIX)
install: all ## install programs, man pages and completions below DESTDIR PREFIX
	install -d "$(TO)/bin" "$(TO)/share/bash-completion/completions" "$(TO)/share/zsh/site-functions"
	install -m 755 $(PROGRAMS:%=$(OUT)/bin/%) "$(TO)/bin/"
	@for page in man/*.[1-8]; do \
		section="$(TO)/share/man/man$${page##*.}"; \
		install -d "$$section" && install -m 644 "$$page" "$$section/" || exit 1; \
	done
	@for program in $(PROGRAMS); do \
		install -m 644 completions/$$program.bash "$(TO)/share/bash-completion/completions/$$program" && \
		install -m 644 completions/_$$program "$(TO)/share/zsh/site-functions/" || exit 1; \
	done

uninstall: ## remove what install installed
	@for program in $(PROGRAMS); do \
		rm -f "$(TO)/bin/$$program" "$(TO)/share/bash-completion/completions/$$program" \
			"$(TO)/share/zsh/site-functions/_$$program" || exit 1; \
	done
	@for page in man/*.[1-8]; do \
		rm -f "$(TO)/share/man/man$${page##*.}/$${page##*/}" || exit 1; \
	done

print-rooms:
	@echo $(ROOMS)

clean: ## remove OUT
	rm -rf "$(OUT)"

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1	\2/p' Makefile | expand -t 16
	@echo "Variables: CC (gcc, clang), PREFIX, DESTDIR, OUT, CFLAGS, LDFLAGS, EXTRA_CFLAGS, EXTRA_LDFLAGS, JOBS, FUZZ_SECONDS; V=1 shows commands."

-include $(shell find $(OUT)/obj -name '*.d' 2>/dev/null)
.PHONY: all tests objects bench-tools unit deps demo check check-asan check-docs docs check-rooms lint format fuzz bench \
	install uninstall print-rooms clean help
.SECONDARY:
.DELETE_ON_ERROR:
