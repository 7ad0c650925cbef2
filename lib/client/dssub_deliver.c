/* client/dssub_deliver.c: messages to the consumer, and what it has finished into the cursor. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "client/dssub_internal.h"

struct sc_dssub_mark { /* offsets that are no numbers: which key stands for which */
	struct sc_dssub_mark *next;
	uint64_t key;
	char offset[SC_DS_OFFSET_MAX];
};

/* The offset behind the last message that the consumer has finished; NULL: not moved. */
static const char *finished_offset(struct sc_dssub *s, uint64_t done, char text[SC_DS_OFFSET_MAX])
{
	const char *found = NULL;

	if (!s->keys) {
		sc_ds_position_text(done, text);
		return text;
	}
	while (s->first_mark && s->first_mark->key <= done) {
		struct sc_dssub_mark *m = s->first_mark;

		memcpy(text, m->offset, sizeof(m->offset));
		found = text;
		s->first_mark = m->next;
		if (!s->first_mark)
			s->end_mark = &s->first_mark;
		free(m);
	}
	return found;
}

int sc_dssub_keep(void *arg, struct sc_cursor *cursor, uint64_t done, struct sc_err *err)
{
	char text[SC_DS_OFFSET_MAX];
	const char *offset = finished_offset(arg, done, text);

	return offset ? sc_cursor_move_text(cursor, offset, err) : 0;
}

static int add_mark(struct sc_dssub *s, uint64_t *ret_key, struct sc_err *err)
{
	struct sc_span offset = sc_dsread_offset(s->read);
	struct sc_dssub_mark *m;

	*ret_key = ++s->keys;
	if (!sc_delivery_cursor(s->delivery))
		return 0;
	m = sc_calloc(1, sizeof(*m));
	if (!m)
		return sc_err_nomem(err, "cannot keep an offset");
	m->key = s->keys;
	memcpy(m->offset, offset.data, offset.len);
	*s->end_mark = m;
	s->end_mark = &m->next;
	return 0;
}

static int deliver(struct sc_dssub *s, const struct sc_ds_message *m, struct sc_err *err)
{
	struct sc_data row = { .has_offset = m->position != 0,
			       .offset = m->position,
			       .msg = m->msg,
			       .newlines = m->newlines };
	uint64_t key = m->position, lines;
	int rc = 0;

	s->result.rows++;
	if (m->position)
		s->result.last = s->result.resume = m->position;
	else if (m->last)
		rc = add_mark(s, &key, err);
	if (rc == 0)
		rc = sc_delivery_row(s->delivery, &row, key, &lines, err);
	if (rc == 0)
		sc_delivery_watch(s->delivery, true);
	return rc;
}

static bool enough(const struct sc_dssub *s)
{
	return s->o->session.count && sc_delivery_lines(s->delivery) >= s->o->session.count;
}

/* Of the messages that are there, as many as the consumer takes: true when none is left. */
bool sc_dssub_deliver(struct sc_dssub *s)
{
	struct sc_ds_message m;
	struct sc_err err;

	while (!sc_dssub_ending(s) && !sc_delivery_full(s->delivery)) {
		if (!sc_dsread_next(s->read, &m)) {
			if (sc_dsread_finished(s->read))
				sc_ending_begin(s->ending);
			return !sc_dssub_ending(s);
		}
		if (deliver(s, &m, &err) < 0)
			sc_ending_give_up(s->ending, &err);
		else if (enough(s))
			sc_ending_begin(s->ending);
	}
	return false;
}

void sc_dssub_forget(struct sc_dssub *s)
{
	while (s->first_mark) {
		struct sc_dssub_mark *m = s->first_mark;

		s->first_mark = m->next;
		free(m);
	}
	s->end_mark = &s->first_mark;
}
