/*
 * archive_test: subscribers whose rows begin in the log's archive. Goal: each gets every row from
 * its start on, once, in order, byte for byte, wherever the rows are and however they move
 * meanwhile; nobody waits for an archive but those who read it; what nobody holds is said with true
 * numbers. Method: a log whose rows are sealed, archived and given up at random under random steps
 * of subscribers; and an archive behind a web server that answers when the test lets it.
 */
#include <poll.h>
#include <sys/eventfd.h>

#include "../log/help.h"
#include "../log/web_help.h"

#include "cast/stream.h"
#include "log/archive.h"
#include "wire/head.h"

#define SUBS 12

struct consumer {
	struct sc_subscriber *sub;
	uint64_t asked, next;
	bool has_offset, greeted, waits, messages, filtered, again;
};

static uint64_t seed = 88172645463325252u;
static char shelf[300], folder_url[330], web_url[330];
static struct sc_log *writer, *served;
static struct sc_stream *stream;
static struct sc_feed_pool *pool;
static struct consumer subs[SUBS];
static int bell;
static uint64_t next_row, floor_row, held_row, shelf_row, delivered;

static uint64_t rnd(uint64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % below;
}

static void ring_bell(void *arg)
{
	uint64_t one = 1;

	(void)arg;
	if (write(bell, &one, sizeof(one)) != sizeof(one))
		abort(); /* another thread: no place for CHECK */
}

static void wake(void *arg)
{
	((struct consumer *)arg)->waits = false;
}

/* The message of row N: a filter takes a third of them. */
static size_t message(uint64_t n, char ret_text[3200])
{
	size_t pad = n % 41 ? n * 7919 % 150 : n * 7919 % 2900;
	int len = snprintf(ret_text, 3200, "{\"k\":%d,\"n\":%llu,\"p\":\"", (int)(n % 3),
			   (unsigned long long)n);

	memset(ret_text + len, 'x', pad);
	memcpy(ret_text + len + pad, "\"}", 2);
	return (size_t)len + pad + 2;
}

static void append(uint64_t count)
{
	char text[3200];
	struct sc_bytes all;
	uint32_t lens[64];
	struct sc_log_rows rows = { .lens = lens, .count = count };
	struct sc_log_commit done;

	sc_bytes_init(&all, 1u << 20);
	for (uint64_t i = 0; i < count; i++) {
		lens[i] = (uint32_t)message(next_row + i, text);
		CHECK(sc_bytes_put(&all, text, lens[i]) == 0);
	}
	rows.text = sc_span(all.data, all.len);
	CHECK_OK(sc_log_append(writer, &rows, &done, &err), &err);
	CHECK_INT(done.first, next_row);
	next_row += count;
	sc_bytes_done(&all);
}

/* Seal what there is and archive it; then the log, or the archive, gives up rows. */
static void upkeep(bool archive_too, bool log_gives, uint64_t archive_keeps)
{
	struct sc_seal_options o = { .force = true, .target = 8192 };
	struct sc_archive_options a = { .arg = NULL };
	struct sc_archive_state state;
	struct sc_archive *archive = NULL;
	struct sc_log *log = NULL;
	struct sc_seal *seal = NULL;
	char url[320];

	CHECK_OK(sc_log_open(log_path, SC_LOG_APPEND, &log, &err), &err);
	CHECK_OK(sc_seal_open(log, false, &seal, &err), &err);
	CHECK_OK(sc_seal_run(seal, &o, &err), &err);
	if (archive_too) {
		snprintf(url, sizeof(url), "file://%s", shelf);
		CHECK_OK(sc_archive_open_log(log, url, NULL, false, &archive, &err), &err);
		CHECK_OK(sc_archive_push(archive, &a, &err), &err);
		if (archive_keeps) {
			struct sc_keep keep = { .count = archive_keeps };

			CHECK_OK(sc_archive_keep(archive, &keep, &a, &err), &err);
		}
		sc_archive_state(archive, &state);
		held_row = state.next_offset;
		shelf_row = state.first_offset;
		sc_archive_close(archive);
	}
	if (log_gives && held_row > floor_row) {
		floor_row += 1 + rnd(held_row - floor_row);
		CHECK_OK(sc_log_trim(log, floor_row, &err), &err);
	}
	sc_seal_close(seal);
	sc_log_close(log);
}

