/* http_pages.c: /health, /metrics, and the counting and telling of requests. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "durable/http_internal.h"

static const char *const method_names[SC_DS_METHOD_KINDS] = { "GET",  "POST",    "PUT",  "DELETE",
							      "HEAD", "OPTIONS", "OTHER" };
/* The last counts what is none of them: a connection that ended before its answer. */
static const int statuses[SC_DS_STATUS_KINDS] = { 200, 201, 204, 304, 400, 401, 403, 404, 405, 409,
						  410, 413, 414, 429, 431, 500, 503, 505, 0 };

static size_t method_at(const char *method)
{
	for (size_t i = 0; method && i + 1 < SC_DS_METHOD_KINDS; i++)
		if (strcmp(method_names[i], method) == 0)
			return i;
	return SC_DS_METHOD_KINDS - 1;
}

static size_t status_at(int status)
{
	size_t i = 0;

	while (statuses[i] && statuses[i] != status)
		i++;
	return i;
}

static void add(atomic_uint_fast64_t *count, uint64_t more)
{
	atomic_fetch_add_explicit(count, more, memory_order_relaxed);
}

static void tell(const struct sc_ds_conn *conn, int64_t took_us)
{
	const struct sc_ds_http *http = conn->shard->http;
	struct sc_bytes fields;

	sc_bytes_init(&fields, 4 << 20);
	if (sc_bytes_puts(&fields, "\"method\":") == 0 &&
	    sc_bytes_put_json(&fields, sc_span_str(conn->method)) == 0 &&
	    sc_bytes_puts(&fields, ",\"target\":") == 0 &&
	    sc_bytes_put_json(&fields, sc_span(conn->target.data, conn->target.len)) == 0 &&
	    sc_bytes_putf(&fields, ",\"status\":%d,\"received\":%zu,\"sent\":%llu,\"us\":%lld",
			  conn->status, conn->body.len, (unsigned long long)conn->sent_bytes,
			  (long long)took_us) == 0)
		http->o.say(SC_INFO, sc_bytes_str(&fields), "%s %.*s %d, %zu in, %llu out, %.1f ms",
			    conn->method, (int)conn->target.len, conn->target.data, conn->status,
			    conn->body.len, (unsigned long long)conn->sent_bytes,
			    (double)took_us / 1000);
	sc_bytes_done(&fields);
}

void sc_ds_count(struct sc_ds_conn *conn)
{
	struct sc_ds_counts *counts = &conn->shard->counts;
	size_t method = method_at(conn->method), bucket = 0;
	int64_t took_us = sc_mono_us() - conn->started_us;

	add(&counts->requests[method][status_at(conn->status)], 1);
	add(&counts->sent_bytes, conn->sent_bytes);
	if (!conn->live) {
		while (bucket < SC_DS_BOUNDS && took_us > sc_ds_bounds_us[bucket])
			bucket++;
		add(&counts->buckets[method][bucket], 1);
		add(&counts->sum_us[method], took_us > 0 ? (uint64_t)took_us : 0);
	}
	if (conn->shard->http->o.access_log && conn->shard->http->o.say)
		tell(conn, took_us);
}

/* Pages. */

void sc_ds_page_health(struct sc_ds_conn *conn)
{
	struct sc_ds_answer *answer = &conn->call.answer;
	struct sc_ds_stats stats;
	struct sc_err err;

	answer->cache = SC_DS_CACHE_NO_STORE;
	if (sc_ds_stats(conn->shard->http->ds, &stats, &err) < 0 || stats.broken) {
		sc_ds_answer_busy(answer, "the store takes no writes");
		return;
	}
	answer->status = 200;
	(void)sc_bytes_puts(&answer->body, "ok\n");
}

static int head(struct sc_bytes *out, const char *name, const char *kind, const char *help)
{
	return sc_bytes_putf(out, "# HELP sc_streams_%s %s\n# TYPE sc_streams_%s %s\n", name, help,
			     name, kind);
}

