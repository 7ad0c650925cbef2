/* subs_view.c: subscriptions as JSON. */
#include "durable/subs_internal.h"

#include "base/clock.h"
#include "json/scan.h"

static int put_text(struct sc_bytes *out, const char *name, struct sc_span text)
{
	int rc;

	if (!text.data)
		return 0;
	rc = sc_bytes_puts(out, name);
	return rc < 0 ? rc : sc_json_put_string(text, out);
}

static int put_position(struct sc_bytes *out, const char *name, uint64_t position, bool fresh)
{
	char text[SC_DS_OFFSET_TEXT] = "-1";

	if (!fresh)
		sc_ds_offset_format(position, text);
	return sc_bytes_putf(out, "%s\"%s\"", name, text);
}

/* As encodeURIComponent has it. */
static int put_encoded(struct sc_bytes *out, struct sc_span text)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < text.len; i++) {
		unsigned char c = (unsigned char)text.data[i];
		bool plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
			     (c >= '0' && c <= '9') || (c && strchr("-_.!~*'()", c));

		rc = plain ? sc_bytes_putc(out, (char)c) : sc_bytes_putf(out, "%%%02X", c);
	}
	return rc;
}

int sc_ds_sub_put_url(struct sc_span base, struct sc_span prefix, struct sc_span id,
		      const char *what, struct sc_bytes *out)
{
	struct sc_bytes url;
	int rc;

	sc_bytes_init(&url, 16384);
	rc = sc_bytes_put(&url, base.data, base.len);
	if (rc == 0)
		rc = sc_bytes_put(&url, prefix.data, prefix.len);
	if (rc == 0)
		rc = sc_bytes_puts(&url, id.data ? "__ds/subscriptions/" : "__ds/");
	if (rc == 0)
		rc = put_encoded(&url, id);
	if (rc == 0)
		rc = sc_bytes_puts(&url, what);
	if (rc == 0)
		rc = sc_bytes_put_json(out, sc_span(url.data, url.len));
	sc_bytes_done(&url);
	return rc;
}

static int put_link(const struct sc_ds_sub *sub, const struct sc_ds_link *link, bool first,
		    struct sc_bytes *out)
{
	struct sc_span name = sc_span(link->path.data + sub->prefix.len,
				      link->path.len - sub->prefix.len);
	int rc = put_text(out, first ? "{\"path\":" : ",{\"path\":", name);

	if (rc == 0)
		rc = sc_bytes_putf(out, ",\"link_type\":\"%s\"",
				   link->by_name ? "explicit" : "glob");
	return rc < 0 ? rc : put_position(out, ",\"acked_offset\":", link->acked, link->fresh);
}

/* All links, without tails. */
static int put_links(struct sc_kv_txn *txn, const struct sc_ds_sub *sub, struct sc_bytes *out,
		     struct sc_err *err)
{
	struct sc_ds_key key = { .len = 0 };
	struct sc_ds_link link;
	bool first = true;
	int rc;

	while ((rc = sc_ds_link_next(txn, sub->number, false, &key, &link, err)) == 1) {
		if (put_link(sub, &link, first, out) < 0 || sc_bytes_putc(out, '}') < 0)
			return sc_err_nomem(err, "cannot tell a subscription");
		first = false;
	}
	return rc;
}

static int put_webhook(const struct sc_ds_keys *keys, struct sc_span base,
		       const struct sc_ds_sub *sub, struct sc_bytes *out)
{
	int rc = put_text(out, ",\"webhook\":{\"url\":", sub->url);

	if (rc == 0)
		rc = sc_bytes_putf(out,
				   ",\"signing\":{\"alg\":\"ed25519\",\"kid\":\"%s\","
				   "\"jwks_url\":",
				   sc_ds_keys_id(keys));
	if (rc == 0)
		rc = sc_ds_sub_put_url(base, sub->prefix, sc_span(NULL, 0), "jwks.json", out);
	return rc < 0 ? rc : sc_bytes_puts(out, "}}");
}