static void begin(struct sc_stream_settings *settings, bool over_web)
{
	if (access("/dev/shm", W_OK) == 0)
		setenv("TMPDIR", "/dev/shm", 0); /* many commits, and no power cut */
	memset(subs, 0, sizeof(subs));
	next_row = floor_row = held_row = shelf_row = 1;
	delivered = 0;
	log_new_with(&(struct sc_log_settings){ .journal_bytes = 65536, .message_max = 3200 });
	snprintf(shelf, sizeof(shelf), "%s/shelf", log_dir);
	CHECK(mkdir(shelf, 0777) == 0);
	snprintf(folder_url, sizeof(folder_url), "file://%s/trades", shelf);
	web_start(shelf);
	snprintf(web_url, sizeof(web_url), "http://127.0.0.1:%d/trades", web.port);
	writer = open_log(SC_LOG_APPEND);
	served = open_log(SC_LOG_READ);
	bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	CHECK(bell >= 0);
	CHECK_OK(sc_feed_pool_new(2, ring_bell, NULL, &pool, &err), &err);
	settings->name = "t";
	settings->message_max = 3200;
	settings->ring_bytes = settings->ring_bytes ? settings->ring_bytes : 65536;
	settings->wake = settings->dropped = wake;
	settings->feeds = pool;
	CHECK_OK(sc_stream_open(settings, served, &stream, &err), &err);
	CHECK_OK(sc_stream_set_archive(stream, over_web ? web_url : folder_url, "s3://b/trades",
				       false, &err),
		 &err);
}

static void end(void)
{
	for (int i = 0; i < SUBS; i++)
		sc_subscriber_free(subs[i].sub);
	sc_stream_close(stream);
	sc_feed_pool_free(pool);
	web_stop();
	sc_log_close(served);
	sc_log_close(writer);
	close(bell);
	log_done();
}

static int attach(struct consumer *c, bool has_offset, uint64_t offset, struct sc_refusal *refusal)
{
	struct sc_target target = { .has_offset = has_offset, .offset = offset };
	int rc;

	target.has_where = c->filtered;
	if (c->filtered)
		target.where = SC_SPAN("{\"k\":1}");
	c->has_offset = has_offset;
	c->asked = offset;
	c->next = has_offset ? offset : next_row;
	c->greeted = c->waits = false;
	rc = sc_stream_attach(stream, &target, c, &c->sub, refusal, &err);
	CHECK_OK(rc, &err);
	return rc;
}

/* replay tells where it begins. */
static void check_greeting(struct consumer *c, struct sc_span text)
{
	char copy[1000], *replay;
	unsigned long long start, stop;

	CHECK(text.len < sizeof(copy));
	memcpy(copy, text.data, text.len);
	copy[text.len] = 0;
	CHECK(strstr(copy, ",\"sc_archive\":\"s3://b/trades\"}"));
	c->greeted = true;
	replay = strstr(copy, "\"replay\":[");
	CHECK(!c->has_offset == !replay);
	if (!replay)
		return;
	CHECK_INT(sscanf(replay, "\"replay\":[%llu,%llu]", &start, &stop), 2);
	CHECK(stop <= next_row);
	if (c->asked)
		CHECK_INT(start, c->asked);
	c->next = start;
}

