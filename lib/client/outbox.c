/* client/outbox.c: rows on their way to a streamcast server. */
#include "client/outbox.h"

#include <stdlib.h>

#include "base/file.h"
#include "wire/publish.h"

static const char tried[] = "cannot publish";

struct note {
	uint64_t line, number;
	uint32_t len;
};

struct frame {
	struct frame *next;
	struct sc_bytes text; /* rows back to back */
	struct note *notes;
	size_t count, cap;
	bool sent;
	bool failed;   /* its reply refused it */
	uint64_t prev; /* producers: the number before its first row's, or 0 */
	uint64_t seq;  /* as it was told; 0 = not yet */
};

struct sc_outbox {
	struct sc_outbox_options o;
	struct frame *first, *last;
	size_t frames, sent; /* in the list; of them without a reply */
	size_t held;         /* bytes of rows */
	struct sc_bytes out;
	/* the frame that was stored: in the list until it is dropped */
	struct frame *stored;
	uint64_t stored_first;
	uint64_t last_offset; /* of the last row acknowledged */
	uint64_t last_number; /* of the last row put */
	uint64_t line;        /* acknowledged up to here, with all before it */
	uint64_t moved;
	/* producers: the last number that the server had when it greeted us */
	uint64_t known, acked;
	/* a frame was refused: nothing is sent until all replies are in */
	bool trouble, later_stored;
	char word[33], detail[SC_PUBLISH_DETAIL_MAX];
	size_t narrow; /* rows of a refused group that are left: sent in parts, one at a time */
	bool has_fenced;
	uint64_t fenced_at, fenced_known;
};

int sc_outbox_new(const struct sc_outbox_options *options, struct sc_outbox **ret_outbox,
		  struct sc_err *err)
{
	struct sc_outbox *b = sc_calloc(1, sizeof(*b));

	if (!b)
		return sc_err_nomem(err, tried);
	b->o = *options;
	sc_bytes_init(&b->out, SIZE_MAX / 2);
	*ret_outbox = b;
	return 0;
}

static void frame_free(struct frame *f)
{
	if (!f)
		return;
	sc_bytes_done(&f->text);
	free(f->notes);
	free(f);
}

void sc_outbox_free(struct sc_outbox *b)
{
	if (!b)
		return;
	while (b->first) {
		struct frame *f = b->first;

		b->first = f->next;
		frame_free(f);
	}
	sc_bytes_done(&b->out);
	free(b);
}

static struct frame *frame_new(void)
{
	struct frame *f = sc_calloc(1, sizeof(*f));

	if (f)
		sc_bytes_init(&f->text, SIZE_MAX / 2);
	return f;
}

static bool open_for_more(const struct sc_outbox *b, const struct frame *f)
{
	return f && !f->sent && !f->failed && f->count < b->o.batch &&
	       f->text.len < SC_OUTBOX_FRAME_BYTES;
}

bool sc_outbox_full(const struct sc_outbox *b)
{
	if (b->held >= SC_OUTBOX_HELD_BYTES || b->trouble || b->narrow)
		return true;
	return b->frames >= b->o.window && !open_for_more(b, b->last);
}

bool sc_outbox_empty(const struct sc_outbox *b)
{
	return !b->first;
}

static int add_note(struct frame *f, const struct note *note)
{
	if (f->count == f->cap) {
		size_t cap = f->cap ? 2 * f->cap : 16;
		void *more = sc_realloc(f->notes, cap * sizeof(*f->notes));

		if (!more)
			return SC_E_NOMEM;
		f->notes = more;
		f->cap = cap;
	}
	f->notes[f->count++] = *note;
	return 0;
}

int sc_outbox_put(struct sc_outbox *b, struct sc_span row, uint64_t line, uint64_t number,
		  struct sc_err *err)
{
	struct note note = { line, number, (uint32_t)row.len };
	struct frame *f = b->last;

