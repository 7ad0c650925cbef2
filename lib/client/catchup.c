/* client/catchup.c: the rows that a server has no more, out of the archive. */
#include "client/catchup.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "log/archive_url.h"
#include "log/feed.h"
#include "store/place.h"

#define THREADS 2    /* the second one when the first is still held up by what was given up */
#define TURN_RUNS 64 /* then the loop has its turn */

struct sc_catchup {
	struct sc_catchup_options o;
	struct sc_session *session;
	struct sc_events *events;
	struct sc_wake *wake;
	struct sc_feed_pool *pool;
	struct sc_feed *feed; /* NULL: nothing is read */
	struct sc_bytes url, shown;
	bool in_folder; /* URL is that of NAME in the folder that was given */
	bool open, paused;
	struct sc_span rest; /* lines that were read and not given on; the feed's */
	uint64_t rows, next; /* how many were given on; where the archive ends */
};

static void on_wake(void *arg);

static void wake(void *arg)
{
	sc_wake_up(arg);
}

int sc_catchup_new(struct sc_loop *loop, const struct sc_catchup_options *options,
		   struct sc_session *session, struct sc_events *events,
		   struct sc_catchup **ret_catchup, struct sc_err *err)
{
	struct sc_catchup *c = sc_calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return sc_err_nomem(err, "cannot set up the catch-up");
	c->o = *options;
	c->session = session;
	c->events = events;
	sc_bytes_init(&c->url, 1 << 17);
	sc_bytes_init(&c->shown, 1 << 17);
	rc = sc_wake_new(loop, on_wake, c, &c->wake, err);
	if (rc == 0)
		rc = sc_feed_pool_new(THREADS, wake, c->wake, &c->pool, err);
	if (rc < 0) {
		sc_catchup_free(c);
		return rc;
	}
	*ret_catchup = c;
	return 0;
}

void sc_catchup_free(struct sc_catchup *c)
{
	if (!c)
		return;
	sc_catchup_stop(c);
	sc_feed_pool_free(c->pool);
	sc_wake_free(c->wake);
	if (c->url.data)
		explicit_bzero(c->url.data, c->url.cap);
	sc_bytes_done(&c->url);
	sc_bytes_done(&c->shown);
	free(c);
}

bool sc_catchup_located(const struct sc_catchup *c)
{
	return c->o.archive || sc_session_archive(c->session)[0];
}

bool sc_catchup_active(const struct sc_catchup *c)
{
	return c && c->feed;
}

void sc_catchup_stop(struct sc_catchup *c)
{
	if (!c)
		return;
	sc_feed_close(c->feed);
	c->feed = NULL;
	c->open = c->paused = false;
	c->rest = sc_span(NULL, 0);
}

void sc_catchup_pause(struct sc_catchup *c)
{
	c->paused = true;
}

void sc_catchup_resume(struct sc_catchup *c)
{
	if (!c->paused)
		return;
	c->paused = false;
	sc_wake_up(c->wake);
}

bool sc_catchup_paused(const struct sc_catchup *c)
{
	return c->paused;
}

static void finish(struct sc_catchup *c, const struct sc_err *err)
{
	struct sc_err none;

	sc_err_clear(&none);
	sc_catchup_stop(c);
	c->o.done(c->o.arg, err ? err : &none);
}

static int nowhere(struct sc_err *err)
{
	sc_err_set(err, SC_E_NOLOG, "cannot catch up",
		   "nothing says where the archive is: the server names none");
	return sc_err_next(err, "name it with --archive");
}

/* c->url becomes URL, or that of NAME in the folder URL; c->shown the same without what is secret. */
static int put_url(struct sc_catchup *c, const char *url, const char *name, struct sc_err *err)
{
	struct sc_place place;
	int rc;

	if (*name)
		return sc_archive_url(url, name, &c->url, &c->shown, err);
	rc = sc_place_parse(url, &place, err);
	if (rc < 0)
		return rc;
	sc_bytes_clear(&c->url);
	sc_bytes_clear(&c->shown);
	if (sc_bytes_puts(&c->url, url) < 0 || sc_bytes_puts(&c->shown, place.shown) < 0 ||
	    !sc_bytes_str(&c->url) || !sc_bytes_str(&c->shown))
		rc = sc_err_nomem(err, "cannot catch up");
	sc_place_done(&place);
	return rc;
}

