/*
 * tests/unit/durable/engine_fixture.h: a store in a folder of its own, the clock in the test's
 * hand, background work only when it is asked for.
 */
#ifndef SC_TESTS_ENGINE_FIXTURE_H
#define SC_TESTS_ENGINE_FIXTURE_H

#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "folder.h"

#include "base/clock.h"
#include "durable/engine.h"

#define START_US 1800000000000000ll

static atomic_int_fast64_t clock_us;
static struct sc_ds *ds;
static struct sc_err err;

static inline int64_t test_wall(void)
{
	int64_t us = atomic_load(&clock_us);
	struct timespec now;

	if (us)
		return us;
	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * 1000000ll + now.tv_nsec / 1000;
}

static inline void advance(int64_t seconds)
{
	atomic_fetch_add(&clock_us, seconds * 1000000);
}

static const struct sc_ds_settings quiet = {
	.size_max = 256u << 20,
	.sweep_ms = -1,
	.repair_ms = -1,
};

static inline void reopen(const struct sc_ds_settings *set)
{
	sc_ds_close(ds);
	ds = NULL;
	CHECK_OK(sc_ds_open(folder, set, &ds, &err), &err);
}

static inline void begin(const struct sc_ds_settings *set)
{
	memset(&err, 0, sizeof(err));
	atomic_store(&clock_us, START_US);
	sc_clock_set(test_wall, NULL);
	folder_new();
	reopen(set);
}

static inline void end(void)
{
	sc_ds_close(ds);
	ds = NULL;
	folder_done();
}

static inline struct sc_ds_call request(enum sc_ds_method method, const char *path,
					const char *body)
{
	struct sc_ds_call call = {
		.request = {
			.method = method,
			.path = sc_span_str(path),
			.content_type = SC_SPAN("text/plain"),
			.body = sc_span_str(body),
		},
	};

	sc_ds_answer_init(&call.answer);
	return call;
}

/* The status; *ret_next (may be NULL) the offset. */
static inline int ask(struct sc_ds_call call, uint64_t *ret_next)
{
	sc_ds_call(ds, &call);
	if (ret_next)
		*ret_next = call.answer.next;
	sc_ds_answer_done(&call.answer);
	return call.answer.status;
}

static inline int put(const char *path)
{
	return ask(request(SC_DS_PUT, path, ""), NULL);
}

static inline int post(const char *path, const char *body)
{
	return ask(request(SC_DS_POST, path, body), NULL);
}

static inline int put_ttl(const char *path, const char *ttl)
{
	struct sc_ds_call call = request(SC_DS_PUT, path, "");

	call.request.ttl = sc_span_str(ttl);
	return ask(call, NULL);
}

static inline int fork_of(const char *path, const char *source, const char *offset)
{
	struct sc_ds_call call = request(SC_DS_PUT, path, "");

	call.request.forked_from = sc_span_str(source);
	call.request.fork_offset = offset ? sc_span_str(offset) : sc_span(NULL, 0);
	return ask(call, NULL);
}

static inline int trim(const char *path, uint64_t at)
{
	struct sc_ds_call call = request(SC_DS_PUT, path, "");

	call.op = SC_DS_OP_TRIM;
	call.position = at;
	return ask(call, NULL);
}

/* The whole answer as text: status, then the body. */
static inline const char *get(const char *path, const char *offset)
{
	static char text[4096];
	struct sc_ds_request r = { .method = SC_DS_GET, .path = sc_span_str(path) };
	struct sc_ds_reader reader = { 0 };
	struct sc_ds_answer a;

	r.query.offset = offset ? sc_span_str(offset) : sc_span(NULL, 0);
	sc_ds_answer_init(&a);
	CHECK_OK(sc_ds_read(ds, &r, &reader, false, &a, &err), &err);
	snprintf(text, sizeof(text), "%d %.*s", a.status, (int)a.body.len,
		 a.body.len ? a.body.data : "");
	sc_ds_answer_done(&a);
	return text;
}

static inline int head(const char *path)
{
	struct sc_ds_answer a;
	int status;

	sc_ds_answer_init(&a);
	CHECK_OK(sc_ds_head(ds, sc_span_str(path), &a, &err), &err);
	status = a.status;
	sc_ds_answer_done(&a);
	return status;
}

static inline void told(void *arg, const char *what)
{
	(void)arg;
	FAIL("verify: %s", what);
}

static inline struct sc_ds_verified verified(void)
{
	struct sc_ds_verified v;

	CHECK_OK(sc_ds_verify(ds, told, NULL, &v, &err), &err);
	return v;
}

struct waiting {
	struct sc_ds_waiter waiter;
	atomic_int woken, why;
};

static inline void woken(struct sc_ds_waiter *waiter, enum sc_ds_woken why)
{
	struct waiting *w = waiter->arg;

	atomic_store(&w->why, (int)why);
	atomic_fetch_add(&w->woken, 1);
}

static inline void until(atomic_int *value, int want)
{
	for (int i = 0; i < 10000 && atomic_load(value) != want; i++)
		usleep(1000);
	CHECK_INT(atomic_load(value), want);
}

#endif
