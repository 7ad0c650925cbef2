/* http_reply.c: answers. */
#include <time.h>

#include "durable/http_internal.h"

#define COPY_MAX 4096   /* a body up to this is copied, so that its buffer stays */
#define SEND_RATE 16384 /* bytes a second: the least a reader must take */
#define HEAD_MAX 16384

void sc_ds_conn_charge(struct sc_ds_conn *conn)
{
	uint64_t now = conn->call.answer.body.cap;

	if (now <= COPY_MAX)
		now = 0;
	atomic_fetch_add_explicit(&conn->shard->http->held_out, now - conn->held_out,
				  memory_order_relaxed);
	conn->held_out = now;
}

void sc_ds_conn_uncharge(struct sc_ds_conn *conn)
{
	atomic_fetch_sub_explicit(&conn->shard->http->held_out, conn->held_out,
				  memory_order_relaxed);
	conn->held_out = 0;
}

/* What the proxy next to the client said, of a list that each one made longer. */
static struct sc_span first_of(struct sc_span list)
{
	const char *comma = list.len ? memchr(list.data, ',', list.len) : NULL;

	if (comma)
		list.len = (size_t)(comma - list.data);
	while (list.len && (list.data[list.len - 1] == ' ' || list.data[list.len - 1] == '\t'))
		list.len--;
	return list;
}

int sc_ds_conn_put_base(struct sc_ds_conn *conn, struct sc_bytes *out)
{
	struct sc_ds_http *http = conn->shard->http;
	struct sc_span host = conn->host, scheme = SC_SPAN("http");
	struct sc_span proxy_host = first_of(conn->forwarded_host);
	struct sc_span proxy_scheme = first_of(conn->forwarded_proto);
	int rc;

	if (http->o.cert)
		scheme = SC_SPAN("https");
	if (http->o.trust_forwarded && sc_ds_filled(proxy_host))
		host = proxy_host;
	if (http->o.trust_forwarded && sc_span_is(proxy_scheme, "https"))
		scheme = SC_SPAN("https");
	if (http->o.trust_forwarded && sc_span_is(proxy_scheme, "http"))
		scheme = SC_SPAN("http");
	if (!sc_ds_filled(host) || !sc_ds_value_clean(host))
		host = sc_span_str(http->listen.count ? http->listen.sockets[0].name : "localhost");
	rc = sc_bytes_put(out, scheme.data, scheme.len);
	if (rc == 0)
		rc = sc_bytes_puts(out, "://");
	return rc < 0 ? rc : sc_bytes_put(out, host.data, host.len);
}

/* http://HOST/PATH of what was created; NULL where nobody says which host. */
static const char *location(struct sc_ds_conn *conn)
{
	struct sc_span path = conn->call.request.path;
	struct sc_bytes *text = &conn->location;

	sc_bytes_clear(text);
	if (sc_ds_conn_put_base(conn, text) < 0 || sc_bytes_put(text, path.data, path.len) < 0)
		return NULL;
	return sc_bytes_str(text);
}

/* An error without a body gets its words. */
static void word_it(struct sc_ds_answer *answer)
{
	const char *words = answer->error ? answer->error : sc_http_reason(answer->status);

	if (answer->body.len || answer->status < 400)
		return;
	if (sc_bytes_puts(&answer->body, words) == 0)
		(void)sc_bytes_putc(&answer->body, '\n');
}

/* "Date: ...", made once a second. */
static const char *date(struct sc_ds_shard *shard)
{
	time_t now = time(NULL);
	struct tm tm;

	if (now != shard->date_s && gmtime_r(&now, &tm) &&
	    strftime(shard->date, sizeof(shard->date), "Date: %a, %d %b %Y %T GMT\r\n", &tm))
		shard->date_s = now;
	return shard->date;
}

static int put_status(struct sc_bytes *out, int status)
{
	int rc = sc_bytes_puts(out, "HTTP/1.1 ");

	if (rc == 0)
		rc = sc_bytes_put_u64(out, (uint64_t)status);
	if (rc == 0)
		rc = sc_bytes_putc(out, ' ');
	if (rc == 0)
		rc = sc_bytes_puts(out, sc_http_reason(status));
	return rc < 0 ? rc : sc_bytes_puts(out, "\r\n");
}