	if (row.len > UINT32_MAX)
		return sc_err_set(err, SC_E_DATA, tried, "the row is longer than 4 GiB");
	if (!open_for_more(b, f) || (f->count && f->text.len + row.len > SC_OUTBOX_FRAME_BYTES)) {
		f = frame_new();
		if (!f)
			return sc_err_nomem(err, tried);
		f->prev = b->last_number;
		if (b->last)
			b->last->next = f;
		else
			b->first = f;
		b->last = f;
		b->frames++;
	}
	if (sc_bytes_reserve(&f->text, row.len) < 0 || add_note(f, &note) < 0)
		return sc_err_nomem(err, tried);
	(void)sc_bytes_put(&f->text, row.data, row.len);
	b->held += row.len;
	b->last_number = number;
	return 0;
}

/* The rows of F from KEEP on become a frame of their own behind it. */
static int cut(struct sc_outbox *b, struct frame *f, size_t keep, struct sc_err *err)
{
	struct frame *rest = frame_new();
	size_t bytes = 0;

	for (size_t i = 0; i < keep; i++)
		bytes += f->notes[i].len;
	if (!rest || sc_bytes_put(&rest->text, f->text.data + bytes, f->text.len - bytes) < 0) {
		frame_free(rest);
		return sc_err_nomem(err, tried);
	}
	for (size_t i = keep; i < f->count; i++)
		if (add_note(rest, &f->notes[i]) < 0) {
			frame_free(rest);
			return sc_err_nomem(err, tried);
		}
	rest->prev = f->notes[keep - 1].number;
	f->text.len = bytes;
	f->count = keep;
	rest->next = f->next;
	f->next = rest;
	if (b->last == f)
		b->last = rest;
	b->frames++;
	return 0;
}

void sc_outbox_resend(struct sc_outbox *b)
{
	for (struct frame *f = b->first; f; f = f->next)
		f->sent = f->failed = false;
	b->sent = 0;
	b->trouble = b->later_stored = false;
}

int sc_outbox_connected(struct sc_outbox *b, uint64_t stored, struct sc_err *err)
{
	sc_outbox_resend(b);
	if (!b->o.producer)
		return 0;
	if (stored < b->acked) {
		sc_err_set(err, SC_E_REFUSED, "cannot go on",
			   "the server has the producer's rows up to number %llu now, and had "
			   "acknowledged %llu",
			   (unsigned long long)stored, (unsigned long long)b->acked);
		sc_err_field_str(err, "why", "other_log");
		return sc_err_next(err, "see whether the log was made anew or restored");
	}
	b->known = stored;
	for (struct frame *f = b->first; f; f = f->next) {
		size_t n = 0;

		while (n < f->count && f->notes[n].number <= stored)
			n++;
		if (n > 0 && n < f->count && cut(b, f, n, err) < 0)
			return SC_E_NOMEM;
	}
	return 0;
}

/*
 * The number that a frame begins with: the one that follows what the server has, so that numbers
 * without a row belong to the frame behind them. A frame that it has already is told as before.
 */
static uint64_t begins_with(const struct sc_outbox *b, struct frame *f)
{
	uint64_t number = f->notes[0].number, before = f->prev;

	if (number <= b->known && f->seq)
		return f->seq;
	if (number > b->known && b->known > before)
		before = b->known;
	f->seq = before ? before + 1 : number;
	return f->seq;
}

