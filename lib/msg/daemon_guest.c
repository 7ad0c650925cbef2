/* msg/daemon_guest.c: one connection: what it sends goes to the broker, and the broker's to it. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "msg/daemon_internal.h"
#include "net/frame.h"

#define PART_BYTES \
	65536u /* larger messages go in frames of that: no more than one is ever copied */
#define AFTER_PAUSE_BYTES 16384u /* a node that does not take its acks is not read any more */
#define AFTER_MAX_BYTES ((size_t)32 << 20)

/* To the node. */

static void lose(struct sc_daemon_guest *g)
{
	sc_conn_abort(g->conn); /* `closed` follows, and the node leaves */
}

/* It takes nothing now, whatever it has acknowledged: other nodes of its endpoint get the next
 * message. */
static void block(struct sc_daemon_guest *g)
{
	sc_conn_want_write(g->conn);
	if (g->blocked || !g->node)
		return;
	g->blocked = true;
	sc_broker_blocked(g->daemon->broker, g->node, true);
}

static void unblock(struct sc_daemon_guest *g)
{
	if (!g->blocked || !g->node)
		return;
	g->blocked = false;
	sc_daemon_now(g->daemon);
	sc_broker_blocked(g->daemon->broker, g->node, false);
}

static void wait_for_it(struct sc_daemon_guest *g)
{
	block(g);
	if (!g->paused && g->after.len > AFTER_PAUSE_BYTES) {
		g->paused = true;
		sc_conn_pause(g->conn);
	}
}

static void on_control(void *arg, void *user, struct sc_span bytes)
{
	struct sc_daemon_guest *g = user;

	(void)arg;
	if (!g->large && g->after.len == 0 && sc_conn_write_message(g->conn, SC_BINARY, bytes))
		return;
	if (sc_frame_put(&g->after, SC_FRAME_BINARY, true, false, false, bytes) < 0) {
		lose(g);
		return;
	}
	sc_conn_holds(g->conn, g->after.cap);
	wait_for_it(g);
}

static int on_deliver(void *arg, void *user, struct sc_parcel *parcel, enum sc_msg_order order)
{
	struct sc_daemon_guest *g = user;
	struct sc_span form = sc_parcel_form(parcel, order);

	(void)arg;
	if (!form.data) {
		lose(g);
		return SC_E_NOMEM;
	}
	if (form.len <= PART_BYTES / 16) {
		on_control(arg, user, form);
		sc_conn_hurry(g->conn); /* before the sender's ack, which is for later */
		return 0;
	}
	/* the window is one message, and an ack that comes before all of it is sent opens none */
	g->large = sc_parcel_ref(parcel);
	g->large_sent = 0;
	g->large_order = order;
	/* what waits already was meant to come before: it is short, and acks know no order */
	block(g);
	return 0;
}

/* True when all of it is with the socket. */
static bool write_large(struct sc_daemon_guest *g)
{
	struct sc_daemon *d = g->daemon;
	struct sc_span form = sc_parcel_form(g->large, g->large_order);

	while (g->large_sent < form.len) {
		size_t left = form.len - g->large_sent, n = left < PART_BYTES ? left : PART_BYTES;
		enum sc_frame_kind kind = g->large_sent ? SC_FRAME_MORE : SC_FRAME_BINARY;

		sc_bytes_clear(&d->frame);
		if (sc_frame_put(&d->frame, kind, n == left, false, false,
				 sc_span(form.data + g->large_sent, n)) < 0) {
			lose(g);
			return false;
		}
		/* one frame: all of it or nothing */
		if (sc_conn_write_frames(g->conn, d->frame.data, d->frame.len) == 0)
			return false;
		g->large_sent += n;
	}
	sc_parcel_unref(g->large);
	g->large = NULL;
	return true;
}

static bool write_after(struct sc_daemon_guest *g)
{
	size_t n;

	if (g->after.len == 0)
		return true;
	n = sc_conn_write_frames(g->conn, g->after.data, g->after.len);
	sc_bytes_drop(&g->after, n);
	if (g->after.len > 0)
		return false;
	sc_bytes_done(&g->after);
	sc_conn_holds(g->conn, 0);
	return true;
}

static void on_writable(void *arg, struct sc_conn *conn)
{
	struct sc_daemon_guest *g = sc_conn_user(conn);
	struct sc_daemon *d = arg;
	bool clear = (!g->large || write_large(g)) && write_after(g);

	if (!clear) {
		sc_conn_want_write(conn);
		return;
	}
	if (g->paused) {
		g->paused = false;
		sc_conn_resume(conn);
	}
	unblock(g);
	sc_daemon_look(d);
}

static bool on_leaves(void *arg, void *user)
{
	(void)arg;
	return sc_conn_leaves(((struct sc_daemon_guest *)user)->conn);
}

static bool on_has_room(void *arg, void *user, size_t bytes)
{
	struct sc_daemon_guest *g = user;

	(void)arg;
	if (sc_conn_has_room(g->conn, bytes))
		return true;
	sc_conn_refused(g->conn);
	return false;
}

static void on_close(void *arg, void *user, int code, const char *reason)
{
	struct sc_daemon_guest *g = user;

	(void)arg;
	sc_daemon_say(g->daemon, SC_INFO, "%s is closed: %d %s", sc_conn_peer(g->conn), code,
		      reason);
	sc_conn_close(g->conn, code, sc_span_str(reason));
}

