/*
 * Goal: a table of options takes what opt.h promises and refuses everything else in words that name
 * the flag. Method: one table with every kind; command lines against the struct they fill or the
 * exact message.
 */
#include "base/opt.h"

#include <unistd.h>

#include "../check.h"

struct opts {
	int verbose;
	bool follow, wait, count_seen;
	int64_t count, low, age, since;
	uint64_t from, target;
	double speed;
	const char *text, *file;
	int wire, fd;
	struct sc_opt_list headers, files;
	int64_t every;
	bool every_seen;
};

#define INTO(member) .into = offsetof(struct opts, member)
static const char *const wires[] = { "1", "2", "auto", NULL };
static const struct sc_opt table[] = {
	{ .name = "verbose",
	  .letter = 'v',
	  .kind = SC_OPT_COUNT,
	  INTO(verbose),
	  .help = "say more" },
	{ .name = "count",
	  .letter = 'n',
	  .kind = SC_OPT_NUMBER,
	  .arg = "N",
	  INTO(count),
	  .standard = "10",
	  .min = 1,
	  .max = 100,
	  .help = "stop after N",
	  .seen = offsetof(struct opts, count_seen) },
	{ .name = "low", .kind = SC_OPT_NUMBER, .arg = "N", INTO(low), .min = -5, .max = -6 },
	SC_OPT_GROUP("Others"),
	{ .name = "follow", .letter = 'f', .kind = SC_OPT_FLAG, INTO(follow) },
	{ .name = "wait", .kind = SC_OPT_FLAG, INTO(wait), .standard = "true" },
	{ .name = "from", .kind = SC_OPT_OFFSET, .arg = "N", INTO(from), .special = "earliest" },
	{ .name = "target",
	  .kind = SC_OPT_SIZE,
	  .arg = "SIZE",
	  INTO(target),
	  .standard = "8M",
	  .min = 4096,
	  .max = 1 << 30 },
	{ .name = "age",
	  .kind = SC_OPT_DURATION,
	  .arg = "D",
	  INTO(age),
	  .special = "none",
	  .min = 1000 },
	{ .name = "every",
	  .kind = SC_OPT_DURATION,
	  .arg = "D",
	  INTO(every),
	  .bare = "2s",
	  .min = 50,
	  .max = 3600000,
	  .seen = offsetof(struct opts, every_seen) },
	{ .name = "since", .letter = 'S', .kind = SC_OPT_TIME, .arg = "T", INTO(since) },
	{ .name = "speed", .kind = SC_OPT_FACTOR, .arg = "F", INTO(speed), .standard = "1x" },
	{ .name = "send", .letter = 's', .kind = SC_OPT_TEXT, .arg = "TEXT", INTO(text) },
	{ .name = "schema", .kind = SC_OPT_FILE, .arg = "FILE", INTO(file) },
	{ .name = "wire",
	  .kind = SC_OPT_CHOICE,
	  .arg = "V",
	  INTO(wire),
	  .choices = wires,
	  .standard = "2" },
	{ .name = "events", .kind = SC_OPT_FD, .arg = "FD", INTO(fd) },
	{ .name = "header", .letter = 'H', .kind = SC_OPT_LIST, .arg = "H", INTO(headers) },
	{ .name = "ca", .kind = SC_OPT_FILES, .arg = "FILE", INTO(files) },
	{ .name = "secret-word", .kind = SC_OPT_FLAG, INTO(follow), .hidden = true },
	{ 0 },
};
static const struct sc_opt other_table[] = {
	{ .name = "mirror", .letter = 'm', .kind = SC_OPT_FLAG },
	{ .name = "skip-bad", .kind = SC_OPT_FILE, .arg = "FILE" },
	{ .name = "tag", .kind = SC_OPT_LIST, .arg = "TAG" },
	{ 0 },
};

static struct opts got;
static struct sc_err err;
static char **operands;
static size_t operand_count;

/* Fresh defaults, then ARGS; the result of the parse. */
static int parse(const char *const *args)
{
	int argc = 0;

	sc_opt_done(table, &got);
	free(operands);
	operands = NULL;
	memset(&got, 0, sizeof(got));
	CHECK_OK(sc_opt_defaults(table, &got, &err), &err);
	while (args[argc])
		argc++;
	return sc_opt_parse(table, argc, (char *const *)(uintptr_t)args, &got, &operands,
			    &operand_count, &err);
}
#define ARGS(...) ((const char *const[]){ "prog", ##__VA_ARGS__, NULL })
#define GOOD(...) CHECK_OK(parse(ARGS(__VA_ARGS__)), &err)