static int put_length(struct sc_bytes *out, uint64_t length)
{
	int rc = sc_bytes_puts(out, "Content-Length: ");

	if (rc == 0)
		rc = sc_bytes_put_u64(out, length);
	return rc < 0 ? rc : sc_bytes_puts(out, "\r\n");
}

int sc_ds_conn_put_head(struct sc_ds_conn *conn, int64_t length)
{
	struct sc_ds_http *http = conn->shard->http;
	struct sc_ds_answer *answer = &conn->call.answer;
	struct sc_ds_fields fields;
	int rc = put_status(&conn->out, answer->status);

	sc_ds_fields_make(&fields, &http->face, answer, answer->created ? location(conn) : NULL);
	if (rc == 0)
		rc = sc_bytes_puts(&conn->out, date(conn->shard));
	if (rc == 0)
		rc = sc_bytes_put(&conn->out, http->every.data, http->every.len);
	if (rc == 0)
		rc = sc_ds_fields_put(&fields, &conn->out);
	if (rc == 0 && length >= 0)
		rc = put_length(&conn->out, (uint64_t)length);
	if (rc == 0 && conn->close_after)
		rc = sc_bytes_puts(&conn->out, "Connection: close\r\n");
	return rc;
}

enum sc_ds_step sc_ds_conn_reply(struct sc_ds_conn *conn)
{
	struct sc_ds_answer *answer = &conn->call.answer;
	struct sc_ds_http *http = conn->shard->http;
	struct sc_ds_loan *loan = &conn->shard->loan;
	bool heads = strcmp(conn->method, "HEAD") == 0;
	int64_t length;
	int rc;

	word_it(answer);
	if (atomic_load_explicit(&http->stopping, memory_order_relaxed))
		conn->close_after = true;
	length = (int64_t)(loan->count ? loan->bytes : answer->body.len);
	/* 204 and 304 have none; what a GET would have had, a HEAD of a stream does not know */
	if (answer->status == 204 || answer->status == 304 ||
	    (heads && answer->status == 200 && !length))
		length = -1;
	rc = sc_ds_conn_put_head(conn, length);
	if (rc == 0)
		rc = sc_bytes_put(&conn->out, "\r\n", 2);
	if (rc < 0) {
		sc_ds_loan_end(loan, loan->bytes, answer);
		return SC_DS_END;
	}
	if (length > 0 && !heads && !loan->count)
		conn->out_body = sc_span(answer->body.data, answer->body.len);
	conn->phase = SC_DS_AT_SENDING;
	conn->status = answer->status;
	conn->sent_bytes = loan->count ? loan->bytes : conn->out_body.len;
	sc_ds_conn_due(conn, conn->shard->now_us + http->o.idle_ms * 1000 +
				     (int64_t)(conn->sent_bytes / SEND_RATE) * 1000000);
	return loan->count ? sc_ds_conn_send_loan(conn) : SC_DS_GO_ON;
}

/* The whole of it, or what fits: nothing was sent on this socket yet. */
void sc_ds_send_busy(struct sc_ds_http *http, int fd)
{
	static const char words[] = "there are too many connections\n";
	struct sc_bytes text;
	int rc;

	if (http->o.cert)
		return; /* there is no TLS to say it in */
	sc_bytes_init(&text, HEAD_MAX);
	rc = put_status(&text, 503);
	if (rc == 0)
		rc = sc_bytes_put(&text, http->every.data, http->every.len);
	if (rc == 0)
		rc = sc_bytes_puts(&text, "Content-Type: text/plain; charset=utf-8\r\n"
					  "Retry-After: 1\r\nConnection: close\r\n");
	if (rc == 0)
		rc = put_length(&text, sizeof(words) - 1);
	if (rc == 0)
		rc = sc_bytes_putf(&text, "\r\n%s", words);
	if (rc == 0 && send(fd, text.data, text.len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		rc = -1; /* it has left already */
	sc_bytes_done(&text);
}