const struct sc_broker_hooks sc_daemon_broker_hooks = {
	.control = on_control,
	.deliver = on_deliver,
	.leaves = on_leaves,
	.has_room = on_has_room,
	.close = on_close,
};

/* From the node. */

static bool offers_wsmsg(struct sc_span protocols)
{
	size_t at = 0;

	while (at < protocols.len) {
		const char *comma = memchr(protocols.data + at, ',', protocols.len - at);
		size_t end = comma ? (size_t)(comma - protocols.data) : protocols.len;
		struct sc_span word = sc_span(protocols.data + at, end - at);

		while (word.len && (word.data[0] == ' ' || word.data[0] == '\t')) {
			word.data++;
			word.len--;
		}
		while (word.len &&
		       (word.data[word.len - 1] == ' ' || word.data[word.len - 1] == '\t'))
			word.len--;
		if (sc_span_is(word, "wsmsg"))
			return true;
		at = end + 1;
	}
	return false;
}

static void refuse_full(struct sc_daemon *d, struct sc_reply *reply)
{
	d->refused_full++;
	reply->status = 503;
	reply->body = d->stopping ? SC_SPAN("the broker is stopping\n")
				  : SC_SPAN("there are as many endpoints as there may be\n");
}

static void on_upgrade(void *arg, struct sc_conn *conn, const struct sc_request *request,
		       struct sc_reply *reply)
{
	struct sc_daemon *d = arg;
	struct sc_daemon_guest *g;
	char name[SC_MSG_NAME_MAX], text[SC_ULID_TEXT];
	unsigned char len;

	if (!sc_daemon_endpoint(d, request->target, name, &len)) {
		d->refused_path++;
		reply->status = 404;
		reply->body = SC_SPAN("an endpoint is one segment of the path, 1 to 255 bytes of "
				      "UTF-8\n");
		return;
	}
	if (d->stopping || !sc_broker_admits(d->broker, sc_span(name, len))) {
		refuse_full(d, reply);
		return;
	}
	g = sc_calloc(1, sizeof(*g));
	if (!g) {
		reply->status = 503;
		return;
	}
	g->daemon = d;
	g->conn = conn;
	g->admin = sc_daemon_allow(d, request->authorization) & SC_DAEMON_ADMIN;
	g->endpoint_len = len;
	memcpy(g->endpoint, name, len);
	sc_bytes_init(&g->after, AFTER_MAX_BYTES);
	sc_daemon_now(d);
	g->uid = sc_broker_uid(d->broker);
	sc_ulid_text(&g->uid, text);
	memcpy(g->field, "x-wsmsg-node: ", 14);
	memcpy(g->field + 14, text, 26);
	memcpy(g->field + 40, "\r\n", 3);
	reply->fields = g->field;
	reply->protocol = offers_wsmsg(request->protocols) ? "wsmsg" : NULL;
	sc_conn_set_user(conn, g);
}

static void on_open(void *arg, struct sc_conn *conn)
{
	struct sc_daemon_guest *g = sc_conn_user(conn);
	struct sc_daemon *d = arg;

	sc_daemon_now(d);
	if (sc_broker_join(d->broker, sc_span(g->endpoint, g->endpoint_len), &g->uid, g->admin, g,
			   &g->node) < 0) {
		g->node = NULL;
		sc_conn_close(conn, 1011, SC_SPAN("the broker has no room for the endpoint"));
		return;
	}
	sc_daemon_say(d, SC_DEBUG, "%s is a node of '%.*s'", sc_conn_peer(conn),
		      (int)g->endpoint_len, g->endpoint);
	sc_daemon_look(d);
}

static void on_message(void *arg, struct sc_conn *conn, enum sc_message kind, struct sc_span data)
{
	struct sc_daemon_guest *g = sc_conn_user(conn);
	struct sc_daemon *d = arg;

	if (!g->node)
		return;
	sc_daemon_now(d);
	if (kind == SC_TEXT)
		sc_broker_refuse(d->broker, g->node, 1003, "binary frames only");
	else
		sc_broker_input(d->broker, g->node, data);
	sc_daemon_look(d);
}

static void on_closed(void *arg, struct sc_conn *conn, int code, struct sc_span reason,
		      bool by_peer)
{
	struct sc_daemon_guest *g = sc_conn_user(conn);
	struct sc_daemon *d = arg;

	(void)reason;
	sc_daemon_say(d, SC_DEBUG, "%s left: %d%s", sc_conn_peer(conn), code,
		      by_peer ? " (it closed)" : "");
	if (g->node) {
		sc_daemon_now(d);
		sc_broker_leave(d->broker, g->node);
	}
	sc_parcel_unref(g->large);
	sc_bytes_done(&g->after);
	sc_conn_set_user(conn, NULL);
	free(g);
	sc_daemon_look(d);
}

const struct sc_server_hooks sc_daemon_server_hooks = {
	.authorise = sc_daemon_authorise,
	.upgrade = on_upgrade,
	.open = on_open,
	.message = on_message,
	.writable = on_writable,
	.closed = on_closed,
	.http = sc_daemon_http,
};
