/* proof.c: compare a log with what was acknowledged. */
#include "proof_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log/block.h"
#include "log/log.h"
#include "log/reader.h"

#define PIDS_MAX 64

bool proof_wrong(char *text, size_t size, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(text, size, format, args);
	va_end(args);
	return false;
}

bool proof_failed(char *text, size_t size, const char *what, const struct sc_err *err)
{
	char line[1200];

	sc_err_line(err, line, sizeof(line));
	return proof_wrong(text, size, "%s: %s", what, line);
}

/* --- what was acknowledged --- */

static bool head_of(struct sc_span line, uint64_t *ret_offset, struct sc_span *ret_msg)
{
	const char *comma = line.len ? memchr(line.data, ',', line.len) : NULL;

	if (!comma || line.data[0] != '[' || line.data[line.len - 1] != ']' ||
	    !sc_u64_parse(sc_span(line.data + 1, (size_t)(comma - line.data - 1)), ret_offset))
		return false;
	*ret_msg = sc_span(comma + 1, line.len - (size_t)(comma - line.data) - 2);
	return true;
}

struct partial {
	uint32_t pid;
	struct sc_bytes text;
};

static bool take_line(struct expect *e, struct sc_span line, size_t when, char *text, size_t size)
{
	uint64_t offset;
	struct sc_span msg;

	if (!head_of(line, &offset, &msg))
		return true; /* a program's other words */
	if (offset == 0 || offset >= ROWS_MAX)
		return proof_wrong(text, size, "offset %llu was acknowledged",
				   (unsigned long long)offset);
	if (e->rows[offset].line.data)
		return proof_wrong(text, size, "offset %llu was acknowledged twice",
				   (unsigned long long)offset);
	/* the pointer is put right when all of the text is there */
	e->rows[offset] = (struct told){ { (const char *)(uintptr_t)(e->text.len + 1), line.len },
					 when,
					 e->rows[offset].ends };
	if (offset > e->last)
		e->last = offset;
	return sc_bytes_put(&e->text, line.data, line.len) == 0 ||
	       proof_wrong(text, size, "out of memory");
}

static bool take_ack(struct expect *e, struct partial *parts, const struct rec *rec, size_t when,
		     char *text, size_t size)
{
	struct partial *p = parts;

	while (p < parts + PIDS_MAX && p->pid && p->pid != rec->pid)
		p++;
	if (p == parts + PIDS_MAX)
		return proof_wrong(text, size, "too many processes");
	if (!p->pid)
		sc_bytes_init(&p->text, 64u << 20);
	p->pid = rec->pid;
	if (sc_bytes_put(&p->text, rec_data(rec), rec->data_len) < 0)
		return proof_wrong(text, size, "out of memory");
	for (;;) {
		char *lf = p->text.len ? memchr(p->text.data, '\n', p->text.len) : NULL;

		if (!lf)
			return true;
		if (!take_line(e, sc_span(p->text.data, (size_t)(lf - p->text.data)), when, text,
			       size))
			return false;
		sc_bytes_drop(&p->text, (size_t)(lf - p->text.data) + 1);
	}
}

/* The blocks in a write say where commits end. */
static void take_write(struct expect *e, const struct rec *rec)
{
	struct sc_block block;
	size_t at = 0;

	while (rec->data_len - at >= SC_BLOCK_HEAD && sc_block_parse(rec_data(rec) + at, &block) &&
	       sc_block_size(&block) <= rec->data_len - at) {
		if (block.rows && !block.more && block.last < ROWS_MAX)
			e->rows[block.last].ends = true;
		e->split += block.more;
		at += sc_block_size(&block);
	}
}

void expect_load(const struct trace *trace, struct expect *e, char *text, size_t size)
{
	struct partial parts[PIDS_MAX];
	bool good = true;

	memset(parts, 0, sizeof(parts));
	memset(e, 0, sizeof(*e));
	text[0] = 0;
	sc_bytes_init(&e->text, 256u << 20);
	e->rows = calloc(ROWS_MAX, sizeof(*e->rows));
	if (!e->rows) {
		proof_wrong(text, size, "out of memory");
		return;
	}
	for (size_t i = 0; good && i < trace->count; i++) {
		if (trace->recs[i]->kind == REC_ACK)
			good = take_ack(e, parts, trace->recs[i], i, text, size);
		else if (trace->recs[i]->kind == REC_WRITE)
			take_write(e, trace->recs[i]);
		else if (trace->recs[i]->kind == REC_MARK && trace->recs[i]->data_len == 6 &&
			 !memcmp(rec_data(trace->recs[i]), "sealed", 6))
			e->seals = true;
		else if (trace->recs[i]->kind == REC_MARK && trace->recs[i]->data_len > 8 &&
			 !memcmp(rec_data(trace->recs[i]), "shipped ", 8))
			e->ships = true;
	}
	for (int i = 0; i < PIDS_MAX && parts[i].pid; i++)
		sc_bytes_done(&parts[i].text);
	for (uint64_t o = 1; good && o <= e->last; o++) {
		if (!e->rows[o].line.data)
			good = proof_wrong(text, size, "offset %llu was never acknowledged",
					   (unsigned long long)o);
		else
			e->rows[o].line.data = e->text.data + (uintptr_t)e->rows[o].line.data - 1;
	}
}

