/*
 * Goal    frames become whole messages however they are cut; every breach of RFC 6455 has its close
 *         code.
 * Method  bytes written by hand, given at once and one by one; what we write is read back.
 */
#include "net/frame.h"

#include <time.h>

#include "../check.h"

static struct sc_err err;

/* All messages as "t:TEXT;b:LEN;p:..;o:..;c:CODE:REASON;", and "!CODE" for a failure. */
static void show(const char *bytes, size_t len, size_t step, bool masked, bool compress, char *text,
		 size_t size)
{
	struct sc_frame_reader r;
	char copy[70000];
	size_t at = 0, n = 0;

	memcpy(copy, bytes, len);
	text[0] = '\0';
	sc_frame_reader_init(&r, masked, 66000);
	r.may_compress = compress;
	while (at < len) {
		size_t part = len - at < step ? len - at : step, used;
		struct sc_frame f;
		int rc = sc_frame_read(&r, copy + at, part, &used, &f, &err);

		at += used;
		if (rc < 0) {
			snprintf(text + n, size - n, "!%u", r.close_code);
			break;
		}
		if (rc == 0)
			continue;
		if (f.kind == SC_FRAME_CLOSE)
			n += (size_t)snprintf(text + n, size - n, "c:%u:%.*s;", f.close_code,
					      (int)f.payload.len, f.payload.data);
		else if (f.kind == SC_FRAME_BINARY)
			n += (size_t)snprintf(text + n, size - n, "b:%zu;", f.payload.len);
		else
			n += (size_t)snprintf(text + n, size - n, "%c:%.*s;",
					      f.compressed              ? 'z'
					      : f.kind == SC_FRAME_TEXT ? 't'
					      : f.kind == SC_FRAME_PING ? 'p'
									: 'o',
					      (int)f.payload.len, f.payload.data);
	}
	sc_frame_reader_done(&r);
}

static void check_bytes(const char *bytes, size_t len, bool masked, bool compress, const char *want)
{
	char text[1000];

	for (size_t step = 1; step < 2 * len + 2; step = step < 20 ? step + 1 : 2 * step) {
		show(bytes, len, step, masked, compress, text, sizeof(text));
		if (strcmp(text, want))
			FAIL("in steps of %zu: '%s', not '%s'", step, text, want);
	}
	show(bytes, len, len, masked, compress, text, sizeof(text));
	CHECK_STR(text, want);
}

#define GOT(LITERAL, WANT) check_bytes(LITERAL, sizeof(LITERAL) - 1, false, false, WANT)
#define GOT_MASKED(LITERAL, WANT) check_bytes(LITERAL, sizeof(LITERAL) - 1, true, false, WANT)

TEST(messages)
{
	GOT("\x81\x05hello\x81\x00\x82\x03\xff\xfe\x00", "t:hello;t:;b:3;");
	GOT("\x81\x00", "t:;");
	/* pings between the parts, the euro sign cut twice */
	GOT("\x01\x01\xe2\x89\x01p\x00\x01\x82\x89\x00\x80\x01\xac\x8a\x01o",
	    "p:p;p:;t:\xe2\x82\xac;o:o;");
	GOT("\x02\x02"
	    "ab\x80\x00",
	    "b:2;");
	GOT("\x01\x00\x00\x00\x80\x00\x81\x01x", "t:;t:x;");
	GOT_MASKED("\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58", "t:Hello;"); /* RFC 6455, 5.7 */
}

TEST(closes)
{
	GOT("\x88\x00", "c:1005:;");
	GOT("\x88\x02\x03\xe8", "c:1000:;");
	GOT("\x88\x05\x11\x4d"
	    "bye",
	    "c:4429:bye;");
	GOT("\x88\x01\x03", "!1002");
	GOT("\x88\x02\x03\xed", "!1002"); /* 1005 */
	GOT("\x88\x02\x03\xec", "!1002"); /* 1004 */
	GOT("\x88\x02\x00\x00", "!1002");
	GOT("\x88\x02\x13\x88", "!1002"); /* 5000 */
	GOT("\x88\x03\x03\xe8\xff", "!1007");
}

