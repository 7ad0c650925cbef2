/* msg/node_link.c: a node at its broker. */
#include "msg/node_link.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/file.h"

#define STOPPING_MS 1500 /* after `stopping`: the broker closes after one second */
#define SEND_AHEAD (4u << 20)

/* In front of each held message, unaligned. */
struct held_head {
	size_t len;
	uint64_t connection;
};

struct sc_node_link {
	struct sc_client *client;
	struct sc_node *node;
	struct sc_node_link_hooks hooks;
	void *arg;
	bool retry;
	uint64_t connection;   /* the present one's number, 0 between them */
	struct sc_bytes frame; /* made and not taken by the client yet */
	struct sc_bytes held;
	size_t held_at;
	/* the message at hand */
	bool busy, handing;
	char uid[SC_MSG_UID_MAX];
	size_t uid_len;
	uint64_t uid_connection;
	bool failed, over;
	bool other_order;  /* it may be that the peer speaks it */
	struct sc_err err; /* why it failed, when that is not what the client says */
};

static void fail(struct sc_node_link *l, const struct sc_err *err)
{
	if (!l->failed) {
		l->failed = true;
		l->err = *err;
	}
	sc_client_close(l->client, 1000, "");
}

/* Send what there is to be sent, as far as the client takes it. */
static void pump(struct sc_node_link *l)
{
	struct sc_err err;
	int rc = 1;

	while (l->connection && sc_client_is_open(l->client)) {
		if (l->frame.len == 0)
			rc = sc_node_next(l->node, &l->frame, &err);
		if (rc == 0)
			return;
		if (rc > 0)
			rc = sc_client_send(l->client, sc_span(l->frame.data, l->frame.len), true,
					    &err);
		if (rc == SC_E_BUSY)
			return; /* `drained` goes on with it */
		sc_bytes_clear(&l->frame);
		if (rc < 0) {
			fail(l, &err);
			return;
		}
	}
}

/* Delivered messages */

static void hand_over(struct sc_node_link *l, const struct sc_msg *msg, uint64_t connection)
{
	memcpy(l->uid, msg->uid.data, msg->uid.len);
	l->uid_len = msg->uid.len;
	l->uid_connection = connection;
	l->busy = true;
	l->hooks.message(l->arg, msg);
}

static void hand_over_held(struct sc_node_link *l)
{
	struct sc_msg_reading reading;
	struct held_head head;

	if (l->handing)
		return;
	l->handing = true;
	while (!l->busy && !l->failed && l->held_at < l->held.len) {
		const char *at = l->held.data + l->held_at;

		memcpy(&head, at, sizeof(head));
		l->held_at += sizeof(head) + head.len;
		/* it was read before: it is one */
		(void)sc_msg_read(sc_span(at + sizeof(head), head.len), &reading);
		hand_over(l, &reading.msg, head.connection);
	}
	l->handing = false;
	if (l->held_at == l->held.len) {
		sc_bytes_clear(&l->held);
		l->held_at = 0;
	}
	if (sc_client_paused(l->client) && l->held.len - l->held_at < SC_NODE_LINK_HELD)
		sc_client_resume(l->client);
}

static int hold(struct sc_node_link *l, struct sc_span payload, struct sc_err *err)
{
	struct held_head head = { 0 };

	head.len = payload.len;
	head.connection = l->connection;
	if (!l->handing && l->held_at > l->held.len / 2) {
		sc_bytes_drop(&l->held, l->held_at);
		l->held_at = 0;
	}
	if (sc_bytes_reserve(&l->held, sizeof(head) + payload.len) < 0)
		return sc_err_nomem(err, "cannot hold a message");
	(void)sc_bytes_put(&l->held, &head, sizeof(head));
	(void)sc_bytes_put(&l->held, payload.data, payload.len);
	if (l->held.len - l->held_at >= SC_NODE_LINK_HELD)
		sc_client_pause(l->client);
	return 0;
}

static void on_message(void *arg, const struct sc_client_message *m)
{
	struct sc_node_link *l = arg;
	struct sc_node_news news;
	struct sc_err err;
	int rc = 0;

	if (l->failed)
		return;
	if (!m->binary)
		rc = sc_err_set(&err, SC_E_PROTOCOL, "cannot understand the broker",
				"it sent a text message");
	if (rc == 0)
		rc = sc_node_take(l->node, m->payload, &news, &err);
	if (rc == 0)
		sc_client_proved(l->client);
	if (rc == 0 && news.kind == SC_NODE_DELIVERED) {
		if (l->busy || l->held.len)
			rc = hold(l, m->payload, &err);
		else
			hand_over(l, &news.msg, l->connection);
	} else if (rc == 0) {
		if (news.kind == SC_NODE_STOPPING)
			sc_client_hold_off(l->client, STOPPING_MS + (int64_t)sc_random_below(200));
		if (l->hooks.news)
			l->hooks.news(l->arg, &news);
	}
	if (rc < 0)
		fail(l, &err);
	else
		pump(l);
}