void expect_done(struct expect *e)
{
	free(e->rows);
	sc_bytes_done(&e->text);
}

void moment_pass(struct moment *m, const struct expect *e, const struct trace *trace, size_t when)
{
	const struct rec *rec = trace->recs[when];
	char word[64];
	unsigned long long n;

	if (rec->kind == REC_ACK)
		while (m->acked < e->last && e->rows[m->acked + 1].when <= when)
			m->acked++;
	if (rec->kind != REC_MARK || rec->data_len >= sizeof(word))
		return;
	memcpy(word, rec_data(rec), rec->data_len);
	word[rec->data_len] = 0;
	if (sscanf(word, "trim %llu", &n) == 1)
		m->floor_begun = n;
	if (sscanf(word, "trimmed %llu", &n) == 1)
		m->floor_done = n;
	if (sscanf(word, "migrate %llu", &n) == 1)
		m->schema_begun = n;
	if (sscanf(word, "migrated %llu", &n) == 1)
		m->schema_done = n;
	if (sscanf(word, "shipped %llu", &n) == 1)
		m->shipped = n;
	if (!strcmp(word, "created"))
		m->created = true;
}

/* --- the check --- */

static bool check_line(const struct expect *e, struct found *f, struct sc_span line, char *text,
		       size_t size)
{
	uint64_t offset;
	struct sc_span msg;
	unsigned long long source;
	char start[40];

	if (!head_of(line, &offset, &msg))
		return proof_wrong(text, size, "a line is torn: '%.*s'",
				   (int)(line.len < 60 ? line.len : 60), line.data);
	if (f->last && offset != f->last + 1)
		return proof_wrong(text, size, "offset %llu follows %llu",
				   (unsigned long long)offset, (unsigned long long)f->last);
	if (offset > e->last)
		return proof_wrong(text, size, "offset %llu was never appended",
				   (unsigned long long)offset);
	if (line.len != e->rows[offset].line.len ||
	    memcmp(line.data, e->rows[offset].line.data, line.len) != 0)
		return proof_wrong(text, size, "offset %llu holds other bytes: '%.*s'",
				   (unsigned long long)offset, (int)(line.len < 60 ? line.len : 60),
				   line.data);
	snprintf(start, sizeof(start), "%.*s", (int)(msg.len < 39 ? msg.len : 39), msg.data);
	if (sscanf(start, "{\"s\":%llu", &source) == 1)
		f->source = source;
	if (!f->first)
		f->first = offset;
	f->last = offset;
	return true;
}

bool proof_lines(const struct expect *e, struct found *f, struct sc_span lines, char *text,
		 size_t size)
{
	while (lines.len) {
		const char *lf = memchr(lines.data, '\n', lines.len);

		if (!lf)
			return proof_wrong(text, size, "a run ends inside a line");
		if (!check_line(e, f, sc_span(lines.data, (size_t)(lf - lines.data)), text, size))
			return false;
		lines = sc_span(lf + 1, lines.len - (size_t)(lf - lines.data) - 1);
	}
	return true;
}

static bool read_rows(struct sc_reader *reader, const struct expect *e, struct found *f, char *text,
		      size_t size)
{
	struct sc_err err;
	struct sc_run run;
	int rc;

	while ((rc = sc_reader_next(reader, 0, &run, &err)) == 1) {
		if (!proof_lines(e, f, run.lines, text, size))
			return false;
		if (run.last != f->last)
			return proof_wrong(text, size,
					   "a run says its last row is %llu, it is %llu",
					   (unsigned long long)run.last,
					   (unsigned long long)f->last);
	}
	return rc == 0 || proof_failed(text, size, "cannot read on", &err);
}

