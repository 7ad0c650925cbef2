/* client/ending.c: see client/ending.h. */
#include "client/ending.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"

#define POLL_MS 10 /* how often it is asked whether it has taken everything */

struct sc_ending {
	struct sc_loop *loop;
	struct sc_sink *sink;
	void (*tell)(void *arg);
	void *arg;
	struct sc_timer *drain, *poll;
	int64_t drain_ms;
	int signo;
	bool begun, closed;
	struct sc_err err;
	const char *kind; /* NULL: no place is known */
	char place[256];
};

static void check(void *arg)
{
	struct sc_ending *e = arg;

	if (!e->begun || !e->closed)
		return;
	if (!e->sink || sc_sink_idle(e->sink))
		sc_loop_stop(e->loop);
	else
		sc_timer_start(e->poll, POLL_MS);
}

static void on_drain(void *arg)
{
	sc_loop_stop(((struct sc_ending *)arg)->loop);
}

void sc_ending_begin(struct sc_ending *e)
{
	if (e->begun)
		return;
	e->begun = true;
	e->tell(e->arg);
}

static void on_signal(void *arg, int signo)
{
	struct sc_ending *e = arg;

	if (e->signo) { /* the second one ends it now */
		sc_loop_stop(e->loop);
		return;
	}
	e->signo = signo;
	sc_timer_start(e->drain, e->drain_ms);
	sc_ending_begin(e);
	check(e);
}

int sc_ending_new(struct sc_loop *loop, struct sc_sink *sink, int64_t drain_ms,
		  void (*begun)(void *arg), void *arg, struct sc_ending **ret_ending,
		  struct sc_err *err)
{
	struct sc_ending *e = sc_calloc(1, sizeof(*e));
	int rc;

	if (!e)
		return sc_err_nomem(err, "cannot start");
	e->loop = loop;
	e->sink = sink;
	e->drain_ms = drain_ms;
	e->tell = begun;
	e->arg = arg;
	rc = sc_timer_new(loop, on_drain, e, &e->drain, err);
	if (rc == 0)
		rc = sc_timer_new(loop, check, e, &e->poll, err);
	if (rc == 0)
		rc = sc_loop_signal(loop, SIGINT, on_signal, e, err);
	if (rc == 0)
		rc = sc_loop_signal(loop, SIGTERM, on_signal, e, err);
	if (rc < 0) {
		sc_ending_free(e);
		return rc;
	}
	*ret_ending = e;
	return 0;
}

void sc_ending_free(struct sc_ending *e)
{
	if (!e)
		return;
	sc_timer_free(e->poll);
	sc_timer_free(e->drain);
	free(e);
}

void sc_ending_closed(struct sc_ending *e)
{
	e->begun = e->closed = true;
	check(e);
}

void sc_ending_left(struct sc_ending *e)
{
	e->sink = NULL;
	sc_timer_start(e->drain, e->drain_ms);
}

bool sc_ending_is_begun(const struct sc_ending *e)
{
	return e->begun;
}

void sc_ending_note(struct sc_ending *e, const struct sc_err *err)
{
	if (e->err.code)
		return;
	e->err = *err;
	if (!err->object[0] && e->kind)
		sc_err_on(&e->err, e->kind, e->place);
}

void sc_ending_give_up(struct sc_ending *e, const struct sc_err *err)
{
	sc_ending_note(e, err);
	sc_ending_begin(e);
}

void sc_ending_fail(struct sc_ending *e, const struct sc_err *err)
{
	sc_ending_note(e, err);
	sc_loop_stop(e->loop);
}

void sc_ending_place(struct sc_ending *e, const char *kind, const char *place)
{
	e->kind = kind;
	snprintf(e->place, sizeof(e->place), "%s", place);
}

bool sc_ending_has_failed(const struct sc_ending *e)
{
	return e->err.code != SC_OK;
}

int sc_ending_result(const struct sc_ending *e, struct sc_err *err)
{
	if (e->err.code && err)
		*err = e->err;
	return e->err.code;
}

int sc_ending_signo(const struct sc_ending *e)
{
	return e ? e->signo : 0;
}

void sc_ending_note_signal(struct sc_ending *e, int signo)
{
	if (!e->signo)
		e->signo = signo;
}
