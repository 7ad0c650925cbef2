/* msg/daemon_page.c: numbers, for people, programs and Prometheus. */
#include <stdio.h>

#include "msg/daemon_internal.h"
#include "net/http.h"

/* Appends until one fails; then nothing more, and the failure is kept. */
struct text {
	struct sc_bytes *out;
	int rc;
	const char *name; /* of the metric that is being listed */
	size_t at;
	bool many;
};

#define PUT(T, ...) \
	do { \
		if ((T)->rc == 0) \
			(T)->rc = sc_bytes_putf((T)->out, __VA_ARGS__); \
	} while (0)

static void put_name(struct text *t, struct sc_span name)
{
	if (t->rc == 0)
		t->rc = sc_bytes_put_json(t->out, name);
}

static int put_endpoint(void *arg, const struct sc_broker_endpoint_stats *s)
{
	struct text *t = arg;

	PUT(t, "%s", t->many ? "," : "");
	put_name(t, s->name);
	PUT(t, ":{\"nodes\":%u,\"queued\":%u,\"waiting_ack\":%u}", s->nodes, s->queued,
	    s->waiting_ack);
	t->many = true;
	return t->rc;
}

static int put_stats(const struct sc_daemon *d, struct sc_bytes *out)
{
	struct text t = { .out = out };
	struct sc_broker_stats s;

	sc_broker_stats(d->broker, &s);
	PUT(&t, "{\"uptime_s\":%llu", (unsigned long long)s.uptime_s);
#define X(name, help, grows) PUT(&t, ",\"" #name "\":%llu", (unsigned long long)s.name);
	SC_BROKER_COUNTERS(X)
#undef X
	PUT(&t, ",\"per_endpoint\":{");
	if (t.rc == 0)
		t.rc = sc_broker_each_endpoint(d->broker, put_endpoint, &t);
	PUT(&t, "}}\n");
	return t.rc;
}

int sc_daemon_stats_line(const struct sc_daemon *d, struct sc_bytes *out)
{
	return put_stats(d, out);
}

static void put_head(struct text *t, const char *name, const char *type, const char *help)
{
	PUT(t, "# HELP sc_broker_%s %s.\n# TYPE sc_broker_%s %s\n", name, help, name, type);
}

static const struct {
	const char *name, *type, *help;
	size_t at;
	bool wide;
} endpoint_metrics[] = {
#define AT(member) offsetof(struct sc_broker_endpoint_stats, member)
	{ "endpoint_nodes", "gauge", "nodes connected", AT(nodes), false },
	{ "endpoint_queued", "gauge", "messages in the queue", AT(queued), false },
	{ "endpoint_waiting_ack", "gauge", "nodes that hold a message", AT(waiting_ack), false },
	{ "endpoint_dropped_full_total", "counter", "messages dropped, the queue was full",
	  AT(dropped_full), true },
	{ "endpoint_dropped_age_total", "counter", "messages dropped, too old", AT(dropped_age),
	  true },
#undef AT
};

/* A label's value has three escapes, and takes every other character as it is. */
static void put_label(struct text *t, struct sc_span name)
{
	PUT(t, "\"");
	for (size_t i = 0; i < name.len && t->rc == 0; i++) {
		char c = name.data[i];

		if (c == '"' || c == '\\' || c == '\n')
			t->rc = sc_bytes_putc(t->out, '\\');
		if (t->rc == 0)
			t->rc = sc_bytes_putc(t->out, c == '\n' ? 'n' : c);
	}
	PUT(t, "\"");
}

static int put_endpoint_metric(void *arg, const struct sc_broker_endpoint_stats *s)
{
	struct text *t = arg;
	const char *at = (const char *)s + t->at;

	PUT(t, "sc_broker_%s{endpoint=", t->name);
	put_label(t, s->name);
	PUT(t, "} %llu\n",
	    t->many ? (unsigned long long)*(const uint64_t *)at
		    : (unsigned long long)*(const uint32_t *)at);
	return t->rc;
}

