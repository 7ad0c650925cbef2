/*
 * Publishers through the writer's thread: replies in order, all or nothing, group commits,
 * producers once, pausing, a publisher that leaves before its replies.
 */
#include <poll.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "../check.h"
#include "cast/writer.h"
#include "log/log.h"
#include "log/reader.h"

static char path[100];
static int event = -1;
static struct sc_writer *writer;
static struct sc_err err;

static void wake(void *arg)
{
	uint64_t one = 1;

	(void)arg;
	if (write(event, &one, sizeof(one)) != sizeof(one))
		abort();
}

static void open_writer(const char *schema)
{
	struct sc_log_settings settings = { .schema = sc_span_str(schema), .message_max = 1000 };

	strcpy(path, access("/dev/shm", W_OK) == 0 ? "/dev/shm/sc-writer-XXXXXX"
						   : "/tmp/sc-writer-XXXXXX");
	CHECK(mkdtemp(path) != NULL);
	strcat(path, "/log");
	event = eventfd(0, EFD_CLOEXEC);
	CHECK(event >= 0);
	CHECK_OK(sc_log_create(path, &settings, &err), &err);
	CHECK_OK(sc_writer_open(path, wake, NULL, &writer, &err), &err);
}

static void close_writer(void)
{
	char command[150];

	sc_writer_close(writer);
	writer = NULL;
	close(event);
	*strrchr(path, '/') = '\0';
	snprintf(command, sizeof(command), "rm -rf '%s'", path);
	CHECK(system(command) == 0);
}

/* The next reply, waiting for it at most ten seconds. */
static struct sc_writer_reply reply(void)
{
	struct pollfd p = { .fd = event, .events = POLLIN };
	struct sc_writer_reply r;
	uint64_t count;

	while (!sc_writer_next(writer, &r)) {
		if (poll(&p, 1, 10000) != 1)
			FAIL("no reply came");
		if (read(event, &count, sizeof(count)) != sizeof(count))
			FAIL("no event");
	}
	return r;
}

#define REPLY(ARG, WANT) \
	do { \
		struct sc_writer_reply r_ = reply(); \
		CHECK(r_.arg == (ARG)); \
		CHECK_SPAN(r_.text, WANT); \
	} while (0)
#define SENDS(P, TEXT) CHECK_INT(sc_publisher_frame(P, sc_span_str(TEXT), &err), 0)
#define BEGINS(P, WORDS) \
	do { \
		struct sc_writer_reply r_ = reply(); \
		(void)(P); \
		if (r_.text.len < strlen(WORDS) || memcmp(r_.text.data, WORDS, strlen(WORDS))) \
			FAIL("'%.*s' does not begin with '%s'", (int)r_.text.len, r_.text.data, \
			     WORDS); \
	} while (0)

static uint64_t rows_held(void)
{
	struct sc_log_state state;
	struct sc_log *log;

	CHECK_OK(sc_log_open(path, SC_LOG_READ, &log, &err), &err);
	CHECK_OK(sc_log_state(log, &state, &err), &err);
	sc_log_close(log);
	return state.rows;
}

TEST(replies_in_order_and_all_or_nothing)
{
	struct sc_publisher *a, *b;
	int x, y;

	open_writer("{\"properties\":{\"p\":{\"type\":\"integer\"}},\"required\":[\"p\"]}");
	CHECK_OK(sc_publisher_new(writer, sc_span("", 0), 0, &x, &a, &err), &err);
	CHECK_OK(sc_publisher_new(writer, sc_span("", 0), 0, &y, &b, &err), &err);
	SENDS(a, "{\"p\":1}");
	REPLY(&x, "{\"ok\":[1]}");
	SENDS(a, "[{\"p\":2},{\"p\":\"no\"}]");
	BEGINS(a, "{\"error\":\"rejected\",\"detail\":");
	SENDS(a, "[{\"p\":2},{\"p\":3}]");
	REPLY(&x, "{\"ok\":[2,3]}");
	SENDS(a, "nonsense");
	BEGINS(a, "{\"error\":\"bad_frame\",\"detail\":");
	SENDS(a, "[]");
	BEGINS(a, "{\"error\":\"bad_frame\"");
	SENDS(b, "{\"p\":4}");
	REPLY(&y, "{\"ok\":[4]}");
	CHECK(!sc_writer_busy(writer));
	CHECK_INT(rows_held(), 4);
	sc_publisher_free(a);
	sc_publisher_free(b);
	close_writer();
}