static void check_payload(struct consumer *c, struct sc_span payload)
{
	char want[3300];
	size_t n;

	if (!c->greeted) {
		check_greeting(c, payload);
		return;
	}
	while (c->filtered && c->next % 3 != 1)
		c->next++;
	CHECK(c->next < next_row);
	n = (size_t)snprintf(want, sizeof(want), "[%llu,", (unsigned long long)c->next);
	n += message(c->next, want + n);
	want[n++] = ']';
	if (payload.len != n || memcmp(payload.data, want, n) != 0)
		FAIL("offset %" PRIu64 " was not sent as it is: %.*s", c->next,
		     (int)(payload.len < 80 ? payload.len : 80), payload.data);
	c->next++;
	delivered++;
}

/* Frames until AT_MOST of them; how many bytes they are. */
static size_t check_frames(struct consumer *c, struct sc_span frames, uint64_t at_most)
{
	size_t at = 0, head;

	for (; at < frames.len && at_most > 0; at_most--) {
		uint64_t size = sc_head_payload((const unsigned char *)frames.data + at, &head);

		CHECK(at + head + size <= frames.len);
		check_payload(c, sc_span(frames.data + at + head, (size_t)size));
		at += head + (size_t)size;
	}
	return at;
}

static enum sc_next step(struct consumer *c)
{
	static const size_t maxima[] = { 1, 100, 4000, 30000, 131072 };
	struct consumer before = *c;
	struct sc_delivery m;
	struct sc_span frames;
	uint64_t parts = rnd(8) ? UINT64_MAX : rnd(4), count = delivered;
	enum sc_next next;

	sc_err_clear(&err);
	next = c->messages ? sc_subscriber_message(c->sub, &m, &err)
			   : sc_subscriber_next(c->sub, maxima[rnd(5)], &frames, &err);
	if (next == SC_NEXT_IDLE)
		c->waits = true;
	if (next != SC_NEXT_DATA)
		return next;
	if (c->messages)
		check_payload(c, m.payload);
	else
		sc_subscriber_sent_part(c->sub, check_frames(c, frames, parts));
	if (c->messages && rnd(8)) {
		sc_subscriber_sent(c->sub);
	} else if (c->messages) {
		*c = before; /* not sent: the same comes again */
		delivered = count;
	}
	return next;
}

static void fed(void)
{
	uint64_t rings;

	if (read(bell, &rings, sizeof(rings)) > 0)
		sc_stream_fed(pool);
}

static int pump(void)
{
	int wait, rc = sc_stream_pump(stream, 1u << 16, &wait, &err);

	CHECK_OK(rc, &err);
	return rc;
}

/* Until SUB is through with all rows, or closed; the loop as a server has it. */
static enum sc_next through(struct consumer *c)
{
	struct pollfd p = { .fd = bell, .events = POLLIN };
	enum sc_next next = SC_NEXT_AGAIN;

	while (next != SC_NEXT_CLOSE) {
		int more = pump();

		fed();
		while (c->filtered && c->greeted && c->next % 3 != 1)
			c->next++;
		if (c->greeted && c->next >= next_row)
			return SC_NEXT_DATA;
		if (!c->waits)
			next = step(c);
		else if (!more)
			CHECK(poll(&p, 1, 20000) == 1);
	}
	return next;
}

/* Who got its last row out of the archive looks for the next one there, and so goes back to the
 * log. */
static void settle(struct consumer *c)
{
	struct pollfd p = { .fd = bell, .events = POLLIN };

	while (sc_subscriber_in_archive(c->sub)) {
		fed();
		if (!c->waits)
			CHECK(step(c) != SC_NEXT_CLOSE);
		else
			CHECK(poll(&p, 1, 20000) == 1);
	}
}

static void leave(struct consumer *c)
{
	sc_subscriber_free(c->sub);
	memset(c, 0, sizeof(*c));
}

static void expect_close(struct consumer *c, int code, const char *reason)
{
	const struct sc_close *close = sc_subscriber_close(c->sub);

	CHECK_INT(close->code, code);
	CHECK_MEM(close->reason, close->len, reason);
}

