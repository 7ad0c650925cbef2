/* Errors: the one line, its JSON, statuses; that texts are cut and control bytes shown, never
 * passed on. */
#include "base/err.h"

#include <errno.h>

#include "../check.h"

TEST(line_has_four_parts)
{
	struct sc_err err;
	char line[1200];

	CHECK_INT(sc_err_set(&err, SC_E_BUSY, "cannot seal", "another seal runs as process %d",
			     812),
		  SC_E_BUSY);
	sc_err_on(&err, "log", "data/trades");
	sc_err_next(&err, "wait for it to end");
	sc_err_line(&err, line, sizeof(line));
	CHECK_STR(line, "cannot seal log 'data/trades': another seal runs as process 812; wait for "
			"it to end");
	CHECK_INT(sc_code_status(err.code), 75);
}

TEST(json_has_the_parts_as_fields)
{
	struct sc_err err;
	char text[1200];

	sc_err_set(&err, SC_E_REFUSED, "cannot subscribe", "offset 9 is ahead of \"5\"");
	sc_err_field_str(&err, "why", "ahead");
	sc_err_field_int(&err, "offset", 9);
	sc_err_json(&err, text, sizeof(text));
	CHECK_STR(text,
		  "{\"error\":\"offset_refused\",\"status\":79,\"tried\":\"cannot subscribe\","
		  "\"reason\":\"offset 9 is ahead of \\\"5\\\"\",\"why\":\"ahead\",\"offset\":9}");
}

TEST(system_errors_choose_the_code)
{
	struct sc_err err;

	CHECK_INT(sc_err_sys(&err, SC_E_CANTCREAT, ENOSPC, "cannot create"), SC_E_IO);
	CHECK_INT(err.errnum, ENOSPC);
	CHECK_STR(err.reason, "No space left on device");
	CHECK_INT(sc_err_sys(&err, SC_E_CANTCREAT, EEXIST, "cannot create"), SC_E_CANTCREAT);
	CHECK_INT(sc_code_status(SC_E_NOMEM), 70);
}

TEST(control_bytes_are_shown)
{
	struct sc_err err;
	char line[1200];

	sc_err_set(&err, SC_E_DATA, "cannot read", "it says %s",
		   "\xc2\x9b"
		   "1m\xc3\xa9\xc2");
	sc_err_line(&err, line, sizeof(line));
	CHECK_STR(line, "cannot read: it says \\xc2\\x9b1m\xc3\xa9\xc2");
	sc_err_set(&err, SC_E_DATA, "cannot read", "it says %s", "a\nb\x1b[1m");
	sc_err_line(&err, line, sizeof(line));
	CHECK_STR(line, "cannot read: it says a\\x0ab\\x1b[1m");
}

TEST(long_texts_end_in_dots_on_a_character)
{
	struct sc_err err;
	char name[2000];
	size_t len;

	memset(name, 0, sizeof(name));
	for (size_t i = 0; i + 2 < sizeof(name); i += 2)
		memcpy(name + i, "\xc3\xa9", 2);
	sc_err_set(&err, SC_E_DATA, "x", "%s", name);
	len = strlen(err.reason);
	CHECK(len < sizeof(err.reason));
	CHECK_STR(err.reason + len - 3, "...");
	CHECK(((unsigned char)err.reason[len - 4] & 0xc0) == 0x80);
}

/* Also where a longer piece is cut than one character, at every place. */
TEST(lines_are_cut_on_a_character)
{
	struct sc_err err;
	char line[120];

	sc_err_set(&err, SC_E_IO, "x", "éééééééééééééééééééééééééééééé");
	for (size_t size = 8; size < 60; size++) {
		size_t len;

		memset(line, 'x', sizeof(line));
		len = sc_err_line(&err, line, size);
		CHECK(len < size && strlen(line) == len);
		CHECK_STR(line + len - 3, "...");
		CHECK(len < 6 || (len - 3 - strlen("x: ")) % 2 == 0);
	}
}

/* Every byte of every text can take three in JSON. */
TEST(the_longest_error_is_told_whole)
{
	struct sc_err err;
	char text[SC_ERR_JSON], odd[400];
	size_t len;

	memset(odd, 0xff, sizeof(odd) - 1);
	odd[sizeof(odd) - 1] = 0;
	sc_err_set(&err, SC_E_IO, odd, "%s", odd);
	sc_err_on(&err, odd, odd);
	sc_err_next(&err, "%s", odd);
	while (strlen(err.fields) + 20 < sizeof(err.fields))
		sc_err_field_int(&err, "n", 1);
	len = sc_err_json(&err, text, sizeof(text));
	CHECK(len < sizeof(text));
	CHECK(strstr(text, "\"tried\":") && strstr(text, "\"next\":") && strstr(text, "\"n\":1"));
}

TEST(null_error_is_accepted)
{
	CHECK_INT(sc_err_set(NULL, SC_E_IO, "a", "b"), SC_E_IO);
	sc_err_on(NULL, "log", "x");
	sc_err_next(NULL, "y");
	sc_err_field_int(NULL, "n", 1);
}