static int one(struct sc_bytes *out, const char *name, const char *kind, const char *help,
	       uint64_t value)
{
	int rc = head(out, name, kind, help);

	return rc < 0 ? rc
		      : sc_bytes_putf(out, "sc_streams_%s %llu\n", name, (unsigned long long)value);
}

/* LABEL: `method="GET",` or nothing. */
static int histogram(struct sc_bytes *out, const char *name, const char *label,
		     const uint64_t *buckets, uint64_t sum_us)
{
	size_t len = strlen(label);
	uint64_t total = 0;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i <= SC_DS_BOUNDS; i++) {
		total += buckets[i];
		if (i < SC_DS_BOUNDS)
			rc = sc_bytes_putf(out, "sc_streams_%s_bucket{%sle=\"%g\"} %llu\n", name,
					   label, (double)sc_ds_bounds_us[i] / 1e6,
					   (unsigned long long)total);
		else
			rc = sc_bytes_putf(out, "sc_streams_%s_bucket{%sle=\"+Inf\"} %llu\n", name,
					   label, (unsigned long long)total);
	}
	if (rc == 0 && len)
		rc = sc_bytes_putf(out,
				   "sc_streams_%s_sum{%.*s} %.6f\nsc_streams_%s_count{%.*s} %llu\n",
				   name, (int)len - 1, label, (double)sum_us / 1e6, name,
				   (int)len - 1, label, (unsigned long long)total);
	else if (rc == 0)
		rc = sc_bytes_putf(out, "sc_streams_%s_sum %.6f\nsc_streams_%s_count %llu\n", name,
				   (double)sum_us / 1e6, name, (unsigned long long)total);
	return rc;
}

static int put_requests(const struct sc_ds_http *http, struct sc_bytes *out)
{
	int rc = head(out, "http_requests_total", "counter",
		      "Requests, by method and status; 0 is a connection that ended before its "
		      "answer.");

	for (size_t m = 0; m < SC_DS_METHOD_KINDS; m++)
		for (size_t s = 0; rc == 0 && s < SC_DS_STATUS_KINDS; s++) {
			uint64_t total = 0;

			for (size_t i = 0; i < http->shard_count; i++)
				total += atomic_load_explicit(
					&http->shards[i].counts.requests[m][s],
					memory_order_relaxed);
			if (total)
				rc = sc_bytes_putf(out,
						   "sc_streams_http_requests_total{method=\"%s\","
						   "status=\"%d\"} %llu\n",
						   method_names[m], statuses[s],
						   (unsigned long long)total);
		}
	return rc;
}

static int put_durations(const struct sc_ds_http *http, struct sc_bytes *out)
{
	static const char name[] = "http_request_duration_seconds";
	int rc = head(out, name, "histogram",
		      "From the request line to the last byte of the answer; without live reads.");

	for (size_t m = 0; rc == 0 && m < SC_DS_METHOD_KINDS; m++) {
		uint64_t buckets[SC_DS_BOUNDS + 1] = { 0 }, sum_us = 0, any = 0;
		char label[40];

		for (size_t i = 0; i < http->shard_count; i++) {
			const struct sc_ds_counts *c = &http->shards[i].counts;

			sum_us += atomic_load_explicit(&c->sum_us[m], memory_order_relaxed);
			for (size_t b = 0; b <= SC_DS_BOUNDS; b++) {
				buckets[b] += atomic_load_explicit(&c->buckets[m][b],
								   memory_order_relaxed);
				any |= buckets[b];
			}
		}
		snprintf(label, sizeof(label), "method=\"%s\",", method_names[m]);
		if (any)
			rc = histogram(out, name, label, buckets, sum_us);
	}
	return rc;
}