TEST(anything_at_any_time)
{
	struct sc_stream_settings settings = { .wire = 1 };
	struct sc_stream_stats stats;
	struct sc_refusal refusal;
	uint64_t begun_below = 0;

	begin(&settings, false);
	append(40);
	upkeep(true, true, 0);
	for (int i = 0; i < 40000; i++) {
		struct consumer *c = &subs[rnd(SUBS)];
		uint64_t what = rnd(1000);

		if (what < 60) {
			append(1 + rnd(20));
		} else if (what < 64) {
			upkeep(rnd(2), true, 0);
		} else if (what < 65) {
			sc_stream_tick(stream);
		} else if (what < 70 && c->sub) {
			leave(c);
		} else if (what < 120 && !c->sub) {
			uint64_t from = rnd(3) ? 1 + rnd(next_row) : 0;

			c->messages = rnd(4) == 0;
			c->filtered = rnd(4) == 0;
			begun_below += from < floor_row;
			CHECK_INT(attach(c, rnd(5) > 0, from, &refusal), 0);
		} else if (what < 300) {
			pump();
		} else if (c->sub && !c->waits) {
			CHECK(step(c) != SC_NEXT_CLOSE);
		}
		fed();
	}
	/* in the end the log has no row: who is behind gets the last ones out of the archive */
	upkeep(true, false, 0);
	CHECK_OK(sc_log_trim(writer, next_row, &err), &err);
	for (int i = 0; i < SUBS; i++) {
		if (subs[i].sub && through(&subs[i]) == SC_NEXT_CLOSE)
			FAIL("closed: %.*s %s", (int)sc_subscriber_close(subs[i].sub)->len,
			     sc_subscriber_close(subs[i].sub)->reason, err.reason);
		if (subs[i].sub)
			settle(&subs[i]);
	}
	CHECK(begun_below > 100 && floor_row > 1000);
	CHECK_OK(sc_stream_stats(stream, &stats, &err), &err);
	CHECK(stats.archive_out > 1000 && stats.messages_out >= stats.archive_out);
	CHECK_INT(stats.messages_out, delivered);
	CHECK_INT(stats.replaying_archive, 0);
	CHECK_INT(stats.dropped_evicted + stats.dropped_archive + stats.dropped_failed, 0);
	end();
}

/* Retention passes one that reads the log: it goes on in the archive. */
TEST(passed_by_retention)
{
	struct sc_stream_settings settings = { .wire = 1 };
	struct sc_refusal refusal;
	struct sc_stream_stats stats;
	struct consumer *c = &subs[0];

	begin(&settings, false);
	for (int i = 0; i < 400; i++)
		append(10);
	while (pump() == 1)
		;
	CHECK_INT(attach(c, true, 1, &refusal), 0);
	while (c->next < 10)
		step(c);
	CHECK(!sc_subscriber_in_archive(c->sub));
	upkeep(true, false, 0);
	CHECK_OK(sc_log_trim(writer, 3900, &err), &err);
	CHECK_INT(through(c), SC_NEXT_DATA);
	CHECK_OK(sc_stream_stats(stream, &stats, &err), &err);
	if (stats.archive_out < 1000)
		FAIL("%" PRIu64 " rows from the archive", stats.archive_out);
	end();
}

