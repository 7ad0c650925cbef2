/* net/client.c: see net/client.h. */
#include "net/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "net/client_internal.h"

/* In front of each held message, unaligned. */
struct held_head {
	size_t len;
	int64_t received_us;
	bool binary;
};

static void destroy(struct sc_client *c)
{
	sc_link_free(c->link);
	sc_timer_free(c->wait);
	sc_task_cancel(&c->task);
	sc_tls_context_free(c->tls);
	sc_bytes_done(&c->held);
	sc_client_options_done(&c->o);
	free(c->in);
	free(c);
}

void sc_client_enter(struct sc_client *c)
{
	c->depth++;
}

void sc_client_leave(struct sc_client *c)
{
	if (--c->depth == 0 && c->freed)
		destroy(c);
}

void sc_client_warn(struct sc_client *c, const char *text)
{
	if (c->hooks.warning)
		c->hooks.warning(c->arg, text);
}

/* Messages. */

static size_t held_bytes(const struct sc_client *c)
{
	return c->held.len - c->held_at;
}

bool sc_client_full(const struct sc_client *c)
{
	return held_bytes(c) > 0 && held_bytes(c) >= c->o.ahead_max;
}

static int hold(struct sc_client *c, const struct sc_client_message *m, struct sc_err *err)
{
	struct held_head head = { 0 };

	head.len = m->payload.len;
	head.received_us = m->received_us;
	head.binary = m->binary;
	if (c->held_at > c->held.len / 2) {
		sc_bytes_drop(&c->held, c->held_at);
		c->held_at = 0;
	}
	if (sc_bytes_reserve(&c->held, sizeof(head) + m->payload.len) < 0)
		return sc_err_nomem(err, "cannot hold a message");
	(void)sc_bytes_put(&c->held, &head, sizeof(head));
	(void)sc_bytes_put(&c->held, m->payload.data, m->payload.len);
	return 0;
}

int sc_client_take_message(struct sc_client *c, const struct sc_client_message *m,
			   struct sc_err *err)
{
	if (c->paused || held_bytes(c))
		return hold(c, m, err);
	c->batch_due = true;
	if (c->hooks.message)
		c->hooks.message(c->arg, m);
	return 0;
}

void sc_client_batch(struct sc_client *c)
{
	if (!c->batch_due)
		return;
	c->batch_due = false;
	if (c->hooks.batch)
		c->hooks.batch(c->arg);
}

static void tell_held(struct sc_client *c)
{
	while (held_bytes(c) && !c->paused && !c->freed && !c->closing && !c->reconnect) {
		struct sc_client_message m;
		struct held_head head;

		memcpy(&head, c->held.data + c->held_at, sizeof(head));
		m.payload = sc_span(c->held.data + c->held_at + sizeof(head), head.len);
		m.binary = head.binary;
		m.received_us = head.received_us;
		c->held_at += sizeof(head) + head.len;
		c->batch_due = true;
		if (c->hooks.message)
			c->hooks.message(c->arg, &m);
	}
	if (c->freed)
		return;
	if (!held_bytes(c) || c->closing || c->reconnect) {
		sc_bytes_clear(&c->held);
		c->held_at = 0;
		if (c->held.cap > 4 * SC_CLIENT_READ_SIZE)
			sc_bytes_done(&c->held);
	}
	sc_client_batch(c);
}

/* The policy. */

int64_t sc_client_backoff_ms(const struct sc_client_retry *retry, int64_t failures, uint64_t random)
{
	int64_t start = retry->start_ms > 0 ? retry->start_ms : 1;
	int64_t limit = start, ceiling = retry->ceiling_ms > start ? retry->ceiling_ms : start;

	for (int64_t i = 1; i < failures && limit < ceiling; i++)
		limit = limit > ceiling / 2 ? ceiling : 2 * limit;
	/* Full jitter, with a floor so that a run of small numbers is no storm. */
	return limit / 10 + (int64_t)(random % (uint64_t)(limit - limit / 10 + 1));
}

/* Would another try get the same answer? */
static bool hopeless(const struct sc_client *c, const struct sc_link *l)
{
	int s = l->status;

	if (c->o.retry.refused)
		return false;
	if (l->cause.code == SC_E_NOAUTH || s == 401 || s == 403 || s == 404 || s == 407 ||
	    s == 410)
		return true;
	if (c->ever_open) /* it worked before: what is wrong now may pass */
		return false;
	if (l->cause.code == SC_E_CONFIG || l->cause.code == SC_E_USAGE ||
	    l->cause.code == SC_E_NOLOG || l->final)
		return true;
	return s && s != 408 && s != 425 && s != 429 && s < 500;
}