TEST(breaches)
{
	GOT("\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58", "!1002"); /* masked by a server */
	GOT_MASKED("\x81\x05hello", "!1002");                         /* not masked by a client */
	GOT("\xc1\x01x", "!1002");
	GOT("\xa1\x01x", "!1002");
	GOT("\x91\x01x", "!1002");
	GOT("\x83\x00", "!1002");
	GOT("\x8b\x00", "!1002");
	GOT("\x09\x00", "!1002"); /* a fragmented ping */
	GOT("\x89\x7e\x00\x80", "!1002");
	GOT("\x80\x00", "!1002");           /* continues nothing */
	GOT("\x01\x01x\x81\x01y", "!1002"); /* begins inside another */
	GOT("\x81\x7e\x00\x05hello", "!1002");
	GOT("\x81\x7f\x00\x00\x00\x00\x00\x00\x01\x00", "!1002");
	GOT("\x82\x7f\x80\x00\x00\x00\x00\x00\x00\x00", "!1002");
	GOT("\x82\x7f\x00\xff\xff\xff\xff\xff\xff\xff", "!1009");
	GOT("\x82\x7f\x00\x00\x00\x00\x00\x01\x01\xd1", "!1009"); /* 66001 */
	GOT("\x81\x03\xed\xa0\x80", "!1007");
	GOT("\x81\x01\xc3\x81\x01x", "!1007");
	GOT("\x01\x01\xc3\x80\x01x", "!1007");
}

TEST(compression_is_only_for_those_who_agreed)
{
	check_bytes("\xc1\x02xy\x81\x01z", 7, false, true, "z:xy;t:z;");
	check_bytes("\x41\x01x\x80\x01y", 6, false, true, "z:xy;");
	check_bytes("\x41\x01x\xc0\x01y", 6, false, true, "!1002");
	check_bytes("\xc9\x00", 2, false, true, "!1002");
}

TEST(the_largest_message_is_whole_and_one_more_is_refused)
{
	static char bytes[70000] = "\x82\x7f\0\0\0\0\0\x01\x01\xd0"; /* 66000 */
	char text[100];

	show(bytes, 66010, 1000, false, false, text, sizeof(text));
	CHECK_STR(text, "b:66000;");
	memcpy(bytes, "\x02\x7f\0\0\0\0\0\x01\x01\xd0", 10);
	memcpy(bytes + 66010, "\x80\x01x", 3);
	show(bytes, 66013, 1000, false, false, text, sizeof(text));
	CHECK_STR(text, "!1009");
}

TEST(a_refused_reader_stays_refused)
{
	struct sc_frame_reader r;
	struct sc_frame f;
	char bad[] = "\x83\x00", good[] = "\x81\x00";
	size_t used;

	sc_frame_reader_init(&r, false, 100);
	CHECK(sc_frame_read(&r, bad, 2, &used, &f, &err) < 0);
	CHECK(sc_frame_read(&r, good, 2, &used, &f, &err) < 0);
	CHECK_INT(r.close_code, 1002);
	sc_frame_reader_done(&r);
}

TEST(what_is_written_is_read_back)
{
	static const size_t sizes[] = { 0, 1, 7, 31, 125, 126, 127, 65535, 65536, 66000 };

	for (size_t i = 0; i < 2 * sizeof(sizes) / sizeof(*sizes); i++) {
		static char payload[66000];
		struct sc_frame_reader r;
		struct sc_bytes out;
		struct sc_frame f;
		size_t used, len = sizes[i / 2];

		for (size_t k = 0; k < len; k++)
			payload[k] = (char)(k * 7);
		sc_bytes_init(&out, 100000);
		sc_frame_reader_init(&r, i & 1, 66000);
		CHECK_INT(sc_frame_put(&out, SC_FRAME_BINARY, true, false, i & 1,
				       sc_span(payload, len)),
			  0);
		CHECK_INT(sc_frame_read(&r, out.data, out.len, &used, &f, &err), 1);
		CHECK_INT(used, out.len);
		CHECK_INT(f.payload.len, len);
		CHECK(!len || !memcmp(f.payload.data, payload, len));
		sc_frame_reader_done(&r);
		sc_bytes_done(&out);
	}
}