/* {"seq":N,"last":L,"rows":[...]}, or the rows alone. */
static int spell(struct sc_outbox *b, struct frame *f)
{
	const struct note *last = &f->notes[f->count - 1];
	const char *at = f->text.data;

	sc_bytes_clear(&b->out);
	if (sc_bytes_reserve(&b->out, f->text.len + f->count + 80) < 0)
		return SC_E_NOMEM;
	if (b->o.producer) {
		uint64_t seq = begins_with(b, f);

		sc_bytes_puts(&b->out, "{\"seq\":");
		sc_bytes_put_u64(&b->out, seq);
		if (last->number - seq + 1 != f->count) {
			sc_bytes_puts(&b->out, ",\"last\":");
			sc_bytes_put_u64(&b->out, last->number);
		}
		sc_bytes_puts(&b->out, ",\"rows\":[");
	} else if (f->count > 1) {
		sc_bytes_putc(&b->out, '[');
	}
	for (size_t i = 0; i < f->count; at += f->notes[i++].len) {
		if (i)
			sc_bytes_putc(&b->out, ',');
		sc_bytes_put(&b->out, at, f->notes[i].len);
	}
	return b->o.producer  ? sc_bytes_puts(&b->out, "]}")
	       : f->count > 1 ? sc_bytes_putc(&b->out, ']')
			      : 0;
}

static struct frame *first_unsent(const struct sc_outbox *b)
{
	struct frame *f = b->first;

	while (f && (f->sent || f->failed))
		f = f->next;
	return f;
}

int sc_outbox_next(struct sc_outbox *b, struct sc_span *ret_frame, struct sc_err *err)
{
	struct frame *f = first_unsent(b);

	if (!f || b->trouble || b->sent >= (b->narrow ? 1 : b->o.window))
		return 0;
	if (spell(b, f) < 0)
		return sc_err_nomem(err, tried);
	*ret_frame = sc_span(b->out.data, b->out.len);
	return 1;
}

void sc_outbox_sent(struct sc_outbox *b)
{
	struct frame *f = first_unsent(b);

	if (!f)
		return;
	f->sent = true;
	b->sent++;
}

static void lines_of(const struct frame *f, uint64_t *ret_first, uint64_t *ret_last)
{
	*ret_first = f->notes[0].line;
	*ret_last = f->notes[f->count - 1].line;
}

static void put_lines(struct sc_err *err, uint64_t first, uint64_t last)
{
	char text[48];

	if (first == last) {
		text[sc_u64_digits(text, first)] = '\0';
		sc_err_on(err, "on line", text);
	}
	sc_err_field_u64(err, "line", first);
	if (first != last)
		sc_err_field_u64(err, "last_line", last);
}

/* A row was refused for good: which one, and what became of those behind it. */
static int refused(struct sc_outbox *b, const struct frame *f, struct sc_err *err)
{
	uint64_t first = 0, last = 0;

	lines_of(f, &first, &last);
	if (first == last)
		sc_err_set(err, SC_E_DATA, tried, "the server refused the row: %s",
			   b->detail[0] ? b->detail : b->word);
	else
		sc_err_set(err, SC_E_DATA, tried,
			   "the server refused one of the lines %llu to %llu: %s",
			   (unsigned long long)first, (unsigned long long)last,
			   b->detail[0] ? b->detail : b->word);
	put_lines(err, first, last);
	sc_err_field_str(err, "refused", b->word);
	if (b->later_stored)
		return sc_err_next(err, "rows behind it were on their way already and are stored: "
					"with --window 1 none are");
	return sc_err_next(err,
			   "mend it, then publish from there on: the rows before it are stored");
}

/* Producers: the numbers do not follow what the server has. It is asked once; then that is an
 * error. */
static int fenced(struct sc_outbox *b, const struct frame *f, enum sc_outbox_step *ret_step,
		  struct sc_err *err)
{
	uint64_t at = f->notes[0].number;

	if (b->has_fenced && b->fenced_at == at && b->fenced_known == b->known) {
		sc_err_set(err, SC_E_REFUSED, tried,
			   "the server refuses the producer's row %llu: %s", (unsigned long long)at,
			   b->detail);
		sc_err_field_str(err, "why", b->word);
		put_lines(err, f->notes[0].line, f->notes[f->count - 1].line);
		return sc_err_next(err, "does another process publish as this producer?");
	}
	b->has_fenced = true;
	b->fenced_at = at;
	b->fenced_known = b->known;
	*ret_step = SC_OUTBOX_RECONNECT;
	return 0;
}

