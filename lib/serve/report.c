/* serve/report.c: the numbers of a server: for Prometheus, for programs, for people. */
#include <stdio.h>

#include "base/clock.h"
#include "base/program.h"
#include "serve/app.h"

/* Appends until one fails; then nothing more, and the failure is kept. */
struct text {
	struct sc_bytes *out;
	int rc;
};

#define PUT(T, ...) \
	do { \
		if ((T)->rc == 0) \
			(T)->rc = sc_bytes_putf((T)->out, __VA_ARGS__); \
	} while (0)

static void put_json(struct text *t, const char *text)
{
	if (t->rc == 0)
		t->rc = sc_bytes_put_json(t->out, sc_span_str(text));
}

/* A label's value: backslash, quote and newline are escaped, which a JSON string does as well. */
static void put_metric(struct text *t, const char *name, const char *stream, const char *more,
		       uint64_t value)
{
	PUT(t, "sc_%s{stream=", name);
	put_json(t, stream);
	PUT(t, "%s} %llu\n", more, (unsigned long long)value);
}

static void head(struct text *t, const char *name, const char *type, const char *help)
{
	PUT(t, "# HELP sc_%s %s\n# TYPE sc_%s %s\n", name, help, name, type);
}

struct stream_metric {
	const char *name, *type, *help, *label;
	size_t at;
};

#define OF(member) offsetof(struct sc_stream_stats, member)
static const struct stream_metric stream_metrics[] = {
	{ "stream_subscribers", "gauge", "Subscribers connected now.", "", OF(subscribers) },
	{ "stream_replaying", "gauge",
	  "Subscribers that read the log or its archive, not the ring.", "", OF(replaying) },
	{ "stream_replaying_archive", "gauge", "Subscribers of them that read the archive.", "",
	  OF(replaying_archive) },
	{ "stream_backlog_max_messages", "gauge",
	  "Messages that the slowest live subscriber is behind.", "", OF(backlog_max) },
	{ "stream_lag_rows", "gauge", "Rows committed and not yet in the ring.", "", OF(lag_rows) },
	{ "stream_first_offset", "gauge", "First offset that can be replayed.", "",
	  OF(first_offset) },
	{ "stream_end_offset", "gauge", "Offset that the next row will get.", "", OF(end_offset) },
	{ "stream_messages_in_total", "counter", "Messages taken into the ring.", "",
	  OF(messages_in) },
	{ "stream_bytes_in_total", "counter", "Bytes taken into the ring.", "", OF(bytes_in) },
	{ "stream_messages_out_total", "counter", "Messages sent to subscribers.", "",
	  OF(messages_out) },
	{ "stream_archive_messages_out_total", "counter",
	  "Messages of them that came from the archive.", "", OF(archive_out) },
	{ "stream_bytes_out_total", "counter", "Bytes of frames sent to subscribers.", "",
	  OF(bytes_out) },
	{ "stream_attached_total", "counter", "Subscribers accepted.", "", OF(attached) },
	{ "stream_dropped_total", "counter", "Subscribers dropped, by reason.",
	  ",reason=\"too_slow\"", OF(dropped_slow) },
	{ "stream_dropped_total", NULL, NULL, ",reason=\"evicted\"", OF(dropped_evicted) },
	{ "stream_dropped_total", NULL, NULL, ",reason=\"failed\"", OF(dropped_failed) },
	{ "stream_dropped_total", NULL, NULL, ",reason=\"archive\"", OF(dropped_archive) },
	{ "stream_refused_total", "counter", "Subscribers refused, by reason.",
	  ",why=\"not_durable\"", OF(refused[SC_WHY_NOT_DURABLE]) },
	{ "stream_refused_total", NULL, NULL, ",why=\"evicted\"", OF(refused[SC_WHY_EVICTED]) },
	{ "stream_refused_total", NULL, NULL, ",why=\"ahead\"", OF(refused[SC_WHY_AHEAD]) },
	{ "stream_refused_total", NULL, NULL, ",why=\"too_old\"", OF(refused[SC_WHY_TOO_OLD]) },
	{ "stream_refused_total", NULL, NULL, ",why=\"bad_request\"", OF(refused_bad) },
};
#undef OF

static void put_stream_metrics(struct sc_app *app, struct text *t)
{
	for (size_t m = 0; m < sizeof(stream_metrics) / sizeof(stream_metrics[0]); m++) {
		const struct stream_metric *metric = &stream_metrics[m];

		if (metric->type)
			head(t, metric->name, metric->type, metric->help);
		for (size_t i = 0; i < app->host_count; i++) {
			struct sc_stream_stats stats;

			if (sc_stream_stats(app->hosts[i].stream, &stats, NULL) < 0)
				continue;
			put_metric(t, metric->name, app->hosts[i].name, metric->label,
				   *(const uint64_t *)((const char *)&stats + metric->at));
		}
	}
}

