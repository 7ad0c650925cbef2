/* The delivery: rows past the filter, what is finished into the cursor file in the server's own
 * spelling, the silence that ends it, a consumer that fails. */
#include "client/delivery.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "../check.h"
#include "base/file.h"

static struct sc_loop *loop;
static struct sc_delivery *d;
static struct sc_timer *timer;
static struct sc_err err;
static char folder[] = "/tmp/sc-delivery-XXXXXX", path[100];
static int ended, rooms, fd;

static void on_ending(void *arg)
{
	struct sc_err none;

	(void)arg;
	ended++;
	sc_err_clear(&none);
	sc_delivery_closed(d, &none);
}

static void on_room(void *arg)
{
	(void)arg;
	rooms++;
}

static int keep(void *arg, struct sc_cursor *cursor, uint64_t done, struct sc_err *e)
{
	char text[32];

	CHECK(arg == &rooms);
	snprintf(text, sizeof(text), "at_%llu", (unsigned long long)done);
	return sc_cursor_move_text(cursor, text, e);
}

static void open_all(struct sc_delivery_options o, bool texts)
{
	struct sc_delivery_hooks hooks = { on_ending, on_room, texts ? keep : NULL };
	char out[120];

	signal(SIGPIPE, SIG_IGN);
	if (!path[0])
		CHECK(mkdtemp(folder) != NULL);
	snprintf(path, sizeof(path), "%s/cursor", folder);
	snprintf(out, sizeof(out), "%s/out", folder);
	(void)unlink(path);
	fd = open(out, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	ended = rooms = 0;
	o.fd = fd;
	o.cursor = path;
	o.ack_fd = -1;
	if (!o.idle_ms)
		o.idle_ms = -1;
	CHECK_OK(sc_loop_new(&loop, &err), &err);
	CHECK_OK(sc_delivery_new(loop, &o, &hooks, &rooms, &d, &err), &err);
	CHECK(sc_delivery_cursor(d) != NULL);
}

static void close_all(void)
{
	char name[140];

	sc_timer_free(timer);
	timer = NULL;
	sc_delivery_free(d);
	sc_loop_free(loop);
	close(fd);
	(void)unlink(path);
	snprintf(name, sizeof(name), "%s.lock", path);
	(void)unlink(name);
	snprintf(name, sizeof(name), "%s/out", folder);
	(void)unlink(name);
	(void)rmdir(folder);
	path[0] = '\0';
	memcpy(folder, "/tmp/sc-delivery-XXXXXX", sizeof(folder));
}

static uint64_t put(const char *msg, uint64_t key)
{
	struct sc_data row = { .has_offset = true, .offset = key, .msg = sc_span_str(msg) };
	uint64_t lines = 99;

	CHECK_OK(sc_delivery_row(d, &row, key, &lines, &err), &err);
	return lines;
}

static void check_file(const char *name, const char *want)
{
	struct sc_bytes text;
	char full[140];

	snprintf(full, sizeof(full), "%s/%s", folder, name);
	sc_bytes_init(&text, 4096);
	CHECK_OK(sc_read_file(full, &text, &err), &err);
	CHECK_STR(sc_bytes_str(&text), want);
	sc_bytes_done(&text);
}

static void end_now(void *arg)
{
	(void)arg;
	sc_ending_begin(sc_delivery_ending(d));
}

/* In the loop, after so long: what a signal or the last row does. */
static void end_after(int64_t ms)
{
	CHECK_OK(sc_timer_new(loop, end_now, NULL, &timer, &err), &err);
	sc_timer_start(timer, ms);
}

TEST(rows_past_the_filter_and_a_cursor_behind_them)
{
	open_all((struct sc_delivery_options){ .filter = ". > 1" }, false);
	CHECK_INT(put("2", 5), 1);
	CHECK_INT(put("1", 6), 0);
	CHECK_OK(sc_delivery_skip(d, 7, &err), &err);
	CHECK_INT(sc_delivery_lines(d), 1);
	CHECK(sc_delivery_flush(d));
	end_after(1);
	CHECK_INT(sc_delivery_run(d, &err), 0);
	CHECK_INT(ended, 1);
	check_file("out", "[5,2]\n");
	check_file("cursor", "7");
	close_all();
}

TEST(a_cursor_in_the_servers_own_words)
{
	open_all((struct sc_delivery_options){ .payload = true }, true);
	CHECK_INT(put("2", 5), 1);
	CHECK(sc_delivery_flush(d));
	end_after(1);
	CHECK_INT(sc_delivery_run(d, &err), 0);
	check_file("out", "2\n");
	check_file("cursor", "at_5");
	close_all();
}

TEST(silence_ends_it)
{
	open_all((struct sc_delivery_options){ .idle_ms = 20 }, false);
	sc_delivery_watch(d, true);
	CHECK_INT(sc_delivery_run(d, &err), 0);
	CHECK_INT(ended, 1);
	close_all();
}

TEST(silence_that_rests_does_not)
{
	open_all((struct sc_delivery_options){ .idle_ms = 20 }, false);
	sc_delivery_watch(d, true);
	sc_delivery_watch(d, false);
	end_after(100);
	CHECK_INT(sc_delivery_run(d, &err), 0);
	CHECK(!sc_timer_runs(timer));
	close_all();
}

static void close_now(void *arg)
{
	struct sc_err why;

	(void)arg;
	sc_err_set(&why, SC_E_UNAVAILABLE, "cannot connect to", "nobody is there");
	sc_delivery_closed(d, &why);
}

TEST(why_it_was_closed_counts)
{
	open_all((struct sc_delivery_options){ 0 }, false);
	CHECK_OK(sc_timer_new(loop, close_now, NULL, &timer, &err), &err);
	sc_timer_start(timer, 1);
	CHECK_INT(sc_delivery_run(d, &err), SC_E_UNAVAILABLE);
	CHECK_STR(err.reason, "nobody is there");
	CHECK_INT(ended, 0);
	close_all();
}

static void end_and_close(void *arg)
{
	end_now(arg);
	close_now(arg);
}

TEST(why_it_was_closed_does_not_count_when_it_was_to_be)
{
	open_all((struct sc_delivery_options){ 0 }, false);
	CHECK_OK(sc_timer_new(loop, end_and_close, NULL, &timer, &err), &err);
	sc_timer_start(timer, 1);
	CHECK_INT(sc_delivery_run(d, &err), 0);
	CHECK_INT(ended, 1);
	close_all();
}

TEST(a_command_that_fails)
{
	open_all((struct sc_delivery_options){ .exec = "read l; test \"$SC_OFFSET\" != 6" }, false);
	CHECK_INT(put("1", 5), 1);
	CHECK_INT(put("1", 6), 1);
	CHECK_INT(put("1", 7), 1);
	CHECK(sc_delivery_flush(d));
	CHECK_INT(sc_delivery_run(d, &err), SC_E_PARTIAL);
	CHECK(!sc_delivery_flush(d));
	check_file("cursor", "5");
	close_all();
}