static int put_face(struct sc_ds_http *http, struct sc_bytes *out)
{
	uint64_t received = 0, sent = 0;
	int rc;

	for (size_t i = 0; i < http->shard_count; i++) {
		received += atomic_load(&http->shards[i].counts.received_bytes);
		sent += atomic_load(&http->shards[i].counts.sent_bytes);
	}
	rc = put_requests(http, out);
	if (rc == 0 && http->webhooks)
		rc = one(out, "webhook_deliveries_running", "gauge",
			 "Deliveries to webhooks that are on their way.",
			 sc_ds_webhooks_running(http->webhooks));
	if (rc == 0)
		rc = put_durations(http, out);
	if (rc == 0)
		rc = one(out, "http_received_bytes_total", "counter", "Bytes of request bodies.",
			 received);
	if (rc == 0)
		rc = one(out, "http_sent_bytes_total", "counter", "Bytes of answers' bodies.",
			 sent);
	if (rc == 0)
		rc = one(out, "connections", "gauge", "Connections that are open.",
			 atomic_load(&http->clients));
	if (rc == 0)
		rc = one(out, "connections_total", "counter", "Connections that came.",
			 atomic_load(&http->accepted));
	if (rc == 0)
		rc = one(out, "connections_refused_total", "counter",
			 "Connections refused for a limit.", atomic_load(&http->refused_clients));
	if (rc == 0)
		rc = one(out, "body_bytes", "gauge", "Request bodies in memory.",
			 atomic_load(&http->held));
	if (rc == 0)
		rc = one(out, "answer_bytes", "gauge", "Answers in memory.",
			 atomic_load(&http->held_out));
	if (rc == 0)
		rc = sc_bytes_putf(out,
				   "# HELP sc_streams_live_reads Readers that wait.\n"
				   "# TYPE sc_streams_live_reads gauge\n"
				   "sc_streams_live_reads{mode=\"long-poll\"} %zu\n"
				   "sc_streams_live_reads{mode=\"sse\"} %zu\n",
				   atomic_load(&http->waiting[0]), atomic_load(&http->waiting[1]));
	return rc;
}