/* A gap that nobody holds, and rows that the archive gave up. */
TEST(gone)
{
	struct sc_stream_settings settings = { .wire = 1 };
	struct sc_refusal refusal;
	struct consumer *c = &subs[0];

	begin(&settings, false);
	append(50);
	CHECK_OK(sc_log_trim(writer, 11, &err), &err);
	/* nothing was ever archived: there is no archive, and the log is all there is */
	CHECK_INT(attach(c, true, 5, &refusal), 0);
	CHECK_INT(through(c), SC_NEXT_CLOSE);
	expect_close(
		c, 4416,
		"{\"error\":\"not_replayable\",\"why\":\"evicted\",\"offset\":5,\"earliest\":11,"
		"\"archive\":null}");
	leave(c);
	/* rows 1 to 10 are gone; 11 to 50 are archived; 51 to 90 are lost before they were */
	upkeep(true, false, 0);
	for (int i = 0; i < 8; i++)
		append(20);
	CHECK_OK(sc_log_trim(writer, 91, &err), &err);
	for (uint64_t from = 12; from < 91; from += 39) {
		CHECK_INT(attach(c, true, from, &refusal), 0);
		CHECK_INT(through(c), SC_NEXT_CLOSE);
		CHECK(!c->greeted);
		CHECK_INT(sc_subscriber_close(c->sub)->code, 4416);
		CHECK(strstr(sc_subscriber_close(c->sub)->reason, "\"why\":\"evicted\""));
		CHECK(strstr(sc_subscriber_close(c->sub)->reason, "\"earliest\":91"));
		leave(c);
	}
	/* the earliest from which nothing is missing */
	CHECK_INT(attach(c, true, 0, &refusal), 0);
	CHECK_INT(through(c), SC_NEXT_DATA);
	leave(c);
	end();
}

TEST(archive_gives_up)
{
	struct sc_stream_settings settings = { .wire = 1 };
	struct sc_refusal refusal;
	struct consumer *c = &subs[0];
	char want[60];

	begin(&settings, false);
	for (int i = 0; i < 100; i++)
		append(20);
	upkeep(true, false, 0);
	append(20);
	upkeep(true, false, 2);
	CHECK_OK(sc_log_trim(writer, held_row, &err), &err);
	CHECK(shelf_row > 100);
	CHECK_INT(attach(c, true, 99, &refusal), 0);
	CHECK_INT(through(c), SC_NEXT_CLOSE);
	snprintf(want, sizeof(want), "\"earliest\":%llu", (unsigned long long)shelf_row);
	CHECK(strstr(sc_subscriber_close(c->sub)->reason, want));
	leave(c);
	c->next = 0;
	CHECK_INT(attach(c, true, 0, &refusal), 0);
	while (!c->greeted) {
		fed();
		step(c);
	}
	CHECK_INT(c->next, shelf_row);
	CHECK_INT(through(c), SC_NEXT_DATA);
	leave(c);
	end();
}

/* The archive gives up rows that one is about to read there. */
TEST(archive_gives_up_meanwhile)
{
	struct sc_stream_settings settings = { .wire = 1 };
	struct sc_refusal refusal;
	struct consumer *c = &subs[0];
	char want[60];

	begin(&settings, false);
	for (int i = 0; i < 400; i++)
		append(20);
	upkeep(true, false, 0);
	CHECK_OK(sc_log_trim(writer, held_row, &err), &err);
	CHECK_INT(attach(c, true, 1, &refusal), 0);
	while (c->next < 100) {
		fed();
		if (!c->waits)
			step(c);
	}
	append(20);
	upkeep(true, false, 2);
	CHECK(shelf_row > 4000);
	CHECK_INT(through(c), SC_NEXT_CLOSE);
	CHECK_INT(sc_subscriber_close(c->sub)->code, 4416);
	snprintf(want, sizeof(want), "\"offset\":%llu,\"earliest\":%llu",
		 (unsigned long long)c->next, (unsigned long long)shelf_row);
	CHECK(strstr(sc_subscriber_close(c->sub)->reason, want));
	end();
}

