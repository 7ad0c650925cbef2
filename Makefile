# sc: durable logs of lines over WebSockets. `make demo` shows it, `make check` proves it.
CC ?= gcc
OUT ?= build
PREFIX ?= /usr/local
DESTDIR ?=
VERSION := 0.1.0

# Rooms, lowest first: each may include only rooms before it (lib/README.md; `make check-rooms`).
ROOMS := base json kv log net wire cast client
LIBS := -lwebsockets -ljq -llmdb -lzstd -lxxhash -lssl -lcrypto -lpthread -lm

CFLAGS ?= -O2 -g
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror
ALL_CFLAGS := -std=gnu11 -D_GNU_SOURCE -DSC_VERSION='"$(VERSION)"' -Ilib $(WARN) $(CFLAGS) $(EXTRA_CFLAGS)
ALL_LDFLAGS := $(LDFLAGS) $(EXTRA_LDFLAGS) -Wl,--as-needed

PROGRAMS := $(sort $(basename $(notdir $(wildcard bin/*.c))) $(notdir $(patsubst %/,%,$(wildcard bin/*/))))
UNITS := $(patsubst tests/unit/%_test.c,$(OUT)/unit/%_test,$(wildcard tests/unit/*/*_test.c))
room_objs = $(patsubst %.c,$(OUT)/obj/%.o,$(wildcard lib/$(1)/*.c))
ROOM_LIBS := $(foreach r,$(ROOMS),$(OUT)/lib/sc-$(r).a)
# Link order: the highest room first.
LINK_ROOMS := $(foreach r,client cast wire net log kv json base,$(OUT)/lib/sc-$(r).a)

all: $(PROGRAMS:%=$(OUT)/bin/%)

$(OUT)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

define room_rule
$(OUT)/lib/sc-$(1).a: $(call room_objs,$(1))
	@mkdir -p $$(@D)
	@rm -f $$@
	ar rcs $$@ $$^
endef
$(foreach r,$(ROOMS),$(eval $(call room_rule,$(r))))

define program_rule
$(OUT)/bin/$(1): $(patsubst %.c,$(OUT)/obj/%.o,$(wildcard bin/$(1).c bin/$(1)/*.c)) $(ROOM_LIBS)
	@mkdir -p $$(@D)
	$(CC) $(ALL_LDFLAGS) -o $$@ $$(filter %.o,$$^) $(LINK_ROOMS) $(LIBS)
endef
$(foreach p,$(PROGRAMS),$(eval $(call program_rule,$(p))))

$(OUT)/unit/%_test: $(OUT)/obj/tests/unit/%_test.o $(ROOM_LIBS)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $< $(LINK_ROOMS) $(LIBS)

unit: $(UNITS)
	@for t in $(UNITS); do $$t || exit 1; done

clean:
	rm -rf $(OUT)

-include $(shell find $(OUT) -name '*.d' 2>/dev/null)
.PHONY: all unit clean
.SECONDARY:
