/* client/dspub_answer.c: what is made of the answers of a Durable Streams server. */
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "client/dspub_internal.h"
#include "client/dsread.h"

static const char tried[] = "cannot publish";

/* The rows of the request, with where they are. */
static int print(struct sc_dspub *p, struct sc_err *err)
{
	struct sc_dspost_row row;
	int rc = 0;

	for (size_t i = 0; rc == 0 && sc_dspost_row(p->post, i, &row); i++)
		rc = sc_publines_stored(p->lines, row.text, row.position, row.number, err);
	sc_dspost_drop(p->post);
	sc_publines_print(p->lines);
	(void)sc_publines_flush(p->lines);
	return rc;
}

/* Where the stream ends, as the answer says it; 0 where that is no number. */
static bool told_tail(struct sc_dspub *p, uint64_t *ret_tail)
{
	struct sc_span value;

	return sc_httphead_find(&p->answer.head, "Stream-Next-Offset", 0, &value) &&
	       sc_ds_position(value, ret_tail);
}

static bool told_closed(const struct sc_dspub *p)
{
	return sc_httphead_has(&p->answer.head, "Stream-Closed", "true");
}

static int closed_err(struct sc_err *err)
{
	sc_err_set(err, SC_E_REFUSED, tried, "the stream is closed");
	sc_err_field_str(err, "why", "closed");
	return SC_E_REFUSED;
}

/* The stream has a number as high as this request's, or a higher one. */
static int behind(struct sc_dspub *p, struct sc_err *err)
{
	struct sc_dspost_state state;
	struct sc_dspost_row row;
	uint64_t first, last;

	p->seq_refused = false;
	p->step = STEP_POST;
	if (p->d->seq == SC_DSPUB_SEQ_SKIP && p->sent_before) {
		/* stored, by this process most likely */
		p->sent_before = false;
		sc_dspost_stored(p->post, 0, false, 0);
		return print(p, err);
	}
	if (p->d->seq == SC_DSPUB_SEQ_SKIP) {
		for (size_t i = 0; sc_dspost_row(p->post, i, &row); i++)
			p->result->skipped++;
		sc_dspost_drop(p->post);
		return 0;
	}
	sc_dspost_state(p->post, &state);
	sc_dspost_lines(p->post, &first, &last);
	sc_err_set(err, SC_E_REFUSED, tried,
		   "its Stream-Seq is %llu or more already: another writer is ahead",
		   (unsigned long long)state.last);
	sc_err_field_str(err, "why", "stream_seq");
	sc_err_field_u64(err, "offset", state.last);
	sc_err_field_u64(err, "line", first);
	sc_err_field_u64(err, "last_line", last);
	return sc_err_next(err, "see what the stream has, or pass such rows over with "
				"--stream-seq skip");
}

/* 409 says that too. */
static int other_type(const struct sc_dspub *p, struct sc_span type, struct sc_err *err)
{
	sc_err_set(err, SC_E_REFUSED, tried, "it was made anew, of type %.*s", (int)type.len,
		   type.data);
	sc_err_field_str(err, "why", "type");
	return sc_err_next(err, "it was of type %s; see what it is for now", p->type.data);
}

static int looked(struct sc_dspub *p, struct sc_err *err)
{
	struct sc_span type, end;
	bool json;
	int rc;

	if (told_closed(p))
		return closed_err(err);
	if (!sc_httphead_find(&p->answer.head, "Content-Type", 0, &type) || !type.len ||
	    !sc_httphead_find(&p->answer.head, "Stream-Next-Offset", 0, &end)) {
		sc_err_set(err, SC_E_PROTOCOL, tried,
			   "the server does not say what the stream holds and where it ends");
		return sc_err_next(err, "is this a Durable Streams server? to one of sc-serve say "
					"--protocol streamcast");
	}
	if (p->seq_refused)
		return sc_span_is(type, sc_bytes_str(&p->type)) ? behind(p, err)
								: other_type(p, type, err);
	sc_bytes_clear(&p->type);
	if (sc_bytes_put(&p->type, type.data, type.len) < 0 || !sc_bytes_str(&p->type))
		return sc_err_nomem(err, tried);
	json = type.len >= 16 && !strncasecmp(type.data, "application/json", 16) &&
	       (type.len == 16 || strchr("; \t", type.data[16]));
	p->tail_known = told_tail(p, &p->tail);
	rc = sc_dspub_make_post(p, json, err);
	if (rc == 0)
		p->step = STEP_POST;
	return rc;
}

static int stored(struct sc_dspub *p, struct sc_err *err)
{
	bool duplicate = p->o->producer && p->answer.head.status == 204;
	uint64_t tail = 0;
	bool known = told_tail(p, &tail);

	sc_dspost_stored(p->post, p->tail, p->tail_known, duplicate ? 0 : tail);
	p->tail_known = known;
	p->tail = tail;
	p->epoch_tried = true;
	p->sent_before = false;
	return print(p, err);
}

static bool told_number(const struct sc_dspub *p, const char *name, uint64_t *ret_value)
{
	struct sc_span value;

	return sc_httphead_find(&p->answer.head, name, 0, &value) && sc_u64_parse(value, ret_value);
}

/* Another process has a higher epoch. In the first request of a run without a state, ours goes
 * above it; else it is the other's turn. */
