/* net/client_open.c: a connection's way until it is a WebSocket: look-up, connect, proxy, TLS,
 * upgrade. */
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "net/client_internal.h"

#define READS_A_TURN 16

static void deadline(struct sc_link *l, int64_t after_ms)
{
	l->deadline_us = after_ms > 0 ? sc_mono_us() + after_ms * 1000 : INT64_MAX;
	sc_link_arm(l);
}

void sc_link_late(struct sc_link *l)
{
	static const char *const steps[] = {
		[SC_LINK_DIAL] = "to connect",
		[SC_LINK_PROXY_TLS] = "for TLS with the proxy",
		[SC_LINK_PROXY] = "for the proxy's answer",
		[SC_LINK_TLS] = "for TLS",
	};
	struct sc_err err;

	if (l->state == SC_LINK_UPGRADE) {
		sc_err_set(&err, SC_E_TIMEOUT, "cannot open a WebSocket at",
			   "no answer to the upgrade within %lld ms",
			   (long long)l->client->o.upgrade_ms);
	} else {
		sc_err_set(&err, SC_E_TIMEOUT, "cannot connect to", "%lld ms were not enough %s",
			   (long long)l->client->o.connect_ms, steps[l->state]);
	}
	sc_link_fail(l, &err);
}

static void begin_upgrade(struct sc_link *l)
{
	static const struct sc_httphead none;
	struct sc_err err;

	if (l->client->o.raw) {
		sc_link_opened(l, &none, false, false);
		return;
	}
	l->state = SC_LINK_UPGRADE;
	if (sc_request_build(l, &l->out, &err) < 0) {
		sc_link_fail(l, &err);
		return;
	}
	deadline(l, l->client->o.upgrade_ms);
}

static void begin_tls(struct sc_link *l)
{
	struct sc_client *c = l->client;
	struct sc_err err;

	if (!l->url.tls) {
		begin_upgrade(l);
		return;
	}
	l->state = SC_LINK_TLS;
	if (sc_tls_new(c->tls, c->o.server_name ? c->o.server_name : l->url.host, l->fd,
		       l->proxy_tls, &l->tls, &err) < 0)
		sc_link_fail(l, &err);
	else
		l->top = l->tls;
}

static void begin_talk(struct sc_link *l)
{
	struct sc_err err;
	int rc;

	l->state = SC_LINK_PROXY;
	rc = sc_proxy_begin(&l->talk, &l->proxy, l->url.host, l->url.port, &err);
	l->talking = true;
	if (rc < 0)
		sc_link_fail(l, &err);
}

static void begin_proxy(struct sc_link *l)
{
	struct sc_err err;

	if (l->proxy.kind == SC_PROXY_NONE) {
		begin_tls(l);
	} else if (!l->proxy.url.tls) {
		begin_talk(l);
	} else {
		l->state = SC_LINK_PROXY_TLS;
		if (sc_tls_new(l->client->tls, l->proxy.url.host, l->fd, NULL, &l->proxy_tls,
			       &err) < 0)
			sc_link_fail(l, &err);
		else
			l->top = l->proxy_tls;
	}
}

/* true when the handshake is done. */
static bool shake(struct sc_link *l, struct sc_tls *tls)
{
	struct sc_err err;
	int rc = sc_tls_handshake(tls, &err);

	l->read_wants_write = rc == SC_TLS_WRITE;
	if (rc == 0)
		return true;
	if (rc != SC_TLS_READ && rc != SC_TLS_WRITE) {
		l->final = sc_tls_untrusted(tls);
		sc_link_scheme_refused(l, tls, &err);
		sc_link_fail(l, &err);
	}
	return false;
}

/* More bytes behind l->in_len: 1, 0 when there are none yet; a failed connection is over. */
static int read_more(struct sc_link *l, const char *missing)
{
	struct sc_err err;
	ssize_t n = sc_link_read(l, l->in + l->in_len, SC_CLIENT_READ_SIZE - l->in_len, &err);

	if (n == SC_TLS_READ || n == SC_TLS_WRITE)
		return 0;
	if (n > 0) {
		l->in_len += (size_t)n;
		return 1;
	}
	if (n == 0)
		sc_err_set(&err, SC_E_UNAVAILABLE, "cannot open a WebSocket at",
			   "the connection ended before %s", missing);
	sc_link_fail(l, &err);
	return 0;
}

static bool flush(struct sc_link *l)
{
	struct sc_err err;

	if (sc_link_flush(l, &err) < 0) {
		sc_link_fail(l, &err);
		return false;
	}
	return true;
}

/* true when something changed and the next step may be tried. */
static bool talk(struct sc_link *l)
{
	struct sc_err err;
	size_t used = 0;
	int rc;

	if (l->talk.out.len) {
		if (sc_bytes_put(&l->out, l->talk.out.data, l->talk.out.len) < 0) {
			sc_err_nomem(&err, "cannot ask the proxy");
			sc_link_fail(l, &err);
			return false;
		}
		explicit_bzero(l->talk.out.data, l->talk.out.len);
		sc_bytes_clear(&l->talk.out);
	}
	if (!flush(l) || read_more(l, "the proxy's answer") == 0)
		return false;
	if (sc_link_scheme_wrong(l, sc_span(l->in, l->in_len), &err)) {
		sc_link_fail(l, &err);
		return false;
	}
	rc = sc_proxy_feed(&l->talk, l->in, l->in_len, &used, &err);
	if (rc == 1 && used < l->in_len)
		rc = sc_err_set(&err, SC_E_PROTOCOL, "cannot use the proxy",
				"it sent more than its answer");
	l->in_at = l->in_len = 0;
	if (rc < 0)
		sc_link_fail(l, &err);
	if (rc == 1)
		begin_tls(l);
	return l->state != SC_LINK_OVER;
}

