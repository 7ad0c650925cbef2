/* client/dspost.c: see client/dspost.h. */
#include "client/dspost.h"

#include <stdlib.h>

#include "base/file.h"
#include "json/line.h"
#include "json/scan.h"

#define MESSAGE_OVERHEAD 4 /* what a message counts besides its bytes */

static const char tried[] = "cannot publish";

struct note {
	uint64_t line, number;
	size_t len;
};

struct rows {
	struct sc_bytes text; /* back to back */
	struct note *notes;
	size_t count, cap;
};

struct sc_dspost {
	struct sc_dspost_options o;
	struct rows filling, sending;
	struct sc_bytes body;
	uint64_t epoch, seq, after; /* of the next request, or the one at hand */
	uint64_t pending;           /* the last number of the last run's open request; 0 = none */
	bool stepwise;              /* positions go by message lengths: it was seen */
	uint64_t tail;              /* behind the stored request; 0 = not known */
	bool tail_exact;            /* its rows lie right before it */
};

static int put_u64(struct sc_bytes *out, const char *name, uint64_t value)
{
	return sc_bytes_putf(out, ",\"%s\":%llu", name, (unsigned long long)value);
}

int sc_dspost_state_put(struct sc_bytes *out, const char *producer,
			const struct sc_dspost_state *state)
{
	int rc = sc_bytes_puts(out, "{\"producer\":");

	if (rc == 0)
		rc = sc_json_put_string(sc_span_str(producer), out);
	if (rc == 0)
		rc = put_u64(out, "epoch", state->epoch);
	if (rc == 0)
		rc = put_u64(out, "seq", state->seq);
	if (rc == 0)
		rc = put_u64(out, "after", state->after);
	if (rc == 0)
		rc = put_u64(out, "last", state->last);
	return rc == 0 ? sc_bytes_puts(out, "}\n") : rc;
}

static bool get_u64(const struct sc_json *object, const char *name, uint64_t *ret_value)
{
	struct sc_json member;

	return sc_json_get(object, name, &member) && sc_json_u64(&member, ret_value);
}

int sc_dspost_state_parse(struct sc_span text, const char *producer,
			  struct sc_dspost_state *ret_state, struct sc_err *err)
{
	struct sc_dspost_state s;
	struct sc_json value, member;
	struct sc_bytes name;
	bool same;

	if (sc_json_scan(text, &value, NULL) < 0 || value.kind != SC_JSON_OBJECT ||
	    !sc_json_get(&value, "producer", &member) || member.kind != SC_JSON_STRING ||
	    !get_u64(&value, "epoch", &s.epoch) || !get_u64(&value, "seq", &s.seq) ||
	    !get_u64(&value, "after", &s.after) || !get_u64(&value, "last", &s.last) ||
	    s.last < s.after)
		return sc_err_set(err, SC_E_DATA, "cannot use the", "it holds no producer's state");
	sc_bytes_init(&name, 4096);
	same = sc_json_unescape(member.text, &name) == 0 &&
	       sc_span_is(sc_span(name.data ? name.data : "", name.len), producer);
	sc_bytes_done(&name);
	if (!same)
		return sc_err_set(err, SC_E_DATA, "cannot use the",
				  "it is the state of another producer");
	*ret_state = s;
	return 0;
}

int sc_dspost_new(const struct sc_dspost_options *options, struct sc_dspost **ret_dspost,
		  struct sc_err *err)
{
	const struct sc_dspost_state *state = &options->state;
	struct sc_dspost *d = sc_calloc(1, sizeof(*d));

	if (!d)
		return sc_err_nomem(err, tried);
	d->o = *options;
	sc_bytes_init(&d->filling.text, SIZE_MAX / 4);
	sc_bytes_init(&d->sending.text, SIZE_MAX / 4);
	sc_bytes_init(&d->body, SIZE_MAX / 4);
	d->epoch = state->epoch;
	d->seq = state->seq;
	d->after = state->after;
	d->pending = state->last > state->after ? state->last : 0;
	*ret_dspost = d;
	return 0;
}

static void rows_done(struct rows *r)
{
	sc_bytes_done(&r->text);
	free(r->notes);
}

void sc_dspost_free(struct sc_dspost *d)
{
	if (!d)
		return;
	rows_done(&d->filling);
	rows_done(&d->sending);
	sc_bytes_done(&d->body);
	free(d);
}

static bool whole(const struct sc_dspost *d)
{
	const struct rows *f = &d->filling;

	if (!f->count)
		return false;
	return !d->pending || f->notes[f->count - 1].number >= d->pending;
}

bool sc_dspost_full(const struct sc_dspost *d)
{
	const struct rows *f = &d->filling;

	if (d->pending)
		return whole(d);
	return f->count >= (d->o.json ? d->o.batch : 1) || f->text.len >= SC_DSPOST_BYTES;
}

bool sc_dspost_empty(const struct sc_dspost *d)
{
	return !d->filling.count && !d->sending.count;
}

int sc_dspost_put(struct sc_dspost *d, struct sc_span row, uint64_t line, uint64_t number,
		  struct sc_err *err)
{
	struct rows *f = &d->filling;

	if (d->pending && number > d->pending) {
		sc_err_set(err, SC_E_DATA, tried,
			   "row %llu came where %llu was due, which the last run was publishing",
			   (unsigned long long)number, (unsigned long long)d->pending);
		sc_err_field_int(err, "line", (int64_t)line);
		return sc_err_next(err, "give the same rows as then");
	}
	if (f->count == f->cap) {
		size_t cap = f->cap ? 2 * f->cap : 64;
		void *more = sc_realloc(f->notes, cap * sizeof(*f->notes));

		if (!more)
			return sc_err_nomem(err, tried);
		f->notes = more;
		f->cap = cap;
	}
	if (sc_bytes_put(&f->text, row.data, row.len) < 0)
		return sc_err_nomem(err, tried);
	f->notes[f->count++] = (struct note){ line, number, row.len };
	return 0;
}