/* The message must be WANT, and the code usage. */
static void refused(const char *const *args, const char *want)
{
	char line[1100];

	CHECK_INT(parse(args), SC_E_USAGE);
	CHECK(operands == NULL);
	sc_err_line(&err, line, sizeof(line));
	CHECK_STR(line, want);
}
#define BAD(WANT, ...) refused(ARGS(__VA_ARGS__), "cannot start: " WANT)

TEST(defaults)
{
	GOOD();
	CHECK_INT(got.count, 10);
	CHECK(!got.count_seen);
	CHECK_INT(got.target, 8 << 20);
	CHECK(got.wait && !got.follow);
	CHECK(got.speed == 1);
	CHECK_INT(got.wire, 1);
	CHECK_INT(got.fd, -1);
	CHECK(got.text == NULL && got.file == NULL && got.headers.count == 0);
	CHECK_INT(operand_count, 0);
}

TEST(every_kind)
{
	GOOD("--count", "7", "--low=-5", "--from", "18446744073709551615", "--target", "64K",
	     "--age", "1h30m", "--since", "1764504000", "--speed", "0.5", "--send", "hi",
	     "--schema", "-", "--wire", "auto", "--events", "2", "--header", "a", "-H", "b", "-Hc",
	     "--ca=x");
	CHECK_INT(got.count, 7);
	CHECK(got.count_seen);
	CHECK_INT(got.low, -5);
	CHECK(got.from == UINT64_MAX);
	CHECK_INT(got.target, 64 << 10);
	CHECK_INT(got.age, 5400000);
	CHECK_INT(got.since, INT64_C(1764504000000000));
	CHECK(got.speed == 0.5);
	CHECK_STR(got.text, "hi");
	CHECK_STR(got.file, "-");
	CHECK_INT(got.wire, 2);
	CHECK_INT(got.fd, 2);
	CHECK_INT(got.headers.count, 3);
	CHECK_STR(got.headers.items[0], "a");
	CHECK_STR(got.headers.items[2], "c");
	CHECK_STR(got.files.items[0], "x");
	CHECK_INT(operand_count, 0);
	GOOD("--from", "earliest", "--age", "none");
	CHECK_INT(got.from, 0);
	CHECK_INT(got.age, -1);
}

TEST(operands_and_options_mix)
{
	GOOD("a", "-f", "-", "b", "--count=3", "--", "--follow", "-x", "--");
	CHECK(got.follow);
	CHECK_INT(operand_count, 6);
	CHECK_STR(operands[0], "a");
	CHECK_STR(operands[1], "-");
	CHECK_STR(operands[3], "--follow");
	CHECK_STR(operands[5], "--");
	CHECK(operands[6] == NULL);
}

TEST(letters_join)
{
	GOOD("-vvfn5");
	CHECK_INT(got.verbose, 2);
	CHECK(got.follow);
	CHECK_INT(got.count, 5);
	GOOD("-fn", "6");
	CHECK_INT(got.count, 6);
	GOOD("-n7", "-n100");
	CHECK_INT(got.count, 100);
}

TEST(no_name_takes_back)
{
	GOOD("-f", "--no-follow", "--no-wait", "-vv", "--no-verbose", "-v", "-Ha", "--no-header",
	     "-Hb");
	CHECK(!got.follow && !got.wait);
	CHECK_INT(got.verbose, 1);
	CHECK_INT(got.headers.count, 1);
	CHECK_STR(got.headers.items[0], "b");
	BAD("there is no option --no-count; did you mean --count?", "--no-count");
	BAD("--no-follow takes no value, and has 'x'", "--no-follow=x");
}

TEST(empty_values)
{
	GOOD("--send=");
	CHECK_STR(got.text, "");
	GOOD("--send", "");
	CHECK_STR(got.text, "");
	GOOD("--send==a=b");
	CHECK_STR(got.text, "=a=b");
	BAD("--count takes a number from 1 to 100, not ''", "--count=");
	BAD("--schema takes a file's name, not ''", "--schema=");
}