TEST(a_row_over_the_limit_is_rejected_alone)
{
	struct sc_publisher *a;
	char row[1200];

	open_writer("");
	memset(row, 'x', sizeof(row));
	memcpy(row, "{\"p\":\"", 6);
	CHECK_OK(sc_publisher_new(writer, sc_span("", 0), 0, NULL, &a, &err), &err);
	memcpy(row + 998, "\"}", 3);
	SENDS(a, row);
	REPLY(NULL, "{\"ok\":[1]}");
	memset(row + 998, 'x', 1);
	memcpy(row + 999, "\"}", 3);
	SENDS(a, row);
	BEGINS(a, "{\"error\":\"rejected\"");
	sc_publisher_free(a);
	close_writer();
}

TEST(many_publishers_share_commits)
{
	enum { PUBLISHERS = 20, FRAMES = 200 };
	struct sc_publisher *p[PUBLISHERS];
	uint64_t last[PUBLISHERS] = { 0 }, got[PUBLISHERS] = { 0 }, sent[PUBLISHERS] = { 0 };
	bool paused[PUBLISHERS] = { false };
	struct sc_writer_stats stats;
	bool seen[PUBLISHERS * FRAMES + 1] = { false };

	open_writer("");
	for (size_t i = 0; i < PUBLISHERS; i++)
		CHECK_OK(sc_publisher_new(writer, sc_span("", 0), 0, (void *)(uintptr_t)i, &p[i],
					  &err),
			 &err);
	for (uint64_t done = 0; done < PUBLISHERS * FRAMES;) {
		struct sc_writer_reply r;

		for (size_t i = 0; i < PUBLISHERS; i++) {
			while (!paused[i] && sent[i] < FRAMES) {
				paused[i] = sc_publisher_frame(p[i], SC_SPAN("{\"a\":1}"), &err) ==
					    1;
				CHECK(sent[i] - got[i] <= SC_WRITER_FRAMES_MAX);
				sent[i]++;
			}
		}
		r = reply();
		if (r.resume) {
			paused[(uintptr_t)r.arg] = false;
		} else {
			uint64_t offset = strtoull(r.text.data + 7, NULL, 10);
			size_t i = (uintptr_t)r.arg;

			CHECK(offset > last[i] && offset <= PUBLISHERS * FRAMES && !seen[offset]);
			seen[offset] = true;
			last[i] = offset;
			got[i]++;
			done++;
		}
	}
	sc_writer_stats(writer, &stats);
	CHECK_INT(stats.frames, PUBLISHERS * FRAMES);
	CHECK_INT(stats.rows, PUBLISHERS * FRAMES);
	CHECK(stats.commits < PUBLISHERS * FRAMES / 2);
	CHECK_INT(stats.queued_bytes, 0);
	for (size_t i = 0; i < PUBLISHERS; i++)
		sc_publisher_free(p[i]);
	CHECK_INT(rows_held(), PUBLISHERS * FRAMES);
	close_writer();
}

TEST(a_producer_is_taken_once)
{
	struct sc_publisher *a;

	open_writer("");
	CHECK_OK(sc_publisher_new(writer, SC_SPAN("p"), 1, NULL, &a, &err), &err);
	SENDS(a, "{\"seq\":0,\"rows\":[{\"a\":1},{\"a\":2}]}");
	REPLY(NULL, "{\"ok\":[1,2]}");
	SENDS(a, "{\"seq\":0,\"rows\":[{\"a\":1},{\"a\":2}]}");
	REPLY(NULL, "{\"ok\":[1,2],\"duplicate\":true}");
	SENDS(a, "{\"seq\":2,\"rows\":[\"three\"]}");
	REPLY(NULL, "{\"ok\":[3]}");
	SENDS(a, "{\"seq\":0,\"rows\":[{\"a\":1},{\"a\":2}]}");
	REPLY(NULL, "{\"ok\":[null,null],\"duplicate\":true}");
	SENDS(a, "{\"seq\":9,\"rows\":[4]}");
	BEGINS(a, "{\"error\":\"fenced\"");
	sc_publisher_free(a);
	/* Repeated and new frames that came together: each for itself. */
	CHECK_OK(sc_publisher_new(writer, SC_SPAN("p"), 1, NULL, &a, &err), &err);
	SENDS(a, "{\"seq\":2,\"rows\":[\"three\"]}");
	SENDS(a, "{\"seq\":3,\"rows\":[4]}");
	SENDS(a, "{\"seq\":4,\"rows\":[5]}");
	BEGINS(a, "{\"ok\":[");
	REPLY(NULL, "{\"ok\":[4]}");
	REPLY(NULL, "{\"ok\":[5]}");
	sc_publisher_free(a);
	CHECK_OK(sc_publisher_new(writer, SC_SPAN("p"), 0, NULL, &a, &err), &err);
	SENDS(a, "{\"seq\":5,\"rows\":[6]}");
	BEGINS(a, "{\"error\":\"fenced\"");
	sc_publisher_free(a);
	CHECK_INT(rows_held(), 5);
	close_writer();
}