int sc_dspost_ended(const struct sc_dspost *d, struct sc_err *err)
{
	if (!d->pending || whole(d) || d->sending.count)
		return 0;
	sc_err_set(err, SC_E_DATA, tried,
		   "the input ended before row %llu, which the last run was publishing",
		   (unsigned long long)d->pending);
	return sc_err_next(err, "give the same rows as then");
}

static int spell(struct sc_dspost *d, struct sc_err *err)
{
	const struct rows *r = &d->sending;
	const char *at = r->text.data;
	int rc = 0;

	sc_bytes_clear(&d->body);
	if (!d->o.json) { /* the message's own bytes */
		rc = sc_unwrap_message(sc_span(r->text.data, r->text.len), &d->body);
		if (rc == 0)
			rc = sc_bytes_put(&d->body, r->text.data, r->text.len);
		return rc < 0 ? sc_err_nomem(err, tried) : 0;
	}
	rc = sc_bytes_reserve(&d->body, r->text.len + r->count + 2);
	for (size_t i = 0; rc == 0 && i < r->count; at += r->notes[i++].len) {
		sc_bytes_putc(&d->body, i ? ',' : '[');
		sc_bytes_put(&d->body, at, r->notes[i].len);
	}
	if (rc == 0)
		rc = sc_bytes_putc(&d->body, ']');
	return rc < 0 ? sc_err_nomem(err, tried) : 0;
}

int sc_dspost_begin(struct sc_dspost *d, struct sc_span *ret_body, struct sc_err *err)
{
	struct rows swap;

	if (d->sending.count || !whole(d))
		return 0;
	swap = d->sending;
	d->sending = d->filling;
	d->filling = swap;
	d->pending = 0;
	if (spell(d, err) < 0)
		return SC_E_NOMEM;
	*ret_body = sc_dspost_body(d);
	return 1;
}

bool sc_dspost_open(const struct sc_dspost *d)
{
	return d->sending.count > 0;
}

struct sc_span sc_dspost_body(const struct sc_dspost *d)
{
	return sc_span(d->body.data ? d->body.data : "", d->body.len);
}

void sc_dspost_state(const struct sc_dspost *d, struct sc_dspost_state *ret_state)
{
	const struct rows *r = &d->sending;
	uint64_t last = r->count     ? r->notes[r->count - 1].number
			: d->pending ? d->pending
				     : d->after;

	*ret_state = (struct sc_dspost_state){ d->epoch, d->seq, d->after, last };
}

void sc_dspost_set_epoch(struct sc_dspost *d, uint64_t epoch)
{
	d->epoch = epoch;
	d->seq = 0;
}

void sc_dspost_stored(struct sc_dspost *d, uint64_t before, bool before_known, uint64_t tail)
{
	const struct rows *r = &d->sending;
	uint64_t sum = 0;

	for (size_t i = 0; i < r->count; i++)
		sum += MESSAGE_OVERHEAD + (d->o.json ? r->notes[i].len : d->body.len);
	if (tail && before_known && before + sum == tail)
		d->stepwise = true;
	d->tail = tail;
	d->tail_exact = tail && d->stepwise && tail >= sum;
}

bool sc_dspost_row(const struct sc_dspost *d, size_t index, struct sc_dspost_row *ret_row)
{
	const struct rows *r = &d->sending;
	uint64_t behind = 0;
	const char *at;

	if (index >= r->count)
		return false;
	/* asked in order: the place of the one before is in its own span */
	at = index ? ret_row->text.data + ret_row->text.len : r->text.data;
	if (index + 1 == r->count)
		behind = d->tail;
	else if (d->tail_exact && index)
		behind = ret_row->position + MESSAGE_OVERHEAD + r->notes[index].len;
	else if (d->tail_exact) {
		behind = d->tail;
		for (size_t i = 1; i < r->count; i++)
			behind -= MESSAGE_OVERHEAD + r->notes[i].len;
	}
	*ret_row = (struct sc_dspost_row){ sc_span(at, r->notes[index].len), r->notes[index].line,
					   r->notes[index].number, behind };
	return true;
}

void sc_dspost_drop(struct sc_dspost *d)
{
	struct rows *r = &d->sending;

	if (!r->count)
		return;
	d->after = r->notes[r->count - 1].number;
	d->seq++;
	r->count = 0;
	sc_bytes_clear(&r->text);
}

void sc_dspost_lines(const struct sc_dspost *d, uint64_t *ret_first, uint64_t *ret_last)
{
	const struct rows *r = &d->sending;

	*ret_first = r->count ? r->notes[0].line : 0;
	*ret_last = r->count ? r->notes[r->count - 1].line : 0;
}

int sc_dspost_doubt(const struct sc_dspost *d, struct sc_err *err)
{
	uint64_t first, last;

	sc_dspost_lines(d, &first, &last);
	sc_err_set(err, SC_E_UNAVAILABLE, "lost the connection",
		   "the lines %llu to %llu were sent and not acknowledged: they may be stored or "
		   "not",
		   (unsigned long long)first, (unsigned long long)last);
	sc_err_field_int(err, "line", (int64_t)first);
	sc_err_field_int(err, "last_line", (int64_t)last);
	return sc_err_next(err, "see what the stream has, then publish from the next line on; "
				"--producer spares this");
}
