/*
 * Msgpack is read in every form that the specification has, to the byte, and nothing else is taken.
 * Method: tables of bytes against meanings; every prefix of good values; depth at and over its
 * limit; heads that announce what is not there.
 */
#include "../check.h"
#include "bytes.h"
#include "msg/scan.h"

static const struct {
	const char *bytes;
	enum sc_packed_kind kind;
	int64_t number; /* the value, the count, or the length of the content */
} items[] = {
	{ "c0", SC_PACKED_NIL, 0 },
	{ "c2", SC_PACKED_BOOL, 0 },
	{ "c3", SC_PACKED_BOOL, 1 },
	{ "00", SC_PACKED_UINT, 0 },
	{ "7f", SC_PACKED_UINT, 127 },
	{ "ff", SC_PACKED_INT, -1 },
	{ "e0", SC_PACKED_INT, -32 },
	{ "cc 80", SC_PACKED_UINT, 128 },
	{ "cc 05", SC_PACKED_UINT, 5 },
	{ "cd 0100", SC_PACKED_UINT, 256 },
	{ "ce 00010000", SC_PACKED_UINT, 65536 },
	{ "cf 7fffffffffffffff", SC_PACKED_UINT, INT64_MAX },
	{ "d0 80", SC_PACKED_INT, -128 },
	{ "d0 7f", SC_PACKED_UINT, 127 },
	{ "d1 8000", SC_PACKED_INT, -32768 },
	{ "d2 80000000", SC_PACKED_INT, INT32_MIN },
	{ "d3 8000000000000000", SC_PACKED_INT, INT64_MIN },
	{ "d3 0000000000000001", SC_PACKED_UINT, 1 },
	{ "a0", SC_PACKED_STR, 0 },
	{ "a3 616263", SC_PACKED_STR, 3 },
	{ "d9 03 616263", SC_PACKED_STR, 3 },
	{ "da 0003 616263", SC_PACKED_STR, 3 },
	{ "db 00000003 616263", SC_PACKED_STR, 3 },
	{ "c4 02 0001", SC_PACKED_BIN, 2 },
	{ "c5 0002 0001", SC_PACKED_BIN, 2 },
	{ "c6 00000002 0001", SC_PACKED_BIN, 2 },
	{ "c7 00 ff", SC_PACKED_EXT, 0 },
	{ "c7 03 05 010203", SC_PACKED_EXT, 3 },
	{ "c8 0001 05 01", SC_PACKED_EXT, 1 },
	{ "c9 00000001 05 01", SC_PACKED_EXT, 1 },
	{ "d4 05 01", SC_PACKED_EXT, 1 },
	{ "d5 05 0102", SC_PACKED_EXT, 2 },
	{ "d6 05 01020304", SC_PACKED_EXT, 4 },
	{ "d7 05 0102030405060708", SC_PACKED_EXT, 8 },
	{ "d8 05 01020304050607080102030405060708", SC_PACKED_EXT, 16 },
	{ "90", SC_PACKED_ARRAY, 0 },
	{ "9f", SC_PACKED_ARRAY, 15 },
	{ "dc 0010", SC_PACKED_ARRAY, 16 },
	{ "dd ffffffff", SC_PACKED_ARRAY, UINT32_MAX },
	{ "80", SC_PACKED_MAP, 0 },
	{ "8f", SC_PACKED_MAP, 15 },
	{ "de 0001", SC_PACKED_MAP, 1 },
	{ "df ffffffff", SC_PACKED_MAP, UINT32_MAX },
};

static int64_t number_of(const struct sc_packed *item)
{
	switch (item->kind) {
	case SC_PACKED_BOOL:
		return item->truth;
	case SC_PACKED_UINT:
		return (int64_t)item->u;
	case SC_PACKED_INT:
		return item->i;
	case SC_PACKED_ARRAY:
	case SC_PACKED_MAP:
		return item->count;
	case SC_PACKED_STR:
	case SC_PACKED_BIN:
	case SC_PACKED_EXT:
		return (int64_t)item->bytes.len;
	default:
		return 0;
	}
}

TEST(every_form_of_an_item)
{
	for (size_t i = 0; i < sizeof(items) / sizeof(*items); i++) {
		struct sc_span bytes = hex(items[i].bytes);
		struct sc_packed item;
		size_t len = 0;

		CHECK_INT(sc_packed_item(bytes, &item, &len), SC_PACKED_OK);
		if (item.kind != items[i].kind || number_of(&item) != items[i].number)
			FAIL("%s is kind %d, number %" PRId64, items[i].bytes, item.kind,
			     number_of(&item));
		CHECK_INT(len, bytes.len);
		for (size_t cut = 0; cut < bytes.len; cut++)
			CHECK_INT(sc_packed_item(sc_span(bytes.data, cut), &item, &len),
				  SC_PACKED_SHORT);
	}
}

