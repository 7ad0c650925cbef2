/*
 * tests/unit/net/watcher.h: a client whose hooks write a line of words, for tests.
 *
 * Words: "open", "t:TEXT", "b:LEN", "pong", "drained", "lost:CODE" (an open one, with the close
 * code), "fail:STATUS" (a try), "end:WORD" (finished, with the code's word). The loop stops when it
 * is finished, or when w->stop is in the words.
 */
#ifndef SC_TESTS_WATCHER_H
#define SC_TESTS_WATCHER_H

#include "base/clock.h"
#include "net/client.h"
#include "net/loop.h"
#include "../check.h"

struct watcher {
	struct sc_loop *loop;
	struct sc_client *client;
	struct sc_client_options o;
	struct sc_client_hooks hooks;
	struct sc_timer *limit, *tick;
	const char *stop;
	char words[4000];
	size_t len;
	bool late;
	/* of the last one told */
	char opened_sub[100], reason[400], advice[240], close_reason[130], where[300], warning[300];
	bool compressed, clean;
	int64_t wait_ms, lasted_ms, took_ms;
	uint64_t messages, count;
	int error;
	void (*act)(struct watcher *w, const char *word); /* called after each word */
	enum sc_client_next next;
	bool count_only;
};

static struct sc_err err;

static inline void watcher_word(struct watcher *w, const char *word)
{
	if (w->len + strlen(word) + 2 < sizeof(w->words))
		w->len += (size_t)snprintf(w->words + w->len, sizeof(w->words) - w->len, "%s%s", w->len ? " " : "", word);
	if (w->act)
		w->act(w, word);
	if (w->stop && strstr(w->words, w->stop))
		sc_loop_stop(w->loop);
}

static inline void watcher_opened(void *arg, const struct sc_client_opened *o)
{
	struct watcher *w = arg;

	snprintf(w->opened_sub, sizeof(w->opened_sub), "%s", o->subprotocol);
	snprintf(w->where, sizeof(w->where), "%s", o->where);
	w->compressed = o->compressed;
	w->took_ms = o->took_ms;
	watcher_word(w, "open");
}

static inline void watcher_message(void *arg, const struct sc_client_message *m)
{
	struct watcher *w = arg;
	char word[200];

	CHECK(!sc_client_paused(w->client));
	w->count++;
	if (w->count_only)
		return;
	if (m->binary)
		snprintf(word, sizeof(word), "b:%zu", m->payload.len);
	else
		snprintf(word, sizeof(word), "t:%.*s", (int)(m->payload.len < 100 ? m->payload.len : 100), m->payload.data);
	watcher_word(w, word);
}

static inline void watcher_pong(void *arg, int64_t us)
{
	CHECK(us >= 0);
	watcher_word(arg, "pong");
}

static inline void watcher_drained(void *arg)
{
	watcher_word(arg, "drained");
}

static inline enum sc_client_next watcher_ended(void *arg, const struct sc_client_ended *e)
{
	struct watcher *w = arg;
	char word[40];

	w->wait_ms = e->wait_ms;
	w->lasted_ms = e->lasted_ms;
	w->clean = e->clean;
	w->messages = e->messages;
	w->error = e->err->code;
	snprintf(w->where, sizeof(w->where), "%s", e->where);
	snprintf(w->close_reason, sizeof(w->close_reason), "%.*s", (int)e->close_reason.len, e->close_reason.data);
	snprintf(w->reason, sizeof(w->reason), "%s", e->err->reason);
	snprintf(w->advice, sizeof(w->advice), "%s", e->err->next);
	if (e->was_open)
		snprintf(word, sizeof(word), "lost:%u", e->close_code);
	else
		snprintf(word, sizeof(word), "fail:%d", e->status);
	watcher_word(w, word);
	return w->next;
}

static inline void watcher_finished(void *arg, const struct sc_err *e)
{
	struct watcher *w = arg;
	char word[80];

	snprintf(word, sizeof(word), "end:%s", e->code ? sc_code_word(e->code) : "ok");
	w->error = e->code;
	watcher_word(w, word);
	sc_loop_stop(w->loop);
}

static inline void watcher_warning(void *arg, const char *text)
{
	struct watcher *w = arg;

	snprintf(w->warning, sizeof(w->warning), "%s", text);
}

static inline void watcher_late(void *arg)
{
	struct watcher *w = arg;

	w->late = true;
	sc_loop_stop(w->loop);
}

/* Short waits; change w->o before watcher_run. */
static inline void watcher_init(struct watcher *w)
{
	memset(w, 0, sizeof(*w));
	w->o = SC_CLIENT_OPTIONS_STANDARD;
	w->o.proxy = "";
	w->o.retry.start_ms = 5;
	w->o.retry.ceiling_ms = 20;
	w->o.retry.tries = 0;
	w->o.close_ms = 1000;
	w->hooks = (struct sc_client_hooks){
		.opened = watcher_opened, .message = watcher_message, .pong = watcher_pong, .drained = watcher_drained,
		.ended = watcher_ended, .finished = watcher_finished, .warning = watcher_warning,
	};
	CHECK_OK(sc_loop_new(&w->loop, &err), &err);
	CHECK_OK(sc_timer_new(w->loop, watcher_late, w, &w->limit, &err), &err);
}

static inline void watcher_go(struct watcher *w)
{
	sc_timer_start(w->limit, 10000);
	CHECK_OK(sc_loop_run(w->loop, &err), &err);
	if (w->late)
		FAIL("too late after: %s", w->words);
}

static inline void watcher_run(struct watcher *w, const char *url)
{
	w->o.url = url;
	CHECK_OK(sc_client_new(w->loop, &w->o, &w->hooks, w, &w->client, &err), &err);
	watcher_go(w);
}

static inline void watcher_done(struct watcher *w)
{
	sc_client_free(w->client);
	sc_loop_free(w->loop);
}

#endif