TEST(a_long_close_reason_is_cut_between_letters)
{
	struct sc_bytes out;
	char reason[200];

	memset(reason, 'a', sizeof(reason));
	memcpy(reason + 121, "\xe2\x82\xac", 3);
	sc_bytes_init(&out, 1000);
	CHECK_INT(sc_frame_put_close(&out, false, 4000, sc_span(reason, sizeof(reason))), 0);
	CHECK_INT(out.len, 2 + 2 + 121);
	sc_bytes_done(&out);
}

/* Every sequence of up to four bytes of interest against the definition (Unicode, table 3-7), at
 * all places of a word. */
static bool slow_utf8(const unsigned char *p, size_t n)
{
	for (size_t i = 0; i < n;) {
		uint32_t c = p[i];
		size_t more = c < 0x80                ? 0
			      : c >= 0xc0 && c < 0xe0 ? 1
			      : c >= 0xe0 && c < 0xf0 ? 2
			      : c >= 0xf0 && c < 0xf8 ? 3
						      : 9;

		if (more == 9 || i + more >= n)
			return false;
		c &= more == 0 ? 0x7f : 0x3fu >> more;
		for (size_t k = 1; k <= more; k++) {
			if ((p[i + k] & 0xc0) != 0x80)
				return false;
			c = c << 6 | (p[i + k] & 0x3f);
		}
		if ((more == 1 && c < 0x80) || (more == 2 && c < 0x800) ||
		    (more == 3 && c < 0x10000) || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
			return false;
		i += more + 1;
	}
	return true;
}

TEST(utf8_is_judged_as_defined)
{
	static const unsigned char bytes[] = { 'a',  0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf,
					       0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed,
					       0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff };
	size_t n = sizeof(bytes);

	for (size_t all = 0; all < n * n * n * n; all++) {
		unsigned char text[44];
		size_t at = all % 37, len = at + 4;

		memset(text, 'x', sizeof(text));
		for (size_t i = 0, rest = all; i < 4; i++, rest /= n)
			text[at + i] = bytes[rest % n];
		if (sc_frame_utf8((char *)text, len) != slow_utf8(text, len))
			FAIL("%02x %02x %02x %02x at %zu", text[at], text[at + 1], text[at + 2],
			     text[at + 3], at);
	}
}

TEST(small_frames_are_read_fast)
{
	enum { FRAMES = 2000, TIMES = 500 };
	static char bytes[FRAMES * 102];
	struct sc_frame_reader r;
	struct timespec from, to;
	uint64_t got = 0;
	double s;

	for (size_t i = 0; i < FRAMES; i++) {
		memset(bytes + i * 102, 'a', 102);
		memcpy(bytes + i * 102, "\x81\x64", 2);
	}
	sc_frame_reader_init(&r, false, 1000);
	clock_gettime(CLOCK_MONOTONIC, &from);
	for (int t = 0; t < TIMES; t++)
		for (size_t at = 0, used; at < sizeof(bytes); at += used) {
			struct sc_frame f;

			got += (uint64_t)sc_frame_read(&r, bytes + at, sizeof(bytes) - at, &used,
						       &f, &err);
		}
	clock_gettime(CLOCK_MONOTONIC, &to);
	s = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
	sc_frame_reader_done(&r);
	CHECK_INT(got, (int64_t)FRAMES * TIMES);
	printf("frames of 100 bytes: %.1f million/s\n", (double)got / s / 1e6);
}