static void put_writer_metrics(struct sc_app *app, struct text *t)
{
	for (size_t i = 0; i < app->host_count; i++) {
		struct sc_host *h = &app->hosts[i];
		struct sc_writer_stats w;

		if (!h->writer)
			continue;
		sc_writer_stats(h->writer, &w);
		put_metric(t, "publish_publishers", h->name, "", w.publishers);
		put_metric(t, "publish_rows_total", h->name, "", w.rows);
		put_metric(t, "publish_commits_total", h->name, "", w.commits);
		put_metric(t, "publish_duplicates_total", h->name, "", w.duplicates);
		put_metric(t, "publish_refused_total", h->name, "", w.refused);
		put_metric(t, "publish_failed_total", h->name, "", w.failed);
		put_metric(t, "publish_queued_bytes", h->name, "", w.queued_bytes);
	}
}

int sc_report_metrics(struct sc_app *app, struct sc_bytes *out)
{
	struct text t = { out, 0 };
	struct sc_server_stats s;
	struct {
		const char *name, *type, *help;
		uint64_t value;
	} list[] = {
		{ "connections", "gauge", "Sockets open now.", 0 },
		{ "clients", "gauge", "WebSockets and event streams open now.", 0 },
		{ "accepted_total", "counter", "Sockets accepted.", 0 },
		{ "opened_total", "counter", "WebSockets and event streams opened.", 0 },
		{ "refused_limit_total", "counter", "Connections refused for a limit.", 0 },
		{ "refused_auth_total", "counter", "Requests refused for want of a token.", 0 },
		{ "refused_origin_total", "counter", "Requests refused for their origin.", 0 },
		{ "bad_requests_total", "counter", "Requests that were none.", 0 },
		{ "handshake_timeouts_total", "counter", "Connections too slow to ask.", 0 },
		{ "protocol_errors_total", "counter", "WebSockets closed for a fault of the peer.",
		  0 },
		{ "keepalive_drops_total", "counter", "WebSockets closed for want of a pong.", 0 },
		{ "connection_memory_bytes", "gauge",
		  "Bytes that connections hold: half received, or not taken yet.", 0 },
		{ "refused_memory_total", "counter",
		  "Answers, messages and connections refused for want of such memory.", 0 },
		{ "bytes_in_total", "counter", "Bytes received.", 0 },
		{ "bytes_out_total", "counter", "Bytes sent.", 0 },
	};

	sc_server_stats(app->server, &s);
	uint64_t values[] = { s.connections,     s.clients,         s.accepted,
			      s.opened,          s.refused_limit,   s.refused_auth,
			      s.refused_origin,  s.bad_requests,    s.handshake_timeouts,
			      s.protocol_errors, s.keepalive_drops, s.memory_bytes,
			      s.refused_memory,  s.bytes_in,        s.bytes_out };

	_Static_assert(sizeof(values) / sizeof(values[0]) == sizeof(list) / sizeof(list[0]),
		       "one value each");
	head(&t, "build_info", "gauge", "The program's version.");
	PUT(&t, "sc_build_info{version=\"%s\"} 1\n", sc_version());
	head(&t, "uptime_seconds", "gauge", "Seconds since the start.");
	PUT(&t, "sc_uptime_seconds %.3f\n", (double)(sc_wall_us() - app->started_us) / 1e6);
	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		head(&t, list[i].name, list[i].type, list[i].help);
		PUT(&t, "sc_%s %llu\n", list[i].name, (unsigned long long)values[i]);
	}
	put_stream_metrics(app, &t);
	put_writer_metrics(app, &t);
	return t.rc;
}

static void put_seconds(struct text *t, const char *name, int64_t us)
{
	if (us)
		PUT(t, ",\"%s\":%.6f", name, (double)us / 1e6);
	else
		PUT(t, ",\"%s\":null", name);
}