static bool is_word(const struct sc_outbox *b, const char *word)
{
	return strcmp(b->word, word) == 0;
}

/* All replies are in: what is done about the first refused frame? */
static int decide(struct sc_outbox *b, enum sc_outbox_step *ret_step, struct sc_err *err)
{
	struct frame *f = b->first;

	while (f && !f->failed)
		f = f->next;
	if (!f)
		return sc_err_set(err, SC_E_INTERNAL, tried, "no frame was refused");
	*ret_step = SC_OUTBOX_WAIT;
	if (is_word(b, SC_PUBLISH_FENCED) && b->o.producer)
		return fenced(b, f, ret_step, err);
	if (is_word(b, SC_PUBLISH_FAILED)) {
		if (b->o.producer || (b->o.again && !b->later_stored)) {
			*ret_step = SC_OUTBOX_LATER;
			return 0;
		}
		sc_err_set(err, SC_E_BUSY, tried, "the server cannot store rows now: %s",
			   b->detail[0] ? b->detail : b->word);
		put_lines(err, f->notes[0].line, f->notes[f->count - 1].line);
		return sc_err_next(err, "see to the server's disk, then publish from there on");
	}
	if (!is_word(b, SC_PUBLISH_REJECTED) && !is_word(b, SC_PUBLISH_BAD_FRAME)) {
		sc_err_set(err, SC_E_PROTOCOL, tried, "the server answered '%s': %s", b->word,
			   b->detail);
		put_lines(err, f->notes[0].line, f->notes[f->count - 1].line);
		return err ? err->code : SC_E_PROTOCOL;
	}
	if (f->count == 1 || b->later_stored)
		return refused(b, f, err);
	/* Which of its rows is it? Sent again in halves, the row is found in a few steps, and those
	 * before it are stored. */
	b->narrow = f->count;
	sc_outbox_resend(b);
	return cut(b, f, (f->count + 1) / 2, err);
}

int sc_outbox_settle(struct sc_outbox *b, enum sc_outbox_step *ret_step, struct sc_err *err)
{
	*ret_step = SC_OUTBOX_WAIT;
	return b->trouble && !b->sent ? decide(b, ret_step, err) : 0;
}

/* The oldest frame without a reply. */
static struct frame *awaited(const struct sc_outbox *b)
{
	struct frame *f = b->first;

	while (f && !f->sent)
		f = f->next;
	return f;
}

static int check_offsets(struct sc_outbox *b, const struct frame *f,
			 const struct sc_publish_reply *r, struct sc_err *err)
{
	if (r->count != f->count) {
		sc_err_set(err, SC_E_PROTOCOL, tried, "%zu rows were acknowledged with %zu offsets",
			   f->count, r->count);
		put_lines(err, f->notes[0].line, f->notes[f->count - 1].line);
		return sc_err_next(err, "report it to whoever runs the server");
	}
	if (!r->has_offsets)
		return 0;
	if (r->first == 0 || r->last - r->first != f->count - 1 ||
	    (!r->duplicate && r->first <= b->last_offset)) {
		sc_err_set(err, SC_E_PROTOCOL, tried,
			   "rows were acknowledged with the offsets %llu to %llu behind %llu",
			   (unsigned long long)r->first, (unsigned long long)r->last,
			   (unsigned long long)b->last_offset);
		put_lines(err, f->notes[0].line, f->notes[f->count - 1].line);
		return sc_err_next(err, "report it to whoever runs the server");
	}
	if (r->last > b->last_offset)
		b->last_offset = r->last;
	return 0;
}

int sc_outbox_reply(struct sc_outbox *b, struct sc_span text, enum sc_outbox_step *ret_step,
		    struct sc_err *err)
{
	struct sc_publish_reply r;
	struct frame *f = awaited(b);
	int rc = sc_publish_reply_parse(text, &r, err);

