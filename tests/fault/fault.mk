# tests/fault/fault.mk: the fault tests that are made of more than one file; the Makefile builds the others.
FAULT_PARTS := cut disk proof proof_sealed run
FAULT_ROOMS := $(foreach r,log store kv json base,$(OUT)/lib/sc-$(r).a)

$(OUT)/fault/powercut_test: $(OUT)/obj/tests/fault/powercut_test.o $(FAULT_PARTS:%=$(OUT)/obj/tests/fault/%.o) $(FAULT_ROOMS)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

$(OUT)/fault/record.so: tests/fault/trace.h
$(OUT)/fault/failmalloc.so: tests/fault/fail_preload.c