/* An archive that does not answer is waited for by those who read it, and by nobody else. */
TEST(slow)
{
	struct sc_stream_settings settings = { .wire = 1 };
	struct sc_refusal refusal;
	struct sc_stream_stats stats;

	begin(&settings, true);
	for (int i = 0; i < 300; i++)
		append(20);
	upkeep(true, false, 0);
	CHECK_OK(sc_log_trim(writer, 5900, &err), &err);
	web_hold("/");
	for (int i = 0; i < 4; i++)
		CHECK_INT(attach(&subs[i], true, i == 3 ? 0 : 1 + (uint64_t)i, &refusal), 0);
	CHECK_INT(attach(&subs[4], false, 0, &refusal), 0);
	web_await_held(1);
	for (int i = 0; i < 50; i++) {
		append(1);
		/* not held up, or it would never be through: no answer comes */
		CHECK_INT(through(&subs[4]), SC_NEXT_DATA);
		for (int k = 0; k < 4; k++)
			CHECK_INT(step(&subs[k]), SC_NEXT_IDLE);
	}
	CHECK_OK(sc_stream_stats(stream, &stats, &err), &err);
	CHECK_INT(stats.replaying_archive, 4);
	CHECK(!subs[0].greeted);
	/* one leaves while it waits; one is closed with all others */
	leave(&subs[1]);
	web_hold(NULL);
	CHECK_INT(through(&subs[0]), SC_NEXT_DATA);
	CHECK_INT(through(&subs[3]), SC_NEXT_DATA);
	sc_stream_close_all(stream, 1001, "bye");
	CHECK_INT(through(&subs[2]), SC_NEXT_CLOSE);
	expect_close(&subs[2], 1001, "bye");
	end();
}

/* One that takes nothing for long lets go of its feed, and is at the same place then; one that only
 * waits for the archive does not. */
TEST(stalled)
{
	struct sc_stream_settings settings = { .wire = 1 };
	struct sc_refusal refusal;
	struct consumer *c = &subs[0];
	struct pollfd p = { .events = POLLIN };
	struct sc_span frames, again;
	enum sc_next next;

	begin(&settings, true);
	for (int i = 0; i < 600; i++)
		append(20);
	upkeep(true, false, 0);
	CHECK_OK(sc_log_trim(writer, 11900, &err), &err);
	p.fd = bell;
	CHECK_INT(attach(c, true, 1, &refusal), 0);
	while (c->next < 50) {
		fed();
		if (!c->waits)
			step(c);
	}
	/* all that came was sent: it waits */
	web_hold("/sealed/");
	do {
		fed();
		next = sc_subscriber_next(c->sub, 4000, &frames, &err);
		if (next == SC_NEXT_DATA)
			sc_subscriber_sent_part(c->sub, check_frames(c, frames, UINT64_MAX));
		CHECK(c->next < 11000);
	} while (next != SC_NEXT_IDLE || !web_held());
	for (int i = 0; i < 30; i++)
		sc_stream_tick(stream);
	c->waits = true;
	web_hold(NULL);
	while (c->waits) { /* it is woken */
		CHECK(poll(&p, 1, 20000) == 1);
		fed();
	}
	while (sc_subscriber_next(c->sub, 4000, &frames, &err) != SC_NEXT_DATA)
		fed();
	/* nothing is taken: what was read ahead is forgotten, what was handed out is not */
	for (int i = 0; i < 30; i++)
		sc_stream_tick(stream);
	web_hold("/sealed/");
	CHECK(sc_subscriber_next(c->sub, 4000, &again, &err) == SC_NEXT_DATA);
	CHECK(again.len == frames.len && again.data == frames.data);
	check_frames(c, again, UINT64_MAX);
	sc_subscriber_sent(c->sub);
	CHECK_INT(sc_subscriber_next(c->sub, 4000, &again, &err), SC_NEXT_IDLE);
	web_hold(NULL);
	CHECK_INT(through(c), SC_NEXT_DATA);
	end();
}