	if (rc < 0)
		return rc;
	if (!f) {
		sc_err_set(err, SC_E_PROTOCOL, tried, "a reply came where none was due");
		return sc_err_next(err, "report it to whoever runs the server");
	}
	if (r.ok)
		rc = check_offsets(b, f, &r, err);
	if (rc < 0)
		return rc;
	f->sent = false;
	b->sent--;
	if (r.ok) {
		b->later_stored |= b->trouble;
		b->stored = f;
		b->stored_first = r.has_offsets ? r.first : 0;
		*ret_step = SC_OUTBOX_STORED;
		return 0;
	}
	f->failed = true;
	if (!b->trouble) {
		b->trouble = true;
		memcpy(b->word, r.word, sizeof(b->word));
		memcpy(b->detail, r.detail, sizeof(b->detail));
	}
	*ret_step = SC_OUTBOX_WAIT;
	return sc_outbox_settle(b, ret_step, err);
}

bool sc_outbox_stored(const struct sc_outbox *b, size_t index, struct sc_outbox_row *ret_row)
{
	const struct frame *f = b->stored;
	const char *at;

	if (!f || index >= f->count)
		return false;
	/* asked in order: the place of the one before is in its own span */
	at = index ? ret_row->text.data + ret_row->text.len : f->text.data;
	*ret_row = (struct sc_outbox_row){
		.text = sc_span(at, f->notes[index].len),
		.line = f->notes[index].line,
		.number = f->notes[index].number,
		.offset = b->stored_first ? b->stored_first + index : 0,
	};
	return true;
}

void sc_outbox_drop(struct sc_outbox *b)
{
	struct frame *f = b->stored, *before = NULL;

	if (!f)
		return;
	b->stored = NULL;
	if (f == b->first) {
		b->line = f->notes[f->count - 1].line;
		b->first = f->next;
	} else {
		before = b->first;
		while (before->next != f)
			before = before->next;
		before->next = f->next;
	}
	if (b->last == f)
		b->last = before;
	b->acked = f->notes[f->count - 1].number;
	b->held -= f->text.len;
	b->frames--;
	b->moved++;
	b->narrow -= f->count < b->narrow ? f->count : b->narrow;
	b->has_fenced = false;
	frame_free(f);
}

bool sc_outbox_in_doubt(const struct sc_outbox *b, uint64_t *ret_first, uint64_t *ret_last)
{
	bool any = false;

	for (const struct frame *f = b->first; f; f = f->next) {
		uint64_t first, last;

		if (!f->sent)
			continue;
		lines_of(f, &first, &last);
		if (!any)
			*ret_first = first;
		*ret_last = last;
		any = true;
	}
	return any;
}

int sc_outbox_lost(struct sc_outbox *b, struct sc_err *err)
{
	uint64_t first = 0, last = 0;

	if (b->o.producer || b->o.again || !sc_outbox_in_doubt(b, &first, &last))
		return 0;
	if (first == last)
		sc_err_set(err, SC_E_UNAVAILABLE, "lost the connection",
			   "line %llu was sent and not acknowledged: it may be stored or not",
			   (unsigned long long)first);
	else
		sc_err_set(
			err, SC_E_UNAVAILABLE, "lost the connection",
			"the lines %llu to %llu were sent and not acknowledged: they may be stored "
			"or not",
			(unsigned long long)first, (unsigned long long)last);
	put_lines(err, first, last);
	sc_err_field_u64(err, "stored_line", b->line);
	return sc_err_next(err, "see what the stream has, then publish from the next line on; "
				"--producer spares this");
}

uint64_t sc_outbox_line(const struct sc_outbox *b)
{
	return b->line;
}

uint64_t sc_outbox_moved(const struct sc_outbox *b)
{
	return b->moved;
}
