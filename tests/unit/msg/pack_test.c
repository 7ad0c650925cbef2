/*
 * What is written is what the specification says, in the shortest form, and reads back as what it
 * was. Method: the numbers at both sides of each form's limit.
 */
#include <math.h>

#include "../check.h"
#include "bytes.h"
#include "base/err.h"
#include "msg/pack.h"
#include "msg/scan.h"

static struct sc_bytes out;

static void fresh(void)
{
	sc_bytes_done(&out);
	sc_bytes_init(&out, 1 << 20);
}

static void wrote(const char *want, size_t more)
{
	struct sc_span w = hex(want);

	CHECK_INT(out.len, w.len + more);
	CHECK(same(sc_span(out.data, w.len), w));
	fresh();
}

TEST(integers)
{
	static const struct {
		int64_t value;
		const char *bytes;
	} ints[] = {
		{ 0, "00" },
		{ 127, "7f" },
		{ 128, "cc80" },
		{ 255, "ccff" },
		{ 256, "cd0100" },
		{ 65535, "cdffff" },
		{ 65536, "ce00010000" },
		{ UINT32_MAX, "ceffffffff" },
		{ (int64_t)UINT32_MAX + 1, "cf0000000100000000" },
		{ INT64_MAX, "cf7fffffffffffffff" },
		{ -1, "ff" },
		{ -32, "e0" },
		{ -33, "d0df" },
		{ -128, "d080" },
		{ -129, "d1ff7f" },
		{ -32768, "d18000" },
		{ -32769, "d2ffff7fff" },
		{ INT32_MIN, "d280000000" },
		{ (int64_t)INT32_MIN - 1, "d3ffffffff7fffffff" },
		{ INT64_MIN, "d38000000000000000" },
	};

	fresh();
	for (size_t i = 0; i < sizeof(ints) / sizeof(*ints); i++) {
		CHECK_INT(sc_pack_i64(&out, ints[i].value), 0);
		wrote(ints[i].bytes, 0);
	}
	sc_pack_u64(&out, UINT64_MAX);
	wrote("cfffffffffffffffff", 0);
}

TEST(other_scalars)
{
	fresh();
	sc_pack_nil(&out);
	sc_pack_bool(&out, true);
	sc_pack_bool(&out, false);
	sc_pack_f64(&out, 9.5);
	wrote("c0 c3 c2 cb4023000000000000", 0);
}

TEST(lengths_at_their_limits)
{
	static const struct {
		size_t len;
		const char *str, *bin, *ext;
	} sizes[] = {
		{ 0, "a0", "c400", "c70005" },
		{ 1, "a1", "c401", "d405" },
		{ 2, "a2", "c402", "d505" },
		{ 3, "a3", "c403", "c70305" },
		{ 4, "a4", "c404", "d605" },
		{ 8, "a8", "c408", "d705" },
		{ 16, "b0", "c410", "d805" },
		{ 31, "bf", "c41f", "c71f05" },
		{ 32, "d920", "c420", "c72005" },
		{ 255, "d9ff", "c4ff", "c7ff05" },
		{ 256, "da0100", "c50100", "c8010005" },
		{ 65535, "daffff", "c5ffff", "c8ffff05" },
		{ 65536, "db00010000", "c600010000", "c90001000005" },
	};
	static char text[65536];

	fresh();
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct sc_span data = sc_span(text, sizes[i].len);

		CHECK_INT(sc_pack_str(&out, data), 0);
		wrote(sizes[i].str, data.len);
		CHECK_INT(sc_pack_bin(&out, data), 0);
		wrote(sizes[i].bin, data.len);
		CHECK_INT(sc_pack_ext(&out, 5, data), 0);
		wrote(sizes[i].ext, data.len);
	}
}

TEST(counts_at_their_limits)
{
	fresh();
	sc_pack_array(&out, 15);
	sc_pack_array(&out, 16);
	sc_pack_array(&out, 65535);
	sc_pack_array(&out, 65536);
	wrote("9f dc0010 dcffff dd00010000", 0);
	sc_pack_map(&out, 15);
	sc_pack_map(&out, 16);
	sc_pack_map(&out, 65536);
	wrote("8f de0010 df00010000", 0);
}

TEST(a_full_buffer_takes_nothing)
{
	struct sc_bytes small;

	sc_bytes_init(&small, 4);
	CHECK_INT(sc_pack_str(&small, SC_SPAN("abcd")), SC_E_NOMEM);
	CHECK_INT(small.len, 0);
	CHECK_INT(sc_pack_f64(&small, 1), SC_E_NOMEM);
	CHECK_INT(small.len, 0);
	CHECK_INT(sc_pack_str(&small, SC_SPAN("abc")), 0);
	CHECK_INT(small.len, 4);
	sc_bytes_done(&small);
	sc_bytes_done(&out);
}