/* The connection */

static void on_opened(void *arg, const struct sc_client_opened *opened)
{
	struct sc_node_link *l = arg;

	l->connection = opened->number;
	sc_bytes_clear(&l->frame);
	sc_node_opened(l->node);
	if (l->hooks.opened)
		l->hooks.opened(l->arg, opened);
	pump(l);
}

/* Closed for what we said or did. The first three would come again. */
static bool broke_off(const struct sc_node_link *l, uint16_t code)
{
	if (code == 1003 || code == 1007 || code == 1009)
		return true;
	return !l->retry && (code == 1008 || code == 1011);
}

static enum sc_client_next on_ended(void *arg, const struct sc_client_ended *ended)
{
	struct sc_node_link *l = arg;
	enum sc_client_next next = SC_CLIENT_STANDARD;
	struct sc_client_ended told = *ended;

	l->connection = 0;
	if (l->failed)
		next = SC_CLIENT_END;
	if (ended->was_open && next == SC_CLIENT_STANDARD) {
		if (sc_node_closed(l->node, ended->close_code)) {
			next = SC_CLIENT_AT_ONCE;
			told.wait_ms = 0;
		} else if (ended->close_code == 1000 && !sc_node_answered(l->node)) {
			l->other_order = true;
		} else if (broke_off(l, ended->close_code)) {
			l->failed = true;
			l->err = *ended->err;
			l->err.code = SC_E_PROTOCOL;
			next = SC_CLIENT_END;
		}
	}
	if (next == SC_CLIENT_END)
		told.wait_ms = -1;
	if (l->hooks.ended)
		l->hooks.ended(l->arg, &told);
	return next;
}

static void on_finished(void *arg, const struct sc_err *err)
{
	struct sc_node_link *l = arg;
	struct sc_err told = l->failed ? l->err : *err;

	l->over = true;
	/* more to the point than what is said of any connection that was lost */
	if (l->other_order &&
	    (told.code == SC_E_UNAVAILABLE ? !told.errnum : told.code && !told.next[0]))
		sc_err_next(&told, "a server of the published package speaks the other order: "
				   "--order auto finds out");
	if (told.code == SC_E_NOLOG && !told.errnum) /* 404: nothing to connect to; not a file */
		told.code = SC_E_UNAVAILABLE;
	if (l->hooks.finished)
		l->hooks.finished(l->arg, &told);
}

static void on_drained(void *arg)
{
	pump(arg);
}

static void on_warning(void *arg, const char *text)
{
	struct sc_node_link *l = arg;

	if (l->hooks.warning)
		l->hooks.warning(l->arg, text);
}

/* ROOT/ENDPOINT, the endpoint as one segment whatever is in it. */
static int make_url(const char *root, const char *endpoint, struct sc_bytes *url,
		    struct sc_err *err)
{
	static const char plain[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_~!*";
	size_t len = strlen(root);
	int rc;

	if (strpbrk(root, "?#")) {
		sc_err_set(err, SC_E_USAGE, "cannot use URL", "it has a query or a fragment");
		return sc_err_next(err, "give the broker's root: ws://HOST:PORT");
	}
	while (len && root[len - 1] == '/')
		len--;
	rc = sc_bytes_put(url, root, len);
	if (rc == 0 && strncmp(root, "ws+unix:", 8) == 0 && !strchr(root + 8, ':'))
		rc = sc_bytes_putc(url, ':');
	if (rc == 0)
		rc = sc_bytes_putc(url, '/');
	for (const char *c = endpoint; rc == 0 && *c; c++)
		rc = strchr(plain, *c) ? sc_bytes_putc(url, *c)
				       : sc_bytes_putf(url, "%%%02X", (unsigned char)*c);
	return rc < 0 || !sc_bytes_str(url) ? sc_err_nomem(err, "cannot connect") : 0;
}

static int make_token(const char *token, struct sc_bytes *header, struct sc_err *err)
{
	for (const char *c = token; *c; c++)
		if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 0x7f)
			return sc_err_set(err, SC_E_CONFIG, "cannot use the token",
					  "it has a character that no bearer token has");
	if (sc_bytes_putf(header, "Authorization: Bearer %s", token) < 0 || !sc_bytes_str(header))
		return sc_err_nomem(err, "cannot connect");
	return 0;
}