static int64_t next_wait(struct sc_client *c, const struct sc_link *l, int64_t now_us)
{
	const struct sc_client_retry *r = &c->o.retry;
	uint64_t random;
	int64_t wait;

	if (r->tries >= 0 && c->failures > r->tries)
		return -1;
	sc_random(&random, sizeof(random));
	wait = sc_client_backoff_ms(r, c->failures, random);
	if (l->retry_after_ms > wait)
		wait = l->retry_after_ms;
	if (r->for_ms >= 0) { /* the last try is at the end of that time, not before it */
		int64_t left = r->for_ms - (now_us - c->trouble_since_us) / 1000;

		if (left <= 0 || l->retry_after_ms > left)
			return -1;
		if (wait > left)
			wait = left;
	}
	return wait;
}

static void finish(struct sc_client *c, const struct sc_err *err)
{
	c->over = true;
	sc_timer_stop(c->wait);
	if (c->hooks.finished)
		c->hooks.finished(c->arg, err);
}

static void finish_closed(struct sc_client *c)
{
	struct sc_err none;

	sc_err_clear(&none);
	finish(c, &none);
}

/* What to do about a server that did not answer, where the error itself does not say. */
static const char *advice(const struct sc_err *err)
{
	switch (err->errnum) {
	case ECONNREFUSED:
	case ENOENT: /* a unix socket */
		return "start the server, or correct the address";
	case EHOSTUNREACH:
	case ENETUNREACH:
	case ETIMEDOUT:
		return "check the address and the network";
	}
	return err->code == SC_E_UNAVAILABLE || err->code == SC_E_TIMEOUT
		       ? "try again later, or allow more tries with --retry"
		       : "";
}

/* The last error, with what was tried before it. */
static void give_up(struct sc_client *c, const struct sc_err *cause, bool spent, int64_t now_us)
{
	struct sc_err err = *cause;
	const char *what = advice(cause);

	if (spent && (err.code == SC_E_TIMEOUT || err.code == SC_E_NOMEM || err.code == SC_E_IO ||
		      err.code == SC_OK))
		err.code = SC_E_UNAVAILABLE;
	sc_err_field_int(&err, "tries", c->failures);
	if (spent && !err.next[0] && c->failures > 1)
		sc_err_next(&err, "gave up after %lld tries in %lld s%s%s", (long long)c->failures,
			    (long long)((now_us - c->trouble_since_us) / 1000000),
			    *what ? "; " : "", what);
	else if (spent && !err.next[0] && *what)
		sc_err_next(&err, "%s", what);
	finish(c, &err);
}

static void fill_ended(const struct sc_client *c, const struct sc_link *l, int64_t now,
		       struct sc_client_ended *e)
{
	*e = (struct sc_client_ended){
		.was_open = l->opened_us != 0,
		.err = &l->cause,
		.status = l->status,
		.headers = l->refusal_fields,
		.close_code = l->opened_us == 0 ? 0
			      : l->close_got    ? l->close_code
						: 1006,
		.close_reason = sc_span(l->close_reason, l->close_reason_len),
		.clean = l->close_got && l->close_sent,
		.where = l->where,
		.address = l->address,
		.lasted_ms = (now - (l->opened_us ? l->opened_us : l->begun_us)) / 1000,
		.messages = l->messages,
		.bytes = l->bytes,
		.failures = c->failures,
	};
}