static int put_head(const struct sc_ds_sub *sub, struct sc_bytes *out)
{
	int rc = put_text(out, "{\"id\":", sub->id);

	if (rc == 0)
		rc = put_text(out, ",\"subscription_id\":", sub->id);
	if (rc == 0)
		rc = sc_bytes_putf(out, ",\"type\":\"%s\"",
				   sub->type == SC_DS_WEBHOOK ? "webhook" : "pull-wake");
	if (rc == 0)
		rc = put_text(out, ",\"pattern\":", sub->pattern);
	return rc < 0 ? rc : sc_bytes_puts(out, ",\"streams\":[");
}

static int put_tail(const struct sc_ds_sub *sub, struct sc_bytes *out)
{
	char time[SC_TIME_TEXT];
	int rc = put_text(out, ",\"wake_stream\":", sub->wake_stream);

	sc_time_text(sub->created_us, time);
	if (rc == 0)
		rc = sc_bytes_putf(out,
				   ",\"lease_ttl_ms\":%llu,\"created_at\":\"%s\","
				   "\"status\":\"%s\"",
				   (unsigned long long)sub->lease_ms, time,
				   sc_ds_sub_is_failing(sub) ? "failed" : "active");
	if (rc == 0)
		rc = put_text(out, ",\"description\":", sub->description);
	return rc < 0 ? rc : sc_bytes_puts(out, "}\n");
}

int sc_ds_sub_view(struct sc_kv_txn *txn, const struct sc_ds_keys *keys, struct sc_span base,
		   const struct sc_ds_sub *sub, struct sc_bytes *out, struct sc_err *err)
{
	static const char tried[] = "cannot tell a subscription";
	int rc = put_head(sub, out) < 0 ? sc_err_nomem(err, tried) : put_links(txn, sub, out, err);

	if (rc < 0)
		return rc;
	rc = sc_bytes_putc(out, ']');
	if (rc == 0 && sub->type == SC_DS_WEBHOOK)
		rc = put_webhook(keys, base, sub, out);
	if (rc == 0)
		rc = put_tail(sub, out);
	return rc < 0 ? sc_err_nomem(err, tried) : 0;
}

struct listing {
	struct sc_kv_txn *txn;
	struct sc_ds_work *work;
	const struct sc_ds_sub *sub;
	bool told;
	struct sc_bytes *out;
	size_t count, pending;
};

/* The links with something pending, or (PENDING false) the others. What came behind a wake that
 * tells of what it told is left to the next one. */
static int list(struct listing *l, bool pending, struct sc_err *err)
{
	struct sc_ds_key key = { .len = 0 };
	struct sc_ds_link link;
	uint64_t tail;
	bool has;
	int rc = 1;

	while (rc == 1 && l->count < SC_DS_TOLD_MAX) {
		rc = sc_ds_link_next(l->txn, l->sub->number, pending, &key, &link, err);
		if (rc != 1)
			break;
		rc = sc_ds_tail_of(l->txn, l->work, link.path, &tail, err);
		if (rc < 0)
			break;
		rc = 1;
		has = sc_ds_link_pending(&link, tail);
		if (has != pending ||
		    (l->told && has && link.told_generation != l->sub->generation))
			continue;
		if (l->told && has)
			tail = link.told;
		if (put_link(l->sub, &link, l->count == 0, l->out) < 0 ||
		    put_position(l->out, ",\"tail_offset\":", tail, false) < 0 ||
		    sc_bytes_puts(l->out, sc_ds_link_pending(&link, tail)
						  ? ",\"has_pending\":true}"
						  : ",\"has_pending\":false}") < 0)
			return sc_err_nomem(err, "cannot tell a subscription's streams");
		l->count++;
		l->pending += sc_ds_link_pending(&link, tail);
	}
	return rc < 0 ? rc : 0;
}

int sc_ds_sub_view_streams(struct sc_kv_txn *txn, struct sc_ds_work *work,
			   const struct sc_ds_sub *sub, bool told, struct sc_bytes *out,
			   size_t *ret_pending, struct sc_err *err)
{
	struct listing l = { .txn = txn, .work = work, .sub = sub, .told = told, .out = out };
	int rc = list(&l, true, err);

	if (rc == 0)
		rc = list(&l, false, err);
	*ret_pending = l.pending;
	return rc;
}