static void put_counter(struct text *t, const char *name, const char *help, bool grows,
			uint64_t value)
{
	char full[80];

	snprintf(full, sizeof(full), "%s%s", name, grows ? "_total" : "");
	put_head(t, full, grows ? "counter" : "gauge", help);
	PUT(t, "sc_broker_%s %llu\n", full, (unsigned long long)value);
}

static void put_server(struct text *t, const struct sc_daemon *d)
{
	struct sc_server_stats s;

	sc_server_stats(d->server, &s);
	put_counter(t, "connections", "sockets open", false, s.connections);
	put_counter(t, "accepted", "sockets accepted", true, s.accepted);
	put_counter(t, "refused_auth", "requests refused, no good token", true, s.refused_auth);
	put_counter(t, "refused_path", "requests refused, no endpoint", true, d->refused_path);
	put_counter(t, "refused_limit", "requests refused, a limit was reached", true,
		    s.refused_limit + d->refused_full);
	put_counter(t, "keepalive_drops", "connections dropped, silent too long", true,
		    s.keepalive_drops);
	put_counter(t, "connection_memory_bytes",
		    "bytes that connections hold, half received or not taken yet", false,
		    s.memory_bytes);
	put_counter(t, "refused_memory",
		    "answers, messages and connections refused for want of such memory", true,
		    s.refused_memory);
	put_counter(t, "bytes_in", "bytes received", true, s.bytes_in);
	put_counter(t, "bytes_out", "bytes sent", true, s.bytes_out);
}

static int put_metrics(const struct sc_daemon *d, struct sc_bytes *out)
{
	struct text t = { .out = out };
	struct sc_broker_stats s;

	sc_broker_stats(d->broker, &s);
	put_counter(&t, "uptime_seconds", "seconds since the start", false, s.uptime_s);
#define X(name, help, grows) put_counter(&t, #name, help, grows, s.name);
	SC_BROKER_COUNTERS(X)
#undef X
	put_server(&t, d);
	for (size_t i = 0; i < sizeof(endpoint_metrics) / sizeof(*endpoint_metrics); i++) {
		t.name = endpoint_metrics[i].name;
		t.at = endpoint_metrics[i].at;
		t.many = endpoint_metrics[i].wide;
		put_head(&t, t.name, endpoint_metrics[i].type, endpoint_metrics[i].help);
		if (t.rc == 0)
			t.rc = sc_broker_each_endpoint(d->broker, put_endpoint_metric, &t);
	}
	return t.rc;
}

static void health(const struct sc_daemon *d, struct sc_reply *reply)
{
	reply->status = d->stopping ? 503 : 200;
	reply->type = "application/json";
	reply->body = d->stopping ? SC_SPAN("{\"status\":\"stopping\"}\n")
				  : SC_SPAN("{\"status\":\"ok\"}\n");
}

/* Plain requests; an endpoint of the same name is there all the same, for WebSockets. */
void sc_daemon_http(void *arg, struct sc_conn *conn, const struct sc_request *request,
		    struct sc_reply *reply)
{
	struct sc_daemon *d = arg;
	struct sc_span path = sc_http_path(request->target);
	char name[SC_MSG_NAME_MAX];
	unsigned char len;
	int rc = 0;

	(void)conn;
	if (sc_span_is(path, "/healthz")) {
		health(d, reply);
		return;
	}
	sc_daemon_now(d);
	sc_bytes_clear(&d->body);
	reply->status = 200;
	if (sc_span_is(path, "/metrics")) {
		reply->type = "text/plain; version=0.0.4; charset=utf-8";
		rc = put_metrics(d, &d->body);
	} else if (sc_span_is(path, "/stats")) {
		reply->type = "application/json";
		rc = put_stats(d, &d->body);
	} else if (sc_daemon_endpoint(d, request->target, name, &len)) {
		reply->status = 426;
		reply->fields = "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n";
		rc = sc_bytes_puts(&d->body, "an endpoint is reached by WebSocket\n");
	} else {
		reply->status = 404;
		rc = sc_bytes_puts(&d->body, "there is nothing of that name\n");
	}
	if (rc < 0)
		reply->status = 503;
	else
		reply->body = sc_span(d->body.data, d->body.len);
}