TEST(bad_values_are_named)
{
	BAD("--count takes a number from 1 to 100, not 'x'", "--count", "x");
	BAD("-n takes a number from 1 to 100, not '101'", "-n101");
	BAD("--count takes a number from 1 to 100, not '0'", "--count=0");
	BAD("--count takes a number from 1 to 100, not '99999999999999999999'",
	    "--count=99999999999999999999");
	BAD("--low takes a number from -5 up, not '-6'", "--low", "-6");
	BAD("--from takes an offset or 'earliest', not '-1'", "--from", "-1");
	BAD("--from takes an offset or 'earliest', not 'last'", "--from", "last");
	BAD("--target takes a size from 4K to 1G, such as 1000, 64K or 8MiB, not '5'", "--target",
	    "5");
	BAD("--target takes a size from 4K to 1G, such as 1000, 64K or 8MiB, not "
	    "'18446744073709551615'",
	    "--target", "18446744073709551615");
	BAD("--age takes a duration from 1s up, such as 250ms, 30s or 1h30m, or 'none', not "
	    "'999ms'",
	    "--age", "999ms");
	BAD("--age takes a duration from 1s up, such as 250ms, 30s or 1h30m, or 'none', not '5y'; "
	    "units are w, d, h, m, s and ms",
	    "--age", "5y");
	BAD("--since takes a time, such as 2026-11-30T12:00:00Z, or 10m for ten minutes ago, not "
	    "'2026-02-30'; there is no such day",
	    "--since", "2026-02-30");
	BAD("--speed takes a factor above 0, such as 2, 0.5 or 10x, not '0'; write it as 2, 0.5 or "
	    "10x",
	    "--speed", "0");
	BAD("--wire takes 1, 2 or auto, not '3'", "--wire", "3");
	BAD("--wire takes 1, 2 or auto, not 'atuo'; did you mean 'auto'?", "--wire", "atuo");
	BAD("--events takes the number of an open descriptor, not 'x'", "--events", "x");
	BAD("--events takes the number of an open descriptor, not '-1'", "--events=-1");
}

TEST(a_closed_descriptor_is_refused)
{
	int fd = dup(2);
	char number[16];

	CHECK(fd > 2);
	snprintf(number, sizeof(number), "%d", fd);
	GOOD("--events", number);
	CHECK_INT(got.fd, fd);
	close(fd);
	CHECK_INT(parse(ARGS("--events", number)), SC_E_USAGE);
	CHECK(strstr(err.next, "nothing is open there"));
}

TEST(unknown_options)
{
	BAD("there is no option --cuont; did you mean --count?", "--cuont", "5");
	BAD("there is no option --folow; did you mean --follow?", "--folow");
	BAD("there is no option --cou", "--cou");
	BAD("there is no option --x", "--x");
	BAD("there is no option --x", "--x=3");
	BAD("there is no option -Z", "-vZ");
	BAD("there is no option -c; long options take two dashes: --count", "-count");
	BAD("--follow takes no value, and has 'yes'", "--follow=yes");
	/* A name is not shortened, and the title of a group is none. */
	BAD("there is no option --Others", "--Others");
}

TEST(a_flag_never_swallows_an_option)
{
	BAD("--send needs a value behind it", "--send");
	BAD("-n needs a number from 1 to 100 behind it", "-n");
	BAD("--send needs a value, and the option --follow is behind it; if that is the value, "
	    "write "
	    "--send=--follow",
	    "--send", "--follow");
	BAD("-s needs a value, and the option -f is behind it; if that is the value, write "
	    "--send=-f",
	    "-s", "-f");
	BAD("--send needs a value, and the option -- is behind it; if that is the value, write "
	    "--send=--",
	    "--send", "--", "x");
	GOOD("--send=--follow");
	CHECK_STR(got.text, "--follow");
	CHECK(!got.follow);
	GOOD("--send", "-1", "--send", "-x y");
	CHECK_STR(got.text, "-x y");
}

/* A value that may be left out: what follows is it only if it looks like one. */
TEST(a_value_may_be_missing)
{
	GOOD("--every");
	CHECK(got.every_seen);
	CHECK_INT(got.every, 2000);
	GOOD("--every", "data/trades");
	CHECK_INT(got.every, 2000);
	CHECK_INT(operand_count, 1);
	GOOD("--every", "5s", "data/trades");
	CHECK_INT(got.every, 5000);
	CHECK_INT(operand_count, 1);
	GOOD("--every=70ms", "5s");
	CHECK_INT(got.every, 70);
	CHECK_INT(operand_count, 1);
	GOOD("--every", "--follow");
	CHECK(got.follow);
	CHECK_INT(got.every, 2000);
	GOOD("--every", "5x");
	CHECK_INT(operand_count, 1);
	BAD("--every takes a duration from 50ms to 1h, such as 250ms, 30s or 1h30m, not 'x'; write "
	    "a number and a unit, as 250ms, 30s, 5m, 1h30m or 7d",
	    "--every=x");
}