static void tell_ended(struct sc_client *c)
{
	struct sc_link *l = c->link;
	struct sc_client_ended ended;
	int64_t now = sc_mono_us(), usual = 0;
	enum sc_client_next next = SC_CLIENT_STANDARD;
	bool asked = c->closing || c->reconnect, no_hope;

	c->reconnect = false;
	if (l->opened_us) {
		c->down_since_us = now;
		if (l->proved || now - l->opened_us >= c->o.retry.stable_ms * 1000) {
			c->failures = 0;
			c->trouble_since_us = now;
		}
	}
	no_hope = !asked && hopeless(c, l);
	if (!asked) {
		c->failures++;
		usual = next_wait(c, l, now);
	}
	fill_ended(c, l, now, &ended);
	ended.wait_ms = c->closing || no_hope ? -1 : usual;
	if (c->hooks.ended)
		next = c->hooks.ended(c->arg, &ended);
	c->link = NULL;
	if (c->freed) {
		sc_link_free(l);
		return;
	}
	if (c->closing) {
		finish_closed(c);
	} else if (next == SC_CLIENT_REST && !c->reconnect) {
		c->failures = 0;
		c->down_since_us = c->trouble_since_us = -1;
	} else if (next == SC_CLIENT_AT_ONCE || asked || c->reconnect) {
		if (!asked)
			c->failures--;
		c->reconnect = false;
		sc_timer_start(c->wait, 0);
	} else if (next == SC_CLIENT_END) {
		finish(c, &l->cause);
	} else if (usual < 0 || (no_hope && next == SC_CLIENT_STANDARD)) {
		give_up(c, &l->cause, usual < 0 && !no_hope, now);
	} else {
		sc_timer_start(c->wait, usual);
	}
	sc_link_free(l);
}

static void connect_now(struct sc_client *c)
{
	struct sc_err err;

	c->start = false;
	sc_timer_stop(c->wait);
	if (c->link || c->over)
		return;
	if (sc_link_new(c, &c->link, &err) < 0) {
		finish(c, &err);
		return;
	}
	if (c->trouble_since_us < 0)
		c->trouble_since_us = c->link->begun_us;
	sc_link_begin(c->link);
	if (c->hooks.connecting)
		c->hooks.connecting(c->arg, c->link->where);
}

static void wait_due(void *arg)
{
	struct sc_client *c = arg;

	sc_client_enter(c);
	connect_now(c);
	sc_client_leave(c);
}

static void task_run(void *arg)
{
	struct sc_client *c = arg;

	sc_client_enter(c);
	tell_held(c);
	if (c->freed || c->over)
		goto out;
	if (c->link) {
		if (c->link->state != SC_LINK_OVER)
			sc_link_resume(c->link);
		else if (!held_bytes(c))
			tell_ended(c);
	} else if (c->closing) {
		finish_closed(c);
	} else if (c->start) {
		connect_now(c);
	}
out:
	sc_client_leave(c);
}

/* From the link. */

void sc_client_link_over(struct sc_client *c)
{
	sc_task_queue(c->loop, &c->task);
}

static void warn_about(struct sc_client *c, const struct sc_link *l)
{
	const struct sc_url *u = &l->url;
	bool secret = c->o.token_file || c->o.user_file || u->user;
	bool near = u->socket || !strcmp(u->host, "localhost") || !strncmp(u->host, "127.", 4) ||
		    !strcmp(u->host, "::1");

	if (c->o.insecure && u->tls)
		sc_client_warn(c, "the server's certificate is not checked (insecure): anyone in "
				  "between can read and "
				  "change what is sent");
	if (secret && !u->tls && !near)
		sc_client_warn(c, "the token or password was sent without TLS: anyone in between "
				  "can read it");
}

/* The path stands in front of a " through proxy ...". */
static void put_place(const struct sc_link *l, char *ret_text, size_t size)
{
	const char *proxy = strstr(l->where, " through ");
	size_t len = proxy ? (size_t)(proxy - l->where) : strlen(l->where);

	snprintf(ret_text, size, "%.*s%s%.*s%s", (int)len, l->where, l->url.socket ? ":" : "",
		 (int)strcspn(l->url.target, "?"), l->url.target, proxy ? proxy : "");
}

void sc_client_link_opened(struct sc_client *c, const struct sc_httphead *head)
{
	struct sc_link *l = c->link;
	int64_t now = l->opened_us;
	char place[SC_CLIENT_WHERE];
	struct sc_client_opened opened = {
		.where = l->where,
		.place = place,
		.address = l->address,
		.subprotocol = l->subprotocol,
		.compressed = l->compressed,
		.headers = head->fields,
		.took_ms = (now - l->begun_us) / 1000,
		.down_ms = c->down_since_us < 0 ? -1 : (now - c->down_since_us) / 1000,
		.number = ++c->number,
	};

	put_place(l, place, sizeof(place));
	if (c->number == 1)
		warn_about(c, l);
	c->ever_open |= !c->o.raw; /* else with the first bytes: so far it is only connected */
	if (c->hooks.opened)
		c->hooks.opened(c->arg, &opened);
}

/* The face. */