static int fenced(struct sc_dspub *p, uint64_t epoch, struct sc_err *err)
{
	if (!p->epoch_tried && !p->o->has_epoch && !p->has_state) {
		p->epoch_tried = true;
		sc_dspost_set_epoch(p->post, epoch + 1);
		return sc_dspub_save_state(p, err);
	}
	sc_err_set(err, SC_E_REFUSED, tried,
		   "the producer was taken over by another process with epoch %llu",
		   (unsigned long long)epoch);
	sc_err_field_str(err, "why", "fenced");
	sc_err_field_int(err, "epoch", (int64_t)epoch);
	return sc_err_next(err, "let that one go on, or take over with a higher --epoch");
}

/* A refusal that may pass: the server is overloaded, or whoever runs us says so. */
static bool may_pass(const struct sc_dspub *p, int rc)
{
	return rc == SC_E_BUSY ||
	       (p->o->connection.retry.refused && (rc == SC_E_NOAUTH || rc == SC_E_NOLOG));
}

/* The same request again, with growing waits. */
static int later(struct sc_dspub *p, struct sc_err *err)
{
	const struct sc_client_retry *retry = &p->o->connection.retry;
	int64_t after = sc_httphead_retry_ms(&p->answer.head, sc_wall_us()), wait;
	int status = p->answer.head.status;
	bool not_done = (status < 500 && status != 408) || (status == 503 && after >= 0);
	uint64_t random;

	if (p->step == STEP_POST && sc_dspub_in_doubt(p) && !not_done)
		return sc_dspost_doubt(p->post, err);
	if (retry->tries >= 0 && (int64_t)p->refusals >= retry->tries)
		return err->code;
	p->refusals++;
	p->sent_before |= p->step == STEP_POST && !not_done;
	sc_random(&random, sizeof(random));
	wait = sc_client_backoff_ms(retry, p->refusals, random);
	sc_timer_start(p->later_timer, after > wait ? after : wait);
	sc_events_warning(p->events, err->reason);
	return 0;
}

static int refused(struct sc_dspub *p, struct sc_err *err)
{
	const struct sc_httphead *head = &p->answer.head;
	uint64_t number, first, last;
	int rc = sc_ds_status_err(head, tried, err);

	if (head->status == 403 && told_number(p, "Producer-Epoch", &number))
		return fenced(p, number, err);
	if (may_pass(p, rc))
		return later(p, err);
	if (head->status == 409 && told_closed(p))
		return closed_err(err);
	if (head->status == 409 && told_number(p, "Producer-Expected-Seq", &number)) {
		sc_err_set(err, SC_E_REFUSED, tried,
			   "the server has another number of the producer's requests: it expects "
			   "%llu",
			   (unsigned long long)number);
		sc_err_field_str(err, "why", "sequence");
		return sc_err_next(err,
				   "see whether the stream was made anew, or the state file is "
				   "an old one");
	}
	if (head->status == 409 && p->step == STEP_POST && p->d->seq) {
		p->seq_refused = true;
		p->step = STEP_LOOK;
		return 0;
	}
	if (p->words_len) {
		struct sc_err plain = *err;

		sc_err_set(err, rc, tried, "the server answered %d ('%.*s')", head->status,
			   (int)p->words_len, p->words);
		sc_err_field_int(err, "http_status", head->status);
		if (plain.next[0])
			sc_err_next(err, "%s", plain.next);
	}
	if (p->step == STEP_POST && (head->status == 400 || head->status == 413)) {
		sc_dspost_lines(p->post, &first, &last);
		err->code = rc = SC_E_DATA;
		sc_err_field_int(err, "line", (int64_t)first);
		sc_err_field_int(err, "last_line", (int64_t)last);
		sc_err_next(err, "it was about the lines %llu to %llu", (unsigned long long)first,
			    (unsigned long long)last);
	}
	return rc;
}

/* The answer is whole. */
void sc_dspub_answered(struct sc_dspub *p)
{
	int status = p->answer.head.status, rc = 0;
	struct sc_err err;

	p->asking = false;
	sc_timer_stop(p->answer_timer);
	if (status >= 300 || status < 200) {
		rc = refused(p, &err);
	} else {
		p->refusals = 0;
		sc_client_proved(p->client);
		if (p->step == STEP_CREATE)
			p->step = STEP_LOOK;
		else if (p->step == STEP_LOOK)
			rc = looked(p, &err);
		else if (p->step == STEP_POST)
			rc = stored(p, &err);
		else
			sc_dspub_begin_end(p, true);
	}
	if (rc < 0) {
		sc_dspub_give_up(p, &err);
		return;
	}
	if (p->closing)
		return;
	if (p->answer.closes) {
		p->reconnects = true;
		sc_client_reconnect(p->client);
	} else {
		sc_dspub_next(p);
	}
}

void sc_dspub_keep_words(struct sc_dspub *p, struct sc_span piece)
{
	for (size_t i = 0; i < piece.len && p->words_len < sizeof(p->words); i++) {
		unsigned char c = (unsigned char)piece.data[i];

		if (c < ' ' || c >= 0x7f || (p->words_len == 0 && c == '<'))
			return;
		p->words[p->words_len++] = (char)c;
	}
}