static int put_engine(const struct sc_ds_stats *s, struct sc_bytes *out)
{
	const struct {
		const char *name, *kind, *help;
		uint64_t value;
	} rows[] = {
		{ "append_bytes_total", "counter", "Bytes of stored messages.", s->append_bytes },
		{ "write_failures_total", "counter", "Commits that failed.", s->write_failures },
		{ "commits_total", "counter", "Commits.", s->commits },
		{ "calls_total", "counter", "Writes of all kinds that commits have decided.",
		  s->calls },
		{ "reads_total", "counter", "Reads of streams.", s->reads },
		{ "read_bytes_total", "counter", "Bytes read from streams.", s->read_bytes },
		{ "expired_total", "counter", "Streams that expired.", s->expired },
		{ "trimmed_bytes_total", "counter", "Bytes of streams that trims gave up.",
		  s->trimmed },
		{ "deleted_bytes_total", "counter", "Bytes removed from the store.",
		  s->deleted_bytes },
		{ "inflight_bytes", "gauge", "Bytes written and not yet durable.",
		  s->inflight_bytes },
		{ "inflight_requests", "gauge", "Writes not yet durable.", s->inflight_calls },
		{ "waiters", "gauge", "Long-polls and SSE readers that wait for a stream.",
		  s->waiters },
		{ "streams", "gauge", "Streams in the store.", s->streams },
		{ "delete_backlog", "gauge", "Streams whose messages are still to be removed.",
		  s->delete_backlog },
		{ "expiry_due", "gauge", "Streams that have expired and are still to be removed.",
		  s->expiry_due },
		{ "set_aside", "gauge",
		  "Streams that cannot be expired, trimmed or repaired, being damaged.",
		  s->set_aside },
		{ "store_used_bytes", "gauge", "Bytes of the store in use.", s->store_used_bytes },
		{ "store_file_bytes", "gauge", "Bytes of the store's file.", s->store_file_bytes },
		{ "subscriptions", "gauge", "Subscriptions.", s->subs },
		{ "subscription_links", "gauge", "Links of subscriptions to streams.", s->links },
		{ "subscription_links_pending", "gauge",
		  "Links whose streams have more than was acknowledged.", s->links_pending },
		{ "subscription_links_refused_total", "counter",
		  "Links that were not made, for the limit.", s->links_refused },
		{ "subscription_wakes_total", "counter", "Wakes of subscriptions.", s->wakes },
		{ "subscription_wakes_unheard_total", "counter",
		  "Wakes whose wake stream could not be written.", s->wakes_unheard },
		{ "subscription_leases_over_total", "counter", "Leases that ended by time.",
		  s->leases_over },
		{ "subscription_fenced_total", "counter",
		  "Requests of workers whose wake was over.", s->fenced },
		{ "store_ok", "gauge", "1 while the store takes writes.", !s->broken },
	};
	int rc = head(out, "appends_total", "counter", "Appends, by what they did.");

	if (rc == 0)
		rc = sc_bytes_putf(out,
				   "sc_streams_appends_total{result=\"appended\"} %llu\n"
				   "sc_streams_appends_total{result=\"closed\"} %llu\n",
				   (unsigned long long)s->appended, (unsigned long long)s->closed);
	if (rc == 0)
		rc = head(out, "appends_rejected_total", "counter", "Appends refused.");
	if (rc == 0)
		rc = sc_bytes_putf(
			out, "sc_streams_appends_rejected_total{reason=\"overloaded\"} %llu\n",
			(unsigned long long)s->overloaded);
	if (rc == 0)
		rc = head(out, "append_duration_seconds", "histogram",
			  "From an append's acceptance to its durability.");
	if (rc == 0)
		rc = histogram(out, "append_duration_seconds", "", s->append_us.buckets,
			       s->append_us.sum_us);
	if (rc == 0)
		rc = head(out, "webhook_deliveries_total", "counter",
			  "Deliveries to webhooks, by what became of them.");
	if (rc == 0)
		rc = sc_bytes_putf(out,
				   "sc_streams_webhook_deliveries_total{result=\"done\"} %llu\n"
				   "sc_streams_webhook_deliveries_total{result=\"taken\"} %llu\n"
				   "sc_streams_webhook_deliveries_total{result=\"failed\"} %llu\n",
				   (unsigned long long)s->hooks_done,
				   (unsigned long long)s->hooks_taken,
				   (unsigned long long)s->hooks_failed);
	for (size_t i = 0; rc == 0 && i < sizeof(rows) / sizeof(*rows); i++)
		rc = one(out, rows[i].name, rows[i].kind, rows[i].help, rows[i].value);
	return rc;
}

void sc_ds_page_metrics(struct sc_ds_conn *conn)
{
	struct sc_ds_http *http = conn->shard->http;
	struct sc_ds_answer *answer = &conn->call.answer;
	struct sc_ds_stats stats;
	struct sc_err err;
	int rc = sc_ds_stats(http->ds, &stats, &err);

	if (rc < 0) {
		sc_ds_conn_say(conn, &err);
		sc_ds_answer_busy(answer, "the store cannot be asked now");
		return;
	}
	answer->status = 200;
	answer->cache = SC_DS_CACHE_NO_STORE;
	rc = sc_bytes_puts(&answer->type, "text/plain; version=0.0.4; charset=utf-8");
	if (rc == 0)
		rc = head(&answer->body, "info", "gauge", "The program's version.");
	if (rc == 0)
		rc = sc_bytes_putf(&answer->body, "sc_streams_info{version=\"%s\"} 1\n",
				   SC_VERSION);
	if (rc == 0)
		rc = one(&answer->body, "start_time_seconds", "gauge",
			 "When the server started, since 1970 UTC.",
			 (uint64_t)(http->began_us / 1000000));
	if (rc == 0)
		rc = put_face(http, &answer->body);
	if (rc == 0)
		rc = put_engine(&stats, &answer->body);
	if (rc < 0)
		sc_ds_answer_busy(answer, "out of memory");
}