int sc_client_new(struct sc_loop *loop, const struct sc_client_options *options,
		  const struct sc_client_hooks *hooks, void *arg, struct sc_client **ret_client,
		  struct sc_err *err)
{
	struct sc_client *c = sc_calloc(1, sizeof(*c));
	struct sc_tls_files files = { options->ca, options->cert, options->key, options->insecure };
	int rc;

	if (!c)
		return sc_err_nomem(err, "cannot set up the client");
	c->loop = loop;
	c->hooks = *hooks;
	c->arg = arg;
	c->down_since_us = c->trouble_since_us = -1;
	c->task = (struct sc_task){ .run = task_run, .arg = c };
	sc_bytes_init(&c->held,
		      SIZE_MAX / 2); /* bounded by sc_client_full: ahead_max and one message */
	rc = sc_client_options_copy(options, &c->o, err);
	if (rc < 0)
		goto out;
	/* Files that cannot be used are told now, not at the first wss://. */
	if (files.ca || files.cert || files.key)
		rc = sc_tls_context_new(&files, &c->tls, err);
	if (rc < 0)
		goto out;
	c->in = sc_malloc(SC_CLIENT_READ_SIZE);
	if (!c->in) {
		rc = sc_err_nomem(err, "cannot set up the client");
		goto out;
	}
	rc = sc_timer_new(loop, wait_due, c, &c->wait, err);
	if (rc < 0)
		goto out;
	c->start = true;
	sc_task_queue(loop, &c->task);
	*ret_client = c;
	return 0;
out:
	destroy(c);
	return rc;
}

void sc_client_free(struct sc_client *c)
{
	if (!c || c->freed)
		return;
	c->freed = true;
	memset(&c->hooks, 0, sizeof(c->hooks));
	if (c->depth == 0)
		destroy(c);
}

bool sc_client_is_open(const struct sc_client *c)
{
	return c->link && c->link->state == SC_LINK_OPEN && !c->freed;
}

int sc_client_send(struct sc_client *c, struct sc_span payload, bool binary, struct sc_err *err)
{
	if (!sc_client_is_open(c))
		return sc_err_set(err, SC_E_UNAVAILABLE, "cannot send a message",
				  "the connection is not open");
	return sc_link_send(c->link, payload, binary, err);
}

uint64_t sc_client_unsent(const struct sc_client *c)
{
	return c->link ? c->link->out.len - c->link->out_at : 0;
}

void sc_client_pause(struct sc_client *c)
{
	c->paused = true;
}

void sc_client_resume(struct sc_client *c)
{
	if (!c->paused)
		return;
	c->paused = false;
	sc_task_queue(c->loop, &c->task);
}

bool sc_client_paused(const struct sc_client *c)
{
	return c->paused;
}

static void end_link(struct sc_client *c, uint16_t code, const char *reason)
{
	if (c->link && c->link->state < SC_LINK_CLOSING)
		sc_link_close(c->link, code, reason);
	sc_task_queue(c->loop, &c->task);
}

void sc_client_close(struct sc_client *c, uint16_t code, const char *reason)
{
	if (c->closing || c->over || c->freed)
		return;
	c->closing = true;
	c->start = false;
	sc_timer_stop(c->wait);
	end_link(c, code, reason);
}

void sc_client_reconnect(struct sc_client *c)
{
	if (c->closing || c->over || c->freed)
		return;
	if (!c->link) {
		c->start = true;
		sc_task_queue(c->loop, &c->task);
		return;
	}
	c->reconnect = true;
	end_link(c, 1000, NULL);
}

int sc_client_set_url(struct sc_client *c, const char *url, struct sc_err *err)
{
	struct sc_url parsed = { 0 };
	size_t size = strlen(url) + 1;
	char *copy;
	int rc = sc_url_parse(url, &parsed, err);

	if (rc < 0)
		return rc;
	sc_url_done(&parsed);
	copy = sc_malloc(size);
	if (!copy)
		return sc_err_nomem(err, "cannot change the URL");
	memcpy(copy, url, size);
	explicit_bzero((char *)(uintptr_t)c->o.url, strlen(c->o.url));
	free((char *)(uintptr_t)c->o.url);
	c->o.url = copy;
	return 0;
}

void sc_client_proved(struct sc_client *c)
{
	if (c->link)
		c->link->proved = true;
}

void sc_client_hold_off(struct sc_client *c, int64_t least_ms)
{
	if (c->link && c->link->retry_after_ms < least_ms)
		c->link->retry_after_ms = least_ms;
}
