/* client/rows.c: a row as the consumer gets it. */
#include "client/rows.h"

#include <stdlib.h>

#include "base/file.h"
#include "json/jq.h"
#include "json/line.h"
#include "json/scan.h"

struct sc_rows {
	struct sc_jq *jq;
	bool payload;
	struct sc_bytes value; /* a row whose white space would break the line */
};

/* One run of the filter. */
struct run {
	struct sc_rows *rows;
	const struct sc_data *row;
	struct sc_bytes *out;
	uint64_t lines;
};

int sc_rows_new(const char *filter, bool payload, struct sc_rows **ret_rows, struct sc_err *err)
{
	struct sc_rows *r = sc_calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return sc_err_nomem(err, "cannot set up rows");
	r->payload = payload;
	sc_bytes_init(&r->value, SIZE_MAX / 4);
	rc = filter ? sc_jq_compile(filter, &r->jq, err) : 0;
	if (rc < 0) {
		sc_rows_free(r);
		return rc;
	}
	*ret_rows = r;
	return 0;
}

void sc_rows_free(struct sc_rows *r)
{
	if (!r)
		return;
	sc_jq_free(r->jq);
	sc_bytes_done(&r->value);
	free(r);
}

static int put_line(const struct run *run, struct sc_span value)
{
	const struct sc_data *row = run->row;
	char head[SC_LINE_HEAD_MAX];
	int rc = 0;

	if (!run->rows->payload)
		rc = row->has_offset ? sc_bytes_put(run->out, head, sc_line_head(head, row->offset))
				     : sc_bytes_puts(run->out, "[null,");
	if (rc == 0)
		rc = sc_bytes_put(run->out, value.data, value.len);
	return rc < 0 ? rc : sc_bytes_puts(run->out, run->rows->payload ? "\n" : "]\n");
}

/* The row's own bytes, on one line. */
static int put_row(struct run *run)
{
	struct sc_span value = run->row->msg;
	struct sc_json scanned;

	if (run->row->newlines) {
		sc_bytes_clear(&run->rows->value);
		if (sc_json_scan(value, &scanned, NULL) < 0 ||
		    sc_json_put_line(&scanned, &run->rows->value) < 0)
			return SC_E_NOMEM;
		value = sc_span(run->rows->value.data, run->rows->value.len);
	}
	run->lines++;
	return put_line(run, value);
}

static int take_result(void *arg, struct sc_span result, struct sc_err *err)
{
	struct run *run = arg;

	if (put_line(run, result) < 0)
		return sc_err_nomem(err, "cannot keep a row");
	run->lines++;
	return 0;
}

/* Which row it was that the filter failed on. */
static int name_row(uint64_t offset, struct sc_err *err)
{
	char digits[24];

	digits[sc_u64_digits(digits, offset)] = 0;
	sc_err_field_u64(err, "offset", offset);
	if (err && err->code == SC_E_DATA && !err->next[0])
		sc_err_next(err,
			    "let the program handle such rows (with ? or //), or leave it out");
	return sc_err_on(err, "on row", digits);
}

int sc_rows_lines(struct sc_rows *r, const struct sc_data *row, struct sc_bytes *out,
		  uint64_t *ret_lines, struct sc_err *err)
{
	struct run run = { r, row, out, 0 };
	size_t before = out->len;
	enum sc_jq_answer answer = SC_JQ_KEEP;
	int rc = 0;

	if (r->jq) {
		rc = sc_jq_pass(r->jq, row->msg, take_result, &run, &answer, err);
		if (rc < 0) {
			out->len = before;
			return row->has_offset ? name_row(row->offset, err) : rc;
		}
	}
	if (answer == SC_JQ_KEEP && put_row(&run) < 0) {
		out->len = before;
		return sc_err_nomem(err, "cannot keep a row");
	}
	*ret_lines = run.lines;
	return 0;
}
