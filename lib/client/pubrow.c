/* client/pubrow.c: a line of input as the row that is published. */
#include "client/pubrow.h"

#include <stdlib.h>

#include "base/file.h"
#include "json/line.h"
#include "json/schema.h"

static const char tried[] = "cannot publish";

struct sc_pubrow {
	struct sc_pubrow_options o;
	struct sc_schema *schema;
	struct sc_bytes schema_text; /* as the server said it */
	struct sc_bytes row, check;
	uint64_t last; /* number of the last row taken, or that the server has */
};

int sc_pubrow_new(const struct sc_pubrow_options *options, struct sc_pubrow **ret_pubrow,
		  struct sc_err *err)
{
	struct sc_pubrow *p = sc_calloc(1, sizeof(*p));

	if (!p)
		return sc_err_nomem(err, tried);
	p->o = *options;
	sc_bytes_init(&p->schema_text, 16u << 20);
	sc_bytes_init(&p->row, SIZE_MAX / 4);
	sc_bytes_init(&p->check, SIZE_MAX / 4);
	*ret_pubrow = p;
	return 0;
}

void sc_pubrow_free(struct sc_pubrow *p)
{
	if (!p)
		return;
	sc_schema_free(p->schema);
	sc_bytes_done(&p->schema_text);
	sc_bytes_done(&p->row);
	sc_bytes_done(&p->check);
	free(p);
}

int sc_pubrow_schema(struct sc_pubrow *p, struct sc_span text, struct sc_err *err)
{
	struct sc_err why;

	if (p->schema_text.len == text.len &&
	    (text.len == 0 || !memcmp(p->schema_text.data, text.data, text.len)))
		return 0;
	sc_schema_free(p->schema);
	p->schema = NULL;
	sc_bytes_clear(&p->schema_text);
	if (sc_bytes_put(&p->schema_text, text.data, text.len) < 0)
		return sc_err_nomem(err, tried);
	if (text.len && sc_schema_parse(text, &p->schema, &why) == SC_E_NOMEM)
		return sc_err_nomem(err, tried);
	return 0; /* a schema of a newer kind than ours: the server checks */
}

void sc_pubrow_stored(struct sc_pubrow *p, uint64_t number)
{
	if (number > p->last)
		p->last = number;
}

static int on_line(struct sc_err *err, uint64_t line)
{
	char digits[24];

	digits[sc_u64_digits(digits, line)] = '\0';
	sc_err_on(err, "on line", digits);
	return sc_err_field_u64(err, "line", line);
}

/* The message of a line; 1 and its offset when it is a pair. */
static int unpair(const struct sc_pubrow *p, struct sc_span text, struct sc_line *ret_pair,
		  struct sc_err *err)
{
	if (p->o.form == SC_PUBROW_BARE || p->o.form == SC_PUBROW_LINES)
		return 0;
	if (!sc_line_parse(text, false, ret_pair)) {
		if (p->o.form == SC_PUBROW_AUTO)
			return 0;
		sc_err_set(err, SC_E_DATA, tried, "it is not a pair [offset,msg]");
		return sc_err_next(err, "rows without offsets are taken with --bare or --numbered");
	}
	if (p->o.form == SC_PUBROW_PAIRS && ret_pair->null_offset)
		return sc_err_set(err, SC_E_DATA, tried,
				  "its offset is null: it is from a stream that is not durable");
	return 1;
}

static int check(struct sc_pubrow *p, struct sc_span *row, struct sc_err *err)
{
	struct sc_json value;
	int rc = sc_json_scan(*row, &value, err);

	if (rc == SC_E_DATA && p->o.wrap && !p->schema) {
		sc_bytes_clear(&p->row);
		if (sc_wrap_message(*row, false, &p->row) < 0)
			return sc_err_nomem(err, tried);
		*row = sc_span(p->row.data, p->row.len);
		return 0;
	}
	if (rc < 0)
		return rc;
	if (!p->o.any && value.kind != SC_JSON_OBJECT) {
		sc_err_set(err, SC_E_DATA, tried, "a row is an object, not %s",
			   sc_json_kind_name(value.kind));
		return SC_E_DATA;
	}
	if (!p->schema)
		return 0;
	sc_bytes_clear(&p->check);
	return sc_row_project(p->schema, *row, &p->check, err);
}

/* Its number; false: the server has it, or a later one. */
static bool number_it(struct sc_pubrow *p, const struct sc_line *pair, uint64_t line,
		      uint64_t *ret_number)
{
	uint64_t number = p->last + 1;

	if (p->o.form == SC_PUBROW_PAIRS)
		number = pair->offset;
	else if (p->o.form == SC_PUBROW_LINES)
		number = line;
	if (number <= p->last)
		return false;
	*ret_number = number;
	return true;
}

static int not_above(const struct sc_pubrow *p, uint64_t offset, struct sc_err *err)
{
	sc_err_set(err, SC_E_DATA, tried, "its offset is %llu, and %llu came before it",
		   (unsigned long long)offset, (unsigned long long)p->last);
	return sc_err_next(err, "give rows in the order of their offsets");
}

int sc_pubrow_take(struct sc_pubrow *p, struct sc_span line, uint64_t line_number,
		   struct sc_span *ret_row, uint64_t *ret_number, struct sc_err *err)
{
	struct sc_span text = sc_json_trim(line);
	struct sc_line pair = { 0 };
	int rc;

	if (text.len == 0)
		return 0;
	rc = unpair(p, text, &pair, err);
	if (rc == 1)
		text = pair.msg;
	if (rc >= 0 && !number_it(p, &pair, line_number, ret_number)) {
		if (!p->o.rising)
			return 2;
		rc = not_above(p, pair.offset, err);
	}
	if (rc >= 0)
		rc = check(p, &text, err);
	if (rc < 0) {
		on_line(err, line_number);
		return rc;
	}
	p->last = *ret_number;
	*ret_row = text;
	return 1;
}

int sc_pubrow_line(struct sc_pubrow *p, struct sc_span row, uint64_t offset, struct sc_bytes *out)
{
	char head[SC_LINE_HEAD_MAX];
	size_t start = out->len, text;
	int rc;

	rc = offset ? sc_bytes_put(out, head, sc_line_head(head, offset))
		    : sc_bytes_puts(out, "[null,");
	text = out->len;
	if (rc == 0 && (!p->schema || sc_row_project(p->schema, row, out, NULL) < 0)) {
		out->len = text; /* judged by another schema: as it was sent */
		rc = sc_bytes_put(out, row.data, row.len);
	}
	if (rc == 0)
		rc = sc_bytes_puts(out, "]\n");
	if (rc < 0)
		out->len = start;
	return rc;
}