/* Numbers without a row, as the offsets of a filtered stream have them. */
TEST(a_producer_leaves_numbers_out)
{
	struct sc_publisher *a;

	open_writer("");
	CHECK_OK(sc_publisher_new(writer, SC_SPAN("p"), 0, NULL, &a, &err), &err);
	CHECK_SPAN(sc_publisher_name(a), "p");
	SENDS(a, "{\"seq\":5,\"last\":20,\"rows\":[1,2]}");
	REPLY(NULL, "{\"ok\":[1,2]}");
	SENDS(a, "{\"seq\":21,\"last\":40,\"rows\":[3]}");
	REPLY(NULL, "{\"ok\":[3]}");
	SENDS(a, "{\"seq\":21,\"last\":40,\"rows\":[3]}");
	REPLY(NULL, "{\"ok\":[3],\"duplicate\":true}");
	SENDS(a, "{\"seq\":22,\"rows\":[3]}");
	REPLY(NULL, "{\"ok\":[null],\"duplicate\":true}");
	SENDS(a, "{\"seq\":40,\"last\":50,\"rows\":[4]}"); /* half of it is there */
	BEGINS(a, "{\"error\":\"fenced\"");
	SENDS(a, "{\"seq\":42,\"last\":50,\"rows\":[4]}");
	BEGINS(a, "{\"error\":\"fenced\"");
	SENDS(a, "{\"seq\":41,\"rows\":[4]}");
	SENDS(a, "{\"seq\":42,\"rows\":[5]}");
	REPLY(NULL, "{\"ok\":[4]}");
	REPLY(NULL, "{\"ok\":[5]}");
	CHECK_INT(rows_held(), 5);
	sc_publisher_free(a);
	close_writer();
}

/* A frame that leaves rows out must not slip in behind one that does not, also when both wait. */
TEST(a_producer_leaves_nothing_out)
{
	struct sc_publisher *a;
	char text[100], want[40];

	open_writer("");
	CHECK_OK(sc_publisher_new(writer, SC_SPAN("p"), 1, NULL, &a, &err), &err);
	for (int i = 0; i < 300; i++) {
		snprintf(text, sizeof(text), "{\"seq\":%d,\"rows\":[1]}", i);
		SENDS(a, text);
		snprintf(text, sizeof(text), "{\"seq\":%d,\"rows\":[2]}", i + 5);
		SENDS(a, text);
		snprintf(want, sizeof(want), "{\"ok\":[%d]}", i + 1);
		REPLY(NULL, want);
		BEGINS(a, "{\"error\":\"fenced\"");
	}
	sc_publisher_free(a);
	CHECK_INT(rows_held(), 300);
	close_writer();
}

TEST(what_was_accepted_is_committed_though_its_publisher_left)
{
	struct sc_publisher *a;

	open_writer("");
	CHECK_OK(sc_publisher_new(writer, sc_span("", 0), 0, NULL, &a, &err), &err);
	for (int i = 0; i < 50; i++)
		SENDS(a, "{}");
	sc_publisher_free(a);
	sc_writer_close(writer);
	CHECK_INT(rows_held(), 50);
	CHECK_OK(sc_writer_open(path, wake, NULL, &writer, &err), &err);
	close_writer();
}

TEST(no_log_no_writer)
{
	CHECK_INT(sc_writer_open("/nonexistent/log", wake, NULL, &writer, &err), SC_E_NOLOG);
}

#define COLUMN_P "\"p\":{\"type\":\"integer\"}"
#define OLD \
	"{\"properties\":{" COLUMN_P \
	",\"a\":{\"type\":[\"string\",\"null\"]}},\"required\":[\"p\"]}"
#define NEW \
	"{\"properties\":{" COLUMN_P \
	",\"b\":{\"type\":[\"string\",\"null\"]}},\"required\":[\"p\"]}"

static void migrate(const char *schema)
{
	struct sc_log_migration m = { .schema = sc_span_str(schema) };
	struct sc_log_migrated done;
	struct sc_log *log;

	CHECK_OK(sc_log_open(path, SC_LOG_APPEND, &log, &err), &err);
	CHECK_OK(sc_log_migrate(log, &m, &done, &err), &err);
	sc_log_close(log);
}