static int connect_it(struct sc_node_link *l, struct sc_loop *loop,
		      const struct sc_node_link_options *o, struct sc_bytes *url,
		      struct sc_bytes *header, struct sc_err *err)
{
	static const struct sc_client_hooks hooks = {
		.opened = on_opened,
		.message = on_message,
		.drained = on_drained,
		.ended = on_ended,
		.finished = on_finished,
		.warning = on_warning,
	};
	struct sc_client_options c = o->connection;
	const char *headers[1];
	int rc = make_url(o->connection.url, o->endpoint, url, err);

	if (rc == 0 && o->token)
		rc = make_token(o->token, header, err);
	if (rc < 0)
		return rc;
	if (o->token) {
		headers[0] = header->data;
		c.headers = headers;
		c.header_count = 1;
	}
	c.url = url->data;
	if (c.send_max < SEND_AHEAD)
		c.send_max = SEND_AHEAD;
	c.retry = (struct sc_client_retry){
		.tries = o->retry ? -1 : 0,
		.for_ms = -1,
		.start_ms = 200,
		.ceiling_ms = 10000,
		.stable_ms = 5000,
	};
	return sc_client_new(loop, &c, &hooks, l, &l->client, err);
}

int sc_node_link_new(struct sc_loop *loop, const struct sc_node_link_options *options,
		     const struct sc_node_link_hooks *hooks, void *arg,
		     struct sc_node_link **ret_link, struct sc_err *err)
{
	struct sc_node_link *l = sc_calloc(1, sizeof(*l));
	struct sc_bytes url, header;
	int rc;

	if (!l)
		return sc_err_nomem(err, "cannot set up the node");
	l->hooks = *hooks;
	l->arg = arg;
	l->retry = options->retry;
	sc_bytes_init(&l->frame, SIZE_MAX / 2);
	sc_bytes_init(&l->held, SIZE_MAX / 2);
	sc_bytes_init(&url, 1 << 16);
	sc_bytes_init(&header, 1 << 16);
	rc = sc_node_new(options->order, options->window, &l->node, err);
	if (rc == 0)
		rc = connect_it(l, loop, options, &url, &header, err);
	sc_bytes_done(&url);
	if (header.len)
		explicit_bzero(header.data, header.len);
	sc_bytes_done(&header);
	if (rc < 0)
		sc_node_link_free(l);
	else
		*ret_link = l;
	return rc;
}

void sc_node_link_free(struct sc_node_link *l)
{
	if (!l)
		return;
	sc_client_free(l->client);
	sc_node_free(l->node);
	sc_bytes_done(&l->frame);
	sc_bytes_done(&l->held);
	free(l);
}

const struct sc_node *sc_node_link_node(const struct sc_node_link *l)
{
	return l->node;
}

int sc_node_link_put(struct sc_node_link *l, const struct sc_msg *msg, uint64_t tag,
		     struct sc_err *err)
{
	int rc = sc_node_put(l->node, msg, tag, err);

	if (rc == 0)
		pump(l);
	return rc;
}

int sc_node_link_keep(struct sc_node_link *l, const struct sc_msg *msg, uint64_t tag,
		      struct sc_err *err)
{
	int rc = sc_node_keep(l->node, msg, tag, err);

	if (rc == 0)
		pump(l);
	return rc;
}

int sc_node_link_say(struct sc_node_link *l, const struct sc_msg *msg, struct sc_err *err)
{
	struct sc_bytes frame;
	int rc;

	if (!l->connection || !sc_client_is_open(l->client))
		return 0;
	sc_bytes_init(&frame, SIZE_MAX / 2);
	rc = sc_node_write(l->node, msg, &frame, err);
	if (rc == 0)
		rc = sc_client_send(l->client, sc_span(frame.data, frame.len), true, err);
	sc_bytes_done(&frame);
	return rc;
}

int sc_node_link_ack(struct sc_node_link *l, struct sc_err *err)
{
	int rc;

	if (!l->busy || !l->connection || l->uid_connection != l->connection)
		return 0;
	rc = sc_node_ack(l->node, sc_span(l->uid, l->uid_len), err);
	if (rc == 0)
		pump(l);
	return rc;
}

void sc_node_link_done(struct sc_node_link *l)
{
	l->busy = false;
	hand_over_held(l);
}

struct sc_span sc_node_link_holds(const struct sc_node_link *l)
{
	return sc_span(l->uid, l->busy ? l->uid_len : 0);
}

void sc_node_link_close(struct sc_node_link *l)
{
	if (l->over)
		return;
	pump(l);
	if (sc_client_paused(l->client))
		sc_client_resume(l->client);
	sc_client_close(l->client, 1000, "");
}