static bool check_rows(const struct sc_log_state *st, const struct expect *e,
		       const struct moment *m, const struct found *f, char *text, size_t size)
{
	uint64_t last = st->next_offset - 1;

	if (f->last && f->last != last)
		return proof_wrong(text, size, "the last row read is %llu, the state says %llu",
				   (unsigned long long)f->last, (unsigned long long)last);
	if (last < m->acked)
		return proof_wrong(text, size,
				   "rows up to %llu were acknowledged, the log ends at %llu",
				   (unsigned long long)m->acked, (unsigned long long)last);
	if (last && !e->rows[last].ends)
		return proof_wrong(text, size, "it ends at %llu, inside a commit",
				   (unsigned long long)last);
	if (f->first != (f->first ? st->first_offset : 0) ||
	    (!f->first && st->first_offset != st->next_offset))
		return proof_wrong(text, size, "the first row read is %llu, the state says %llu",
				   (unsigned long long)f->first,
				   (unsigned long long)st->first_offset);
	if (st->rows != (f->first ? f->last - f->first + 1 : 0))
		return proof_wrong(text, size,
				   "the state says %llu rows, from %llu to %llu were read",
				   (unsigned long long)st->rows, (unsigned long long)f->first,
				   (unsigned long long)f->last);
	if (st->first_offset > (m->floor_begun ? m->floor_begun : 1))
		return proof_wrong(text, size,
				   "rows from %llu on were acknowledged, it begins at %llu",
				   (unsigned long long)m->floor_begun,
				   (unsigned long long)st->first_offset);
	if (st->first_offset < m->floor_done)
		return proof_wrong(text, size, "rows below %llu were trimmed, it begins at %llu",
				   (unsigned long long)m->floor_done,
				   (unsigned long long)st->first_offset);
	return true;
}

static bool check_source(struct sc_log *log, const struct expect *e, const struct found *f,
			 char *text, size_t size)
{
	struct sc_err err;
	uint64_t got = 0, want = f->source;
	int rc = sc_log_source(log, SC_SPAN("src"), &got, &err);

	if (rc < 0)
		return proof_failed(text, size, "cannot ask for the source", &err);
	/* its rows may all be trimmed: then it is what the last of them said */
	for (uint64_t o = f->first ? f->first - 1 : f->last; !want && o >= 1; o--) {
		unsigned long long n;
		char line[64];

		snprintf(line, sizeof(line), "%.*s",
			 (int)(e->rows[o].line.len < 63 ? e->rows[o].line.len : 63),
			 e->rows[o].line.data);
		if (sscanf(line, "[%*u,{\"s\":%llu", &n) == 1)
			want = n;
	}
	if (got != want)
		return proof_wrong(text, size,
				   "the source stands at %llu, its last row in the log is %llu",
				   (unsigned long long)got, (unsigned long long)want);
	return true;
}

#define ERAS_MAX 16

struct eras {
	struct {
		uint64_t version, from;
		bool has;
	} items[ERAS_MAX];
	size_t count;
};

static int add_era(void *arg, uint64_t version, uint64_t from, struct sc_span schema)
{
	struct eras *eras = arg;

	if (eras->count == ERAS_MAX)
		return SC_E_INTERNAL;
	eras->items[eras->count].version = version;
	eras->items[eras->count].from = from;
	eras->items[eras->count++].has = schema.len &&
					 memmem(schema.data, schema.len, "\"mig\"", 5);
	return 0;
}

/* Each row was stored by the schema that is said to have been in force. */
static bool check_schemas(struct sc_log *log, const struct expect *e, const struct moment *m,
			  const struct found *f, char *text, size_t size)
{
	struct eras eras = { .count = 0 };
	struct sc_err err;
	uint64_t version;

	if (sc_log_schemas(log, add_era, &eras, &err) < 0)
		return proof_failed(text, size, "cannot ask for the schemas", &err);
	version = eras.items[eras.count - 1].version;
	if (version < m->schema_done || version > (m->schema_begun ? m->schema_begun : 1))
		return proof_wrong(text, size,
				   "schema %llu is in force, where %llu was put and %llu was to be",
				   (unsigned long long)version, (unsigned long long)m->schema_done,
				   (unsigned long long)m->schema_begun);
	for (uint64_t o = f->first; o && o <= f->last; o++) {
		size_t i = eras.count - 1;

		while (i > 0 && eras.items[i].from > o)
			i--;
		if (eras.items[i].has !=
		    (memmem(e->rows[o].line.data, e->rows[o].line.len, "\"mig\"", 5) != NULL))
			return proof_wrong(text, size, "row %llu was not stored by schema %llu",
					   (unsigned long long)o,
					   (unsigned long long)eras.items[i].version);
	}
	return true;
}

