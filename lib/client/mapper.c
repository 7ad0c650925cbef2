/* client/mapper.c: messages of a feed made into lines. */
#include "client/mapper.h"

#include <stdlib.h>

#include "base/file.h"
#include "json/jq.h"
#include "json/line.h"
#include "json/scan.h"

struct sc_mapper {
	struct sc_mapper_options o;
	struct sc_jq *jq;
	struct sc_bytes raw_key, stamp_key; /* {"raw": and {"received_us": */
	uint64_t skipped;
};

/* What one run of the program gives. */
struct run {
	struct sc_mapper *mapper;
	struct sc_bytes *out;
	int64_t received_us;
	uint64_t lines;
};

static int make_key(struct sc_bytes *key, const char *column)
{
	int rc;

	sc_bytes_init(key, 1 << 20);
	if (!column)
		return 0;
	rc = sc_bytes_putc(key, '{');
	if (rc == 0)
		rc = sc_bytes_put_json(key, sc_span_str(column));
	if (rc == 0)
		rc = sc_bytes_putc(key, ':');
	return rc;
}

int sc_mapper_new(const struct sc_mapper_options *options, struct sc_mapper **ret_mapper,
		  struct sc_err *err)
{
	struct sc_mapper *m = sc_calloc(1, sizeof(*m));
	int rc;

	if (!m)
		return sc_err_nomem(err, "cannot set up rows");
	m->o = *options;
	if (make_key(&m->raw_key, options->raw) < 0 ||
	    make_key(&m->stamp_key, options->stamp) < 0) {
		sc_mapper_free(m);
		return sc_err_nomem(err, "cannot set up rows");
	}
	if (options->program) {
		rc = sc_jq_compile(options->program, &m->jq, err);
		if (rc < 0) {
			sc_mapper_free(m);
			return rc;
		}
	}
	*ret_mapper = m;
	return 0;
}

void sc_mapper_free(struct sc_mapper *m)
{
	if (!m)
		return;
	sc_jq_free(m->jq);
	sc_bytes_done(&m->raw_key);
	sc_bytes_done(&m->stamp_key);
	free(m);
}

uint64_t sc_mapper_skipped(const struct sc_mapper *m)
{
	return m->skipped;
}

/* VALUE on a line, with the time of receipt as the first member where that was asked for: an
 * object gets it among its own members, anything else becomes the member "message". */
static int put_value(struct sc_mapper *m, struct sc_span value, int64_t received_us,
		     struct sc_bytes *out)
{
	struct sc_json scanned;
	int rc;

	if (!m->o.stamp) {
		rc = sc_bytes_put(out, value.data, value.len);
		return rc < 0 ? rc : sc_bytes_putc(out, '\n');
	}
	rc = sc_json_scan(value, &scanned, NULL);
	if (rc == 0)
		rc = sc_bytes_put(out, m->stamp_key.data, m->stamp_key.len);
	if (rc == 0)
		rc = sc_bytes_put_i64(out, received_us);
	if (rc < 0)
		return rc;
	if (scanned.kind == SC_JSON_OBJECT) {
		struct sc_span rest = sc_json_trim(
			sc_span(scanned.text.data + 1, scanned.text.len - 1));

		if (rest.len > 1) /* more than the closing brace */
			rc = sc_bytes_putc(out, ',');
		if (rc == 0)
			rc = sc_bytes_put(out, rest.data, rest.len);
	} else {
		rc = sc_bytes_puts(out, ",\"message\":");
		if (rc == 0)
			rc = sc_bytes_put(out, scanned.text.data, scanned.text.len);
		if (rc == 0)
			rc = sc_bytes_putc(out, '}');
	}
	return rc < 0 ? rc : sc_bytes_putc(out, '\n');
}

