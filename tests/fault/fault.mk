# tests/fault/fault.mk: the fault tests that are made of more than one file; the Makefile builds the others.
FAULT_PARTS := disk proof run

$(OUT)/fault/powercut_test: $(OUT)/obj/tests/fault/powercut_test.o $(FAULT_PARTS:%=$(OUT)/obj/tests/fault/%.o) $(ROOM_LIBS)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) $(LINK_ROOMS) $(LIBS)