TEST(defaults_from_elsewhere)
{
	memset(&got, 0, sizeof(got));
	CHECK_OK(sc_opt_defaults(table, &got, &err), &err);
	CHECK_OK(sc_opt_words(table, NULL, "options file", "f", 4,
			      (char *const[]){ "-f", "--count", "5", "-Ha" }, &got, &err),
		 &err);
	CHECK(got.follow);
	CHECK_INT(got.count, 5);
	CHECK_OK(sc_opt_words(table, NULL, "options file", "f", 2,
			      (char *const[]){ "--count=6", "-Hb" }, &got, &err),
		 &err);
	CHECK_INT(got.count, 6);
	CHECK_INT(got.headers.count, 2);
	sc_opt_done(table, &got);
	CHECK_INT(got.headers.count, 0);
}

static void words_refused(const char *want, size_t count, char *const *words)
{
	char line[1100];

	CHECK_INT(sc_opt_words(table, other_table, "options file", "f", count, words, &got, &err),
		  SC_E_USAGE);
	sc_err_line(&err, line, sizeof(line));
	CHECK_STR(line, want);
}

TEST(elsewhere_is_named)
{
	words_refused("cannot use options file 'f': --count takes a number from 1 to 100, not 'x'",
		      2, (char *const[]){ "--count", "x" });
	words_refused(
		"cannot use options file 'f': there is no option --cuont; did you mean --count?", 1,
		(char *const[]){ "--cuont" });
	words_refused("cannot use options file 'f': 'data' is not an option; only options have "
		      "defaults; quote a "
		      "value that has blanks in it",
		      1, (char *const[]){ "data" });
	words_refused("cannot use options file 'f': '--' is not an option; only options have "
		      "defaults; quote a "
		      "value that has blanks in it",
		      2, (char *const[]){ "--", "data" });
	words_refused("cannot use options file 'f': --skip-bad needs a file's name behind it", 1,
		      (char *const[]){ "--skip-bad" });
}

TEST(options_of_other_verbs_are_passed_over)
{
	memset(&got, 0, sizeof(got));
	CHECK_OK(sc_opt_words(table, other_table, "options file", "f", 10,
			      (char *const[]){ "--mirror", "--skip-bad", "x", "-m", "--no-mirror",
					       "--no-tag", "--skip-bad=y", "-mn5", "--tag", "z" },
			      &got, &err),
		 &err);
	CHECK_INT(got.count, 5);
	CHECK_INT(got.headers.count, 0);
}

TEST(nearest)
{
	static const char *const names[] = { "append", "read", "follow", "of" };

	CHECK_STR(sc_opt_nearest("apend", names, 4), "append");
	CHECK_STR(sc_opt_nearest("raed", names, 4), "read");
	CHECK_STR(sc_opt_nearest("folowl", names, 4), "follow");
	CHECK_STR(sc_opt_nearest("fo", names, 4), "of");
	CHECK(sc_opt_nearest("x", names, 4) == NULL);
	CHECK(sc_opt_nearest("", names, 4) == NULL);
	CHECK(sc_opt_nearest("nothing", names, 4) == NULL);
	CHECK(sc_opt_nearest(
		      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		      names, 4) == NULL);
}

TEST(tables_agree_with_the_register_of_letters)
{
	static const struct sc_opt wrong[] = {
		{ .name = "number", .letter = 'n', .kind = SC_OPT_FLAG },
		{ 0 },
	};
	static const struct sc_opt bad_default[] = {
		{ .name = "count", .kind = SC_OPT_NUMBER, .standard = "0", .min = 1, .max = 2 },
		{ 0 },
	};

	CHECK_INT(sc_opt_defaults(wrong, &got, &err), SC_E_INTERNAL);
	CHECK_INT(sc_opt_defaults(bad_default, &got, &err), SC_E_INTERNAL);
	CHECK_INT(err.code, SC_E_INTERNAL);
}

TEST(callers_without_an_error)
{
	free(operands);
	operands = NULL;
	memset(&got, 0, sizeof(got));
	CHECK_INT(sc_opt_parse(table, 3, ((char *const[]){ "p", "--count", "x" }), &got, &operands,
			       &operand_count, NULL),
		  SC_E_USAGE);
	CHECK_INT(sc_opt_parse(table, 2, ((char *const[]){ "p", "--wire=atuo" }), &got, &operands,
			       &operand_count, NULL),
		  SC_E_USAGE);
	CHECK_INT(sc_opt_parse(table, 2, ((char *const[]){ "p", "--bogus" }), &got, &operands,
			       &operand_count, NULL),
		  SC_E_USAGE);
	CHECK_INT(sc_opt_parse(table, 0, NULL, &got, &operands, &operand_count, NULL), 0);
	CHECK_INT(operand_count, 0);
	free(operands);
	operands = NULL;
}