TEST(unreachable)
{
	struct sc_stream_settings settings = { .wire = 1 };
	struct sc_refusal refusal;
	struct sc_stream_stats stats;

	begin(&settings, true);
	for (int i = 0; i < 30; i++)
		append(20);
	upkeep(true, false, 0);
	CHECK_OK(sc_log_trim(writer, 500, &err), &err);
	web_fail(403);
	CHECK_INT(attach(&subs[0], true, 1, &refusal), 0);
	CHECK_INT(attach(&subs[1], true, 500, &refusal), 0);
	CHECK_INT(through(&subs[0]), SC_NEXT_CLOSE);
	CHECK(sc_subscriber_in_archive(subs[0].sub));
	expect_close(&subs[0], 1011, "the archive cannot be read");
	CHECK_INT(err.code, SC_E_NOAUTH);
	CHECK_INT(through(&subs[1]), SC_NEXT_DATA);
	CHECK_OK(sc_stream_stats(stream, &stats, &err), &err);
	CHECK_INT(stats.dropped_archive, 1);
	end();
}

/* Damage, and an archive of another stream: rows that are good come before. */
TEST(damaged)
{
	struct sc_stream_settings settings = { .wire = 1 };
	struct sc_refusal refusal;
	struct consumer *c = &subs[0];
	struct dirent **names;
	char path[900];
	int n, fd;

	begin(&settings, false);
	for (int i = 0; i < 100; i++)
		append(20);
	upkeep(true, false, 0);
	CHECK_OK(sc_log_trim(writer, 1900, &err), &err);
	snprintf(path, sizeof(path), "%s/trades/sealed", shelf);
	n = scandir(path, &names, NULL, alphasort);
	CHECK(n > 6);
	snprintf(path, sizeof(path), "%s/trades/sealed/%s", shelf, names[4]->d_name);
	fd = open(path, O_RDWR);
	CHECK(fd >= 0 && pwrite(fd, "damage", 6, 20) == 6);
	close(fd);
	CHECK_INT(attach(c, true, 1, &refusal), 0);
	CHECK_INT(through(c), SC_NEXT_CLOSE);
	expect_close(c, 1011, "the archive cannot be read");
	CHECK_INT(err.code, SC_E_DATA);
	CHECK_INT(c->next, strtoull(names[4]->d_name, NULL, 10));
	leave(c);
	snprintf(path, sizeof(path),
		 "sed -i 's/\"stream_id\": *\"[0-9a-f]*/&0/;s/\\(\"stream_id\": "
		 "*\".\\{36\\}\\)./\\1/' "
		 "%s/trades/log.json %s/trades/epoch.json",
		 shelf, shelf);
	CHECK(system(path) == 0);
	CHECK_INT(attach(c, true, 1, &refusal), 0);
	CHECK_INT(through(c), SC_NEXT_CLOSE);
	expect_close(c, 1011, "the archive cannot be read");
	CHECK(err.code == SC_E_CONFIG || err.code == SC_E_DATA);
	while (n)
		free(names[--n]);
	free(names);
	end();
}

/* Rows of the archive count as many as their offsets are apart. */
TEST(max_replay)
{
	struct sc_stream_settings settings = { .wire = 1,
					       .bounded_replay = true,
					       .max_replay = 1000 };
	struct sc_refusal refusal;
	struct consumer *c = &subs[0];

	begin(&settings, true);
	for (int i = 0; i < 100; i++)
		append(20);
	upkeep(true, false, 0);
	CHECK_OK(sc_log_trim(writer, 1900, &err), &err);
	web_fail(500); /* it is not asked for this */
	CHECK_INT(attach(c, true, 1000, &refusal), 1);
	CHECK_INT(refusal.why, SC_WHY_TOO_OLD);
	CHECK_INT(refusal.behind, 1001);
	web_fail(0);
	CHECK_INT(attach(c, true, 1001, &refusal), 0);
	CHECK_INT(through(c), SC_NEXT_DATA);
	leave(c);
	CHECK_INT(attach(c, true, 0, &refusal), 0);
	CHECK_INT(through(c), SC_NEXT_CLOSE);
	CHECK(strstr(sc_subscriber_close(c->sub)->reason,
		     "\"why\":\"too_old\",\"offset\":1,\"behind\":2000"));
	end();
}