static void upgrade(struct sc_link *l)
{
	struct sc_httphead head;
	struct sc_err err;
	bool compressed = false, takeover = false;
	int64_t n;
	int rc;

	if (!flush(l))
		return;
	for (int reads = 0;;) {
		if (sc_link_scheme_wrong(l, sc_span(l->in + l->in_at, l->in_len - l->in_at),
					 &err)) {
			sc_link_fail(l, &err);
			return;
		}
		n = sc_httphead_parse(l->in + l->in_at, l->in_len - l->in_at, SC_CLIENT_HEAD_MAX,
				      &head, &err);
		if (n < 0) {
			sc_link_fail(l, &err);
			return;
		}
		if (n > 0) {
			l->in_at += (size_t)n;
			if (head.status >= 200 || head.status == 101)
				break;
			continue; /* 100 and 103 come before the answer */
		}
		if (l->in_at) {
			memmove(l->in, l->in + l->in_at, l->in_len - l->in_at);
			l->in_len -= l->in_at;
			l->in_at = 0;
		}
		if (reads++ == READS_A_TURN) { /* of a server that says 100 and 103 without end */
			sc_task_queue(l->client->loop, &l->again);
			return;
		}
		if (read_more(l, "the answer to the upgrade") == 0)
			return;
	}
	rc = sc_request_judge(l, &head, sc_span(l->in + l->in_at, l->in_len - l->in_at),
			      &compressed, &takeover, &err);
	if (rc < 0)
		sc_link_fail(l, &err);
	else
		sc_link_opened(l, &head, compressed, takeover);
}

void sc_link_advance(struct sc_link *l)
{
	bool on = true;

	while (on) {
		switch (l->state) {
		case SC_LINK_PROXY_TLS:
			on = shake(l, l->proxy_tls);
			if (on)
				begin_talk(l);
			break;
		case SC_LINK_PROXY:
			on = talk(l);
			break;
		case SC_LINK_TLS:
			on = shake(l, l->tls);
			if (on)
				begin_upgrade(l);
			break;
		case SC_LINK_UPGRADE:
			upgrade(l);
			on = false;
			break;
		default:
			on = false;
		}
	}
	sc_link_watch(l);
}

static void dialed(void *arg, int fd, const char *address, const struct sc_err *err)
{
	struct sc_link *l = arg;
	struct sc_client *c = l->client;
	int64_t alive_ms = (c->o.ping_ms > 0 ? c->o.ping_ms : 20000) +
			   (c->o.pong_ms > 0 ? c->o.pong_ms : 20000);
	unsigned limit_ms = alive_ms < INT_MAX ? (unsigned)alive_ms : INT_MAX;

	sc_client_enter(c);
	sc_dial_free(l->dial);
	l->dial = NULL;
	if (fd < 0) {
		sc_link_fail(l, err);
	} else {
		l->fd = fd;
		snprintf(l->address, sizeof(l->address), "%s", address);
		/* Unanswered pings end the connection also while we do not read. Fails on a unix
		 * socket. */
		(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, sizeof(limit_ms));
		begin_proxy(l);
		sc_link_advance(l);
	}
	sc_client_leave(c);
}

static int choose_proxy(struct sc_link *l, struct sc_err *err)
{
	const char *asked = l->client->o.proxy;
	char at[300];
	size_t n;
	int rc;

	if (l->url.socket)
		rc = 0;
	else
		rc = asked ? sc_proxy_parse(asked, &l->proxy, err)
			   : sc_proxy_from_env(&l->url, &l->proxy, err);
	sc_url_where(&l->url, l->where, sizeof(l->where));
	if (rc < 0 || l->proxy.kind == SC_PROXY_NONE)
		return rc;
	sc_url_where(&l->proxy.url, at, sizeof(at));
	n = strlen(l->where);
	snprintf(l->where + n, sizeof(l->where) - n, " through proxy %s", at);
	return 0;
}

void sc_link_begin(struct sc_link *l)
{
	struct sc_client *c = l->client;
	const struct sc_url *to = &l->url;
	struct sc_err err;
	int rc = sc_url_parse(c->o.url, &l->url, &err);

	if (rc == 0)
		rc = choose_proxy(l, &err);
	if (rc == 0 && !c->tls && (l->url.tls || l->proxy.url.tls)) {
		struct sc_tls_files files = { c->o.ca, c->o.cert, c->o.key, c->o.insecure };

		rc = sc_tls_context_new(&files, &c->tls, &err);
	}
	if (rc == 0) {
		if (l->proxy.kind != SC_PROXY_NONE)
			to = &l->proxy.url;
		rc = sc_dial_new(c->loop, to->host, to->port, to->socket, dialed, l, &l->dial,
				 &err);
	}
	if (rc < 0)
		sc_link_fail(l, &err);
	else
		deadline(l, c->o.connect_ms);
}