/* Append one row: it gets the next offset, and READER finds it and nothing else. */
static bool go_on(const char *path, struct sc_log *log, struct sc_reader *reader, uint64_t next,
		  char *text, size_t size)
{
	static const char row[] = "{\"after\":\"the cut\"}";
	const uint32_t len = sizeof(row) - 1;
	struct sc_log_rows rows = { .text = { row, len }, .lens = &len, .count = 1 };
	struct sc_log_commit commit;
	struct sc_log_proof proof;
	struct sc_log_state st;
	struct sc_run run;
	struct sc_err err;
	char want[64];

	if (sc_log_append(log, &rows, &commit, &err) < 0)
		return proof_failed(text, size, "cannot append afterwards", &err);
	if (commit.first != next)
		return proof_wrong(text, size, "the next row got offset %llu, not %llu",
				   (unsigned long long)commit.first, (unsigned long long)next);
	if (sc_reader_next(reader, 0, &run, &err) != 1)
		return proof_wrong(text, size, "the row appended afterwards cannot be read");
	snprintf(want, sizeof(want), "[%llu,%s]\n", (unsigned long long)next, row);
	if (run.lines.len != strlen(want) || memcmp(run.lines.data, want, run.lines.len) != 0)
		return proof_wrong(text, size, "the row appended afterwards reads '%.*s'",
				   (int)(run.lines.len & 127), run.lines.data);
	if (sc_log_state(log, &st, &err) < 0)
		return proof_failed(text, size, "cannot ask for the state afterwards", &err);
	if (sc_log_verify(path, 0, 0, &proof, &err) < 0)
		return proof_failed(text, size, "verify", &err);
	if (proof.rows != st.rows || proof.last != next)
		return proof_wrong(text, size, "verify counts %llu rows to %llu, not %llu to %llu",
				   (unsigned long long)proof.rows, (unsigned long long)proof.last,
				   (unsigned long long)st.rows, (unsigned long long)next);
	return true;
}

static bool check_log(const char *path, struct sc_log *log, const struct expect *e,
		      const struct moment *m, char *text, size_t size)
{
	struct found f = { 0, 0, 0 };
	struct sc_log *writer = NULL;
	struct sc_reader *reader = NULL;
	struct sc_log_state st;
	struct sc_err err;
	bool good = false;

	if (sc_log_state(log, &st, &err) < 0)
		return proof_failed(text, size, "cannot ask for the state", &err);
	if (sc_reader_open(log, 0, &reader, &err) < 0)
		return proof_failed(text, size, "cannot read", &err);
	good = read_rows(reader, e, &f, text, size) && check_rows(&st, e, m, &f, text, size);
	if (good && !f.last)
		f.last = st.next_offset - 1;
	good = good && check_source(log, e, &f, text, size);
	good = good && check_schemas(log, e, m, &f, text, size);
	if (good && sc_log_open(path, SC_LOG_APPEND, &writer, &err) < 0)
		good = proof_failed(text, size, "cannot open for appending", &err);
	good = good && go_on(path, writer, reader, st.next_offset, text, size);
	sc_reader_close(reader);
	sc_log_close(writer);
	return good;
}

static void check_reopen(const char *path, uint64_t next, char *text, size_t size)
{
	struct sc_log *log = NULL;
	struct sc_log_state st;
	struct sc_err err;

	if (sc_log_open(path, SC_LOG_READ, &log, &err) < 0 || sc_log_state(log, &st, &err) < 0)
		proof_failed(text, size, "cannot open once more", &err);
	else if (st.next_offset != next)
		proof_wrong(text, size, "opened once more it goes on at %llu, not %llu",
			    (unsigned long long)st.next_offset, (unsigned long long)next);
	sc_log_close(log);
}

void proof_check(const char *path, const struct expect *e, const struct moment *m,
		 bool append_first, char *text, size_t size)
{
	struct sc_log *log = NULL;
	struct sc_log_settings settings = { .journal_bytes = 0 };
	struct sc_log_state st = { .next_offset = 0 };
	struct sc_err err;
	int rc;

	text[0] = 0;
	rc = sc_log_open(path, append_first ? SC_LOG_APPEND : SC_LOG_READ, &log, &err);
	if (rc < 0 && !m->created && m->acked == 0) {
		/* it was being made: then it can be made again */
		if (sc_log_create(path, &settings, &err) < 0)
			proof_failed(text, size, "cannot be made again", &err);
		return;
	}
	if (rc < 0) {
		proof_failed(text, size, "cannot open", &err);
		return;
	}
	if (check_log(path, log, e, m, text, size) && sc_log_state(log, &st, &err) < 0)
		proof_failed(text, size, "cannot ask for the state at the end", &err);
	sc_log_close(log);
	if (!text[0])
		proof_sealed(path, e, m, st.first_offset, st.next_offset, text, size);
	if (!text[0])
		check_reopen(path, st.next_offset, text, size);
}