/* Open what is at the place that is known, or NAME in it. */
static void open_feed(struct sc_catchup *c, const char *name)
{
	const char *url = c->o.archive ? c->o.archive : sc_session_archive(c->session);
	struct sc_err err;
	int rc;

	c->in_folder = *name != 0;
	rc = *url ? 0 : nowhere(&err);
	if (rc == 0)
		rc = put_url(c, url, name, &err);
	if (rc == 0)
		rc = sc_feed_open(c->pool, c->url.data, c->o.store, sc_session_resume(c->session),
				  0, c, &c->feed, &err);
	if (rc < 0)
		finish(c, &err);
}

void sc_catchup_begin(struct sc_catchup *c)
{
	c->rows = 0;
	open_feed(c, "");
}

/* A stream's name that can be that of a folder. */
static const char *folder_name(const struct sc_catchup *c)
{
	const char *name = sc_session_stream(c->session);

	return *name && *name != '.' && !strchr(name, '/') ? name : "";
}

/* There is nothing at URL. Is it the folder where the archive is? */
static void try_folder(struct sc_catchup *c, struct sc_err *err)
{
	const char *name = folder_name(c);

	if (!c->in_folder && c->o.archive && *name) {
		sc_feed_close(c->feed);
		c->feed = NULL;
		open_feed(c, name);
		return;
	}
	if (c->o.archive)
		sc_err_next(err, "give --archive the URL of the archive that sc-seal writes, or of "
				 "the folder where it is");
	else
		sc_err_next(err, "the server says that its archive is there: if it is one of "
				 "another kind, name that of sc-seal with --archive");
	finish(c, err);
}

/* 1: the archive is open, and has what is wanted; 0: not yet, or not at all. */
static int check_open(struct sc_catchup *c)
{
	struct sc_session_kept kept = { .archive = c->shown.data, .trusted = c->o.archive != NULL };
	struct sc_feed_info info;
	struct sc_err err;
	int rc = sc_feed_info(c->feed, &info, &err);

	if (rc == 0)
		return 0;
	if (rc == SC_E_NOLOG) {
		try_folder(c, &err);
		return 0;
	}
	if (rc == 1) {
		kept.stream_id = info.stream_id;
		kept.first = info.first_offset;
		kept.next = info.next_offset;
		rc = sc_session_archive_begin(c->session, &kept, &err);
	}
	if (rc < 0) {
		finish(c, &err);
		return 0;
	}
	if (rc == 1)
		sc_events_warning(c->events,
				  "the archive is that of another log than the server's: it is "
				  "taken for a copy of it, since --archive names it");
	c->open = true;
	c->next = kept.next;
	sc_events_catch_up(c->events, c->shown.data, sc_session_resume(c->session), kept.next);
	return 1;
}

/* The lines in hand, until the consumer is full or has gone. 1: all of them. */
static int give(struct sc_catchup *c)
{
	enum sc_session_step step;
	struct sc_data row;
	struct sc_err err;

	while (c->rest.len && c->feed && !c->paused) {
		const char *lf = memchr(c->rest.data, '\n', c->rest.len);
		size_t len = lf ? (size_t)(lf - c->rest.data) : c->rest.len;
		struct sc_span line = sc_span(c->rest.data, len);

		len += lf != NULL;
		c->rest = sc_span(c->rest.data + len, c->rest.len - len);
		if (sc_session_archived(c->session, line, &step, &row, &err) < 0 ||
		    c->o.row(c->o.arg, step, &row, &err) < 0) {
			finish(c, &err);
			return 0;
		}
		c->rows++;
	}
	return c->feed && !c->paused;
}

static void read_on(struct sc_catchup *c)
{
	struct sc_run run;
	struct sc_err err;
	int rc = SC_FEED_RUN;

	for (int i = 0; i < TURN_RUNS && rc == SC_FEED_RUN; i++) {
		if (!give(c))
			break;
		rc = sc_feed_next(c->feed, &run, &err);
		if (rc == SC_FEED_RUN)
			c->rest = run.lines;
	}
	if (rc == SC_FEED_RUN && c->feed && !c->paused)
		sc_wake_up(c->wake); /* there is more */
	c->o.batch(c->o.arg);
	if (!c->feed || rc == SC_FEED_RUN || rc == SC_FEED_NONE)
		return;
	if (rc < 0) {
		finish(c, &err);
	} else if (sc_session_archive_end(c->session, c->next, &err) < 0) {
		finish(c, &err);
	} else {
		sc_events_caught_up(c->events, c->rows, sc_session_resume(c->session));
		finish(c, NULL);
	}
}

static void on_wake(void *arg)
{
	struct sc_catchup *c = arg;

	while (sc_feed_ready(c->pool))
		; /* there is one at most, and it is asked anyway */
	if (!c->feed || c->paused)
		return;
	if (c->open || check_open(c))
		read_on(c);
}