/* The schema is changed by another process: the next frame is checked by it, and what was stored
 * before is known when it comes again. */
TEST(the_schema_changes_under_the_writer)
{
	struct sc_publisher *a, *p;
	int x, y;

	open_writer(OLD);
	CHECK_OK(sc_publisher_new(writer, sc_span("", 0), 0, &x, &a, &err), &err);
	CHECK_OK(sc_publisher_new(writer, SC_SPAN("me"), 1, &y, &p, &err), &err);
	SENDS(a, "{\"p\":1,\"a\":\"x\"}");
	REPLY(&x, "{\"ok\":[1]}");
	SENDS(p, "{\"seq\":1,\"rows\":[{\"p\":2,\"a\":\"x\"}]}");
	REPLY(&y, "{\"ok\":[2]}");
	migrate(NEW);
	SENDS(a, "{\"p\":3,\"b\":\"x\"}");
	REPLY(&x, "{\"ok\":[3]}");
	SENDS(a, "{\"p\":4,\"a\":\"x\"}");
	BEGINS(a, "{\"error\":\"rejected\",\"detail\":\"not columns: a\"}");
	/* it was stored by the old schema, and its reply was lost */
	SENDS(p, "{\"seq\":1,\"rows\":[{\"p\":2,\"a\":\"x\"}]}");
	REPLY(&y, "{\"ok\":[2],\"duplicate\":true}");
	SENDS(p, "{\"seq\":2,\"rows\":[{\"p\":2,\"a\":\"x\"}]}");
	BEGINS(p, "{\"error\":\"rejected\"");
	migrate(OLD);
	SENDS(a, "{\"p\":4}");
	REPLY(&x, "{\"ok\":[4]}");
	sc_publisher_free(a);
	sc_publisher_free(p);
	close_writer();
}

/* The replies to COUNT frames; adds the rows that were stored. */
static void take_replies(int count, uint64_t *stored)
{
	while (count > 0) {
		struct sc_writer_reply r = reply();

		if (r.resume)
			continue;
		if (r.text.len > 5 && !memcmp(r.text.data, "{\"ok\"", 5))
			*stored += 1 + (memchr(r.text.data, ',', r.text.len) != NULL);
		else
			CHECK(memmem(r.text.data, r.text.len, "not columns", 11) != NULL);
		count--;
	}
}

/* Rows are in the form of the schema in force, at any moment of the change: each third time none is
 * on its way then, so that both schemas have some. */
TEST(the_schema_changes_all_the_time)
{
	struct sc_publisher *p;
	struct sc_reader *reader = NULL;
	struct sc_log *log;
	struct sc_run run;
	char was = 0;
	uint64_t ok = 0, rows = 0, changes = 0;
	int x, rc;

	open_writer(OLD);
	CHECK_OK(sc_publisher_new(writer, sc_span("", 0), 0, &x, &p, &err), &err);
	for (int round = 0; round < 60; round++) {
		for (int i = 0; i < 20; i++)
			CHECK(sc_publisher_frame(
				      p,
				      i % 5    ? SC_SPAN("{\"p\":1}")
				      : i % 10 ? SC_SPAN("[{\"p\":1},{\"p\":2,\"a\":\"x\"}]")
					       : SC_SPAN("{\"p\":1,\"b\":\"x\"}"),
				      &err) >= 0);
		if (round % 3 == 0)
			take_replies(20, &ok);
		migrate(round % 2 ? OLD : NEW);
		if (round % 3)
			take_replies(20, &ok);
	}
	CHECK_OK(sc_log_open(path, SC_LOG_READ, &log, &err), &err);
	CHECK_OK(sc_reader_open(log, 1, &reader, &err), &err);
	while ((rc = sc_reader_next(reader, 0, &run, &err)) == 1) {
		const char *line = run.lines.data, *end = line + run.lines.len, *lf;

		for (char is; line < end; line = lf + 1, was = is) {
			lf = memchr(line, '\n', (size_t)(end - line));
			is = memmem(line, (size_t)(lf - line), "\"a\"", 3) ? 'a' : 'b';
			CHECK(memmem(line, (size_t)(lf - line), is == 'a' ? "\"b\"" : "\"a\"", 3) ==
			      NULL);
			changes += was && was != is;
			rows++;
		}
	}
	CHECK_OK(rc, &err);
	CHECK_INT(rows, ok);
	CHECK(changes > 10);
	sc_reader_close(reader);
	sc_log_close(log);
	sc_publisher_free(p);
	close_writer();
}
