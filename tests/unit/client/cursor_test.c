/* The cursor file: what is read, forward only, one user at a time. */
#include "client/cursor.h"

#include <unistd.h>

#include "../check.h"
#include "base/clock.h"
#include "base/file.h"

static int64_t now_us = 1000000;

static int64_t fake_mono(void)
{
	return now_us;
}

static void write_text(const char *path, const char *text)
{
	struct sc_err err;

	CHECK_OK(sc_replace_file(path, text, strlen(text), 0644, false, &err), &err);
}

static void check_content(const char *path, const char *want)
{
	struct sc_bytes b;
	struct sc_err err;

	sc_bytes_init(&b, 100);
	CHECK_OK(sc_read_file(path, &b, &err), &err);
	CHECK_MEM(b.data, b.len, want);
	sc_bytes_done(&b);
}

static const struct {
	const char *text;
	bool usable;
	uint64_t value;
} readings[] = {
	{ "17", true, 17 },
	{ " 17\n", true, 17 },
	{ "+0017", true, 17 },
	{ "1_7", true, 17 },
	{ "18446744073709551614", true, UINT64_MAX - 1 },
	{ "18446744073709551615", false, 0 },
	{ "", false, 0 },
	{ "x", false, 0 },
	{ "1__7", false, 0 },
	{ "_17", false, 0 },
	{ "17_", false, 0 },
	{ "1\n2", false, 0 },
	{ "\xef\xbb\xbf"
	  "17",
	  false, 0 },
	{ "-3", false, 0 },
	{ "0", true, 0 },
	{ "1.5", false, 0 },
};

TEST(reads_as_the_original_does)
{
	char folder[] = "/tmp/sc-cursor-XXXXXX", path[64], lock[64], left[64];

	CHECK(mkdtemp(folder) != NULL);
	snprintf(path, sizeof(path), "%s/c", folder);
	snprintf(lock, sizeof(lock), "%s/c.lock", folder);
	snprintf(left, sizeof(left), "%s/c.4711.tmp", folder);
	for (size_t i = 0; i < sizeof(readings) / sizeof(readings[0]); i++) {
		struct sc_cursor *c = NULL;
		struct sc_err err;
		uint64_t value = 0;

		write_text(path, readings[i].text);
		write_text(left,
			   "7"); /* by one that was killed: the folder is to be empty at the end */
		CHECK_OK(sc_cursor_open(path, &c, &err), &err);
		CHECK_INT(sc_cursor_value(c, &value), readings[i].usable);
		CHECK_INT(sc_cursor_unusable(c), !readings[i].usable && readings[i].text[0]);
		if (readings[i].usable)
			CHECK(value == readings[i].value);
		sc_cursor_close(c);
	}
	unlink(path);
	unlink(lock);
	CHECK_INT(rmdir(folder), 0);
}

TEST(moves_forward_at_most_once_a_second)
{
	char folder[] = "/tmp/sc-cursor-XXXXXX", path[64], lock[64];
	struct sc_cursor *c = NULL, *other = NULL;
	struct sc_err err;

	CHECK(mkdtemp(folder) != NULL);
	snprintf(path, sizeof(path), "%s/c", folder);
	snprintf(lock, sizeof(lock), "%s/c.lock", folder);
	sc_clock_set(NULL, fake_mono);
	CHECK_OK(sc_cursor_open(path, &c, &err), &err);
	CHECK(!sc_cursor_unusable(c));
	CHECK_INT(sc_cursor_open(path, &other, &err), SC_E_BUSY);
	CHECK_OK(sc_cursor_move(c, 5, false, &err), &err);
	check_content(path, "5");
	CHECK_OK(sc_cursor_move(c, 6, false, &err), &err);
	check_content(path, "5");
	CHECK(sc_cursor_behind(c));
	now_us += 1000000;
	CHECK_OK(sc_cursor_move(c, 6, false, &err), &err);
	check_content(path, "6");
	CHECK_OK(sc_cursor_move(c, 4, true, &err), &err);
	check_content(path, "6");
	CHECK_OK(sc_cursor_move(c, 9, true, &err), &err);
	check_content(path, "9");
	CHECK(!sc_cursor_behind(c));
	sc_cursor_close(c);
	sc_clock_set(NULL, NULL);
	unlink(path);
	unlink(lock);
	CHECK_INT(rmdir(folder), 0);
}