/* The message itself as a line's value. */
static int put_message(struct sc_mapper *m, struct sc_span message, bool binary,
		       int64_t received_us, struct sc_bytes *out, struct sc_err *err)
{
	struct sc_bytes wrapped;
	int rc;

	sc_bytes_init(&wrapped, SIZE_MAX / 4);
	rc = sc_wrap_message(message, binary && m->o.binary == SC_BINARY_BASE64, &wrapped);
	if (rc == 0)
		rc = put_value(m, sc_span(wrapped.data, wrapped.len), received_us, out);
	sc_bytes_done(&wrapped);
	return rc < 0 ? sc_err_nomem(err, "cannot keep a message") : 0;
}

/* {"raw":"..."}: the text as a string; of bytes that are not UTF-8 the wrapped form is the text. */
static int put_raw(struct sc_mapper *m, struct sc_span message, bool binary, int64_t received_us,
		   struct sc_bytes *out, struct sc_err *err)
{
	struct sc_bytes row, wrapped;
	int rc;

	sc_bytes_init(&row, SIZE_MAX / 4);
	sc_bytes_init(&wrapped, SIZE_MAX / 4);
	rc = sc_bytes_put(&row, m->raw_key.data, m->raw_key.len);
	if (rc == 0 && (!sc_utf8_valid(message) || (binary && m->o.binary == SC_BINARY_BASE64))) {
		rc = sc_wrap_message(message, true, &wrapped);
		message = sc_span(wrapped.data, wrapped.len);
	}
	if (rc == 0)
		rc = sc_bytes_put_json(&row, message);
	if (rc == 0)
		rc = sc_bytes_putc(&row, '}');
	if (rc == 0)
		rc = put_value(m, sc_span(row.data, row.len), received_us, out);
	sc_bytes_done(&row);
	sc_bytes_done(&wrapped);
	return rc < 0 ? sc_err_nomem(err, "cannot keep a message") : 0;
}

static int take_result(void *arg, struct sc_span result, struct sc_err *err)
{
	struct run *run = arg;

	if (run->mapper->o.raw && (result.len == 0 || result.data[0] != '{')) {
		sc_err_set(err, SC_E_DATA, "cannot make a row",
			   "the program gave something else than an object");
		return SC_E_DATA;
	}
	if (put_value(run->mapper, result, run->received_us, run->out) < 0)
		return sc_err_nomem(err, "cannot keep a row");
	run->lines++;
	return 0;
}

/* Rows by the program; what it gave before it failed is not kept, so that a message gives its rows
 * or none. */
static int put_rows(struct sc_mapper *m, struct sc_span message, bool binary, struct run *run,
		    struct sc_err *err)
{
	struct sc_err why;
	struct sc_json scanned;
	size_t before = run->out->len;
	int rc;

	rc = binary && m->o.binary == SC_BINARY_BASE64
		     ? sc_err_set(&why, SC_E_DATA, "cannot make a row", "the frame is binary")
		     : sc_json_scan(message, &scanned, &why);
	if (rc == 0)
		rc = sc_jq_map(m->jq, message, take_result, run, &why);
	if (rc == 0 && (run->lines > 0 || !m->o.raw))
		return 0;
	run->out->len = before;
	run->lines = 0;
	if (rc < 0 && rc != SC_E_DATA) {
		if (err)
			*err = why;
		return rc;
	}
	if (m->o.raw) {
		rc = put_raw(m, message, binary, run->received_us, run->out, err);
		run->lines = rc == 0;
		return rc;
	}
	m->skipped++;
	if (m->o.skipped)
		m->o.skipped(m->o.arg, message, &why);
	return 0;
}

int sc_mapper_lines(struct sc_mapper *m, struct sc_span message, bool binary, int64_t received_us,
		    struct sc_bytes *out, uint64_t *ret_lines, struct sc_err *err)
{
	struct run run = { m, out, received_us, 0 };
	int rc;

	*ret_lines = 0;
	if (binary && m->o.binary == SC_BINARY_DROP)
		return 0;
	if (m->jq) {
		rc = put_rows(m, message, binary, &run, err);
		*ret_lines = run.lines;
		return rc;
	}
	rc = put_message(m, message, binary, received_us, out, err);
	if (rc == 0)
		*ret_lines = 1;
	return rc;
}