/* The members that the original has (streamcast-wire 13), then ours. */
int sc_report_stats(struct sc_app *app, struct sc_bytes *out)
{
	struct text t = { out, 0 };
	int64_t now_us = sc_wall_us();

	PUT(&t, "{\"served_at\":%.6f,\"streams\":[", (double)now_us / 1e6);
	for (size_t i = 0; i < app->host_count; i++) {
		struct sc_host *h = &app->hosts[i];
		struct sc_stream_stats s;
		int rc = sc_stream_stats(h->stream, &s, NULL);

		if (rc < 0)
			return rc;
		PUT(&t, "%s{\"name\":", i ? "," : "");
		put_json(&t, h->name);
		PUT(&t, ",\"durable\":%s", s.durable ? "true" : "false");
		if (s.durable)
			PUT(&t, ",\"end_offset\":%llu", (unsigned long long)s.end_offset);
		else
			PUT(&t, ",\"end_offset\":null");
		PUT(&t, ",\"subscribers\":%llu", (unsigned long long)s.subscribers);
		put_seconds(&t, "started_ts", s.started_us);
		PUT(&t, ",\"uptime_s\":%.6f", (double)(now_us - s.started_us) / 1e6);
		put_seconds(&t, "last_send_ts", s.last_send_us);
		put_seconds(&t, "last_send_age_s", s.last_send_us ? now_us - s.last_send_us : 0);
		if (s.durable)
			PUT(&t, ",\"first_offset\":%llu", (unsigned long long)s.first_offset);
		PUT(&t,
		    ",\"replaying\":%llu,\"replaying_archive\":%llu,\"backlog_max\":%llu,\"lag_"
		    "rows\":%llu,\"messages_in\":%"
		    "llu",
		    (unsigned long long)s.replaying, (unsigned long long)s.replaying_archive,
		    (unsigned long long)s.backlog_max, (unsigned long long)s.lag_rows,
		    (unsigned long long)s.messages_in);
		PUT(&t, ",\"messages_out\":%llu,\"bytes_out\":%llu,\"dropped_slow\":%llu}",
		    (unsigned long long)s.messages_out, (unsigned long long)s.bytes_out,
		    (unsigned long long)s.dropped_slow);
	}
	PUT(&t, "]}\n");
	return t.rc;
}

static void put_html(struct text *t, const char *text)
{
	for (const char *p = text; *p && t->rc == 0; p++)
		switch (*p) {
		case '<':
			t->rc = sc_bytes_puts(t->out, "&lt;");
			break;
		case '>':
			t->rc = sc_bytes_puts(t->out, "&gt;");
			break;
		case '&':
			t->rc = sc_bytes_puts(t->out, "&amp;");
			break;
		case '"':
			t->rc = sc_bytes_puts(t->out, "&quot;");
			break;
		default:
			t->rc = sc_bytes_putc(t->out, *p);
		}
}

int sc_report_page(struct sc_app *app, struct sc_bytes *out)
{
	struct text t = { out, 0 };
	char now[SC_TIME_TEXT];

	sc_time_text(sc_wall_us(), now);
	PUT(&t,
	    "<!doctype html>\n<html lang=\"en\"><head><meta "
	    "charset=\"utf-8\"><title>sc-serve</title>\n"
	    "<meta http-equiv=\"refresh\" content=\"5\">\n"
	    "<style>body{font:14px/1.5 "
	    "system-ui,sans-serif;margin:2em}table{border-collapse:collapse}"
	    "td,th{padding:.3em .9em;border-bottom:1px solid #ccc;text-align:right}"
	    "td:first-child,th:first-child{text-align:left}</style></head>\n"
	    "<body><h1>sc-serve %s</h1>\n<table><tr><th>stream</th><th>first offset</th><th>next "
	    "offset</th>"
	    "<th>subscribers</th><th>replaying</th><th>backlog</th><th>sent</th><th>dropped</th></"
	    "tr>\n",
	    sc_version());
	for (size_t i = 0; i < app->host_count; i++) {
		struct sc_stream_stats s;
		int rc = sc_stream_stats(app->hosts[i].stream, &s, NULL);

		if (rc < 0)
			return rc;
		PUT(&t, "<tr><td>/");
		put_html(&t, app->hosts[i].name);
		if (s.durable)
			PUT(&t, "</td><td>%llu</td><td>%llu</td>",
			    (unsigned long long)s.first_offset, (unsigned long long)s.end_offset);
		else
			PUT(&t, "</td><td>&ndash;</td><td>&ndash;</td>");
		PUT(&t, "<td>%llu</td><td>%llu</td><td>%llu</td><td>%llu</td><td>%llu</td></tr>\n",
		    (unsigned long long)s.subscribers, (unsigned long long)s.replaying,
		    (unsigned long long)s.backlog_max, (unsigned long long)s.messages_out,
		    (unsigned long long)s.dropped_slow);
	}
	PUT(&t,
	    "</table>\n<p>%s &middot; <a href=\"/stats\">stats</a> &middot; <a "
	    "href=\"/metrics\">metrics</a> &middot; "
	    "<a href=\"/healthz\">health</a></p></body></html>\n",
	    now);
	return t.rc;
}