TEST(floats_and_large_integers)
{
	struct sc_packed item;
	size_t len;

	CHECK_INT(sc_packed_item(hex("cb 4023000000000000"), &item, &len), SC_PACKED_OK);
	CHECK(item.kind == SC_PACKED_FLOAT && item.f == 9.5 && !item.single && len == 9);
	CHECK_INT(sc_packed_item(hex("ca bfc00000"), &item, &len), SC_PACKED_OK);
	CHECK(item.kind == SC_PACKED_FLOAT && item.f == -1.5 && item.single && len == 5);
	CHECK_INT(sc_packed_item(hex("cf ffffffffffffffff"), &item, &len), SC_PACKED_OK);
	CHECK(item.kind == SC_PACKED_UINT && item.u == UINT64_MAX);
	CHECK_INT(sc_packed_item(hex("c7 01 80 aa"), &item, &len), SC_PACKED_OK);
	CHECK_INT(item.ext, -128);
	CHECK_INT(sc_packed_item(hex("c1"), &item, &len), SC_PACKED_INVALID);
}

TEST(a_value_ends_where_its_last_item_does)
{
	static const struct {
		const char *bytes;
		size_t len;
	} values[] = {
		{ "c0 c0", 1 },
		{ "90 c0", 1 },
		{ "80 c0", 1 },
		{ "92 01 02 03", 3 },
		{ "82 01 02 03 04 05", 5 },
		{ "93 90 80 91c0 c0", 5 },
		{ "81 92 01 02 a1 61 c0", 6 },
	};

	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
		struct sc_span bytes = hex(values[i].bytes);
		size_t len = 0;

		CHECK_INT(sc_packed_value(bytes, &len), SC_PACKED_OK);
		if (len != values[i].len)
			FAIL("%s: %zu bytes", values[i].bytes, len);
		for (size_t cut = 0; cut < values[i].len; cut++)
			CHECK_INT(sc_packed_value(sc_span(bytes.data, cut), &len), SC_PACKED_SHORT);
	}
}

TEST(heads_that_announce_too_much)
{
	static const char *const heads[] = {
		"dd ffffffff c0", "df ffffffff c0 c0", "db ffffffff 61",
		"c6 ffffffff 00", "c9 ffffffff 01 00", "dd ffffffff df ffffffff dd ffffffff"
	};
	size_t len;

	for (size_t i = 0; i < sizeof(heads) / sizeof(*heads); i++)
		CHECK_INT(sc_packed_value(hex(heads[i]), &len), SC_PACKED_SHORT);
}

static enum sc_packed_end nested(size_t depth, unsigned char head)
{
	char bytes[300];
	size_t at = 0, len;

	for (size_t i = 0; i < depth; i++) {
		bytes[at++] = (char)head;
		if (head == 0x81)
			bytes[at++] = 0;
	}
	bytes[at++] = (char)0xc0;
	return sc_packed_value(sc_span(bytes, at), &len);
}

TEST(depth_is_128)
{
	CHECK_INT(nested(128, 0x91), SC_PACKED_OK);
	CHECK_INT(nested(129, 0x91), SC_PACKED_DEEP);
	CHECK_INT(nested(128, 0x81), SC_PACKED_OK);
	CHECK_INT(nested(129, 0x81), SC_PACKED_DEEP);
}

TEST(messages_have_five_elements)
{
	static const struct {
		const char *bytes, *reason; /* NULL: good */
	} messages[] = {
		{ "95 c0 c0 c0 c0 c0", NULL },
		{ "dc0005 c0 c0 c0 c0 c0", NULL },
		{ "dd00000005 c0 c0 c0 c0 c0", NULL },
		{ "95 c401aa a161 a162 c0 920102", NULL },
		{ "", "the message is empty" },
		{ "94 c0 c0 c0 c0", "need 5 elements, got 4" },
		{ "96 c0 c0 c0 c0 c0 c0", "need 5 elements, got 6" },
		{ "90", "need 5 elements, got 0" },
		{ "85 c0 c0 c0 c0 c0", "need an array of 5 elements" },
		{ "c0", "need an array of 5 elements" },
		{ "95 c0 c0 c0 c0 c0 c0", "1 bytes left over after the array" },
		{ "95 c0 c0 c0 c0", "the message ends inside a value" },
		{ "95 c0 c0 c0 c0 a2 61", "the message ends inside a value" },
		{ "dc00", "the message ends inside a value" },
		{ "95 c0 c0 c0 c0 c1", "the byte c1 is not msgpack" },
		{ "c1", "the byte c1 is not msgpack" },
	};

	for (size_t i = 0; i < sizeof(messages) / sizeof(*messages); i++) {
		struct sc_packed_message m;
		char reason[SC_PACKED_REASON] = "";
		int rc = sc_packed_message(hex(messages[i].bytes), &m, reason);

		CHECK_INT(rc, messages[i].reason ? -1 : 0);
		CHECK_STR(reason, messages[i].reason ? messages[i].reason : "");
	}
}

TEST(the_elements_are_where_they_stand)
{
	static const char *const want[] = { "c401aa", "a161", "da0001 62", "c0",
					    "82 01 91c3 a0 cb4023000000000000" };
	char bytes[100] = { (char)0x95 };
	size_t at = 1;
	struct sc_packed_message m;
	char reason[SC_PACKED_REASON];

	for (int i = 0; i < 5; i++) {
		struct sc_span e = hex(want[i]);

		memcpy(bytes + at, e.data, e.len);
		at += e.len;
	}
	CHECK_INT(sc_packed_message(sc_span(bytes, at), &m, reason), 0);
	for (int i = 0; i < 5; i++)
		CHECK(same(m.elements[i], hex(want[i])));
}
