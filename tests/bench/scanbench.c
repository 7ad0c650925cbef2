/*
 * tests/bench/scanbench.c: what scanning and projecting a six-column row costs, beside a memcpy of
 * the same bytes.
 *
 * Method: half a million different rows lie back to back in memory (more than any cache holds), are
 * taken one by one and appended to a buffer that is emptied every 256 KiB, as an append does; the
 * best of twelve rounds, for rows that come as the log stores them, in another order, and with
 * white space. One JSON line on stdout.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/bytes.h"
#include "json/schema.h"

#define ROWS 500000
#define ROUNDS 12

static const char schema_text[] =
	"{\"properties\":{\"event_ts\":{\"type\":\"integer\"},\"price\":{\"type\":\"number\"},"
	"\"amount\":{\"type\":\"number\"},\"side\":{\"type\":\"integer\",\"format\":\"int32\"},"
	"\"id\":{\"type\":\"integer\"},\"sym\":{\"type\":\"string\"}},"
	"\"required\":[\"event_ts\",\"price\",\"amount\",\"side\",\"id\",\"sym\"]}";

static const char *const formats[] = {
	"{\"event_ts\":%lld,\"price\":%d.%d,\"amount\":0.%d,\"side\":%d,\"id\":%d,\"sym\":"
	"\"btcusd\"}",
	"{\"event_ts\":%1$lld,\"side\":%5$d,\"price\":%2$d.%3$d,\"sym\":\"btcusd\",\"id\":%6$d,"
	"\"amount\":0.%4$d}",
	"{\"event_ts\": %lld, \"price\": %d.%d, \"amount\": 0.%d, \"side\": %d, \"id\": %d, "
	"\"sym\": \"btcusd\"}",
};

struct rows {
	struct sc_bytes text;
	size_t *ends;
};

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void die(const char *what)
{
	fprintf(stderr, "scanbench: %s\n", what);
	exit(70);
}

static void make_rows(struct rows *rows, const char *format)
{
	sc_bytes_clear(&rows->text);
	srand(1);
	for (int i = 0; i < ROWS; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		if (sc_bytes_putf(&rows->text, format, 1790038800123456LL + i * 977LL,
				  60000 + rand() % 40000, rand() % 100, 1 + rand() % 99999999,
				  rand() % 2, 643660480 + i) < 0)
#pragma GCC diagnostic pop
			die("out of memory");
		rows->ends[i] = rows->text.len;
	}
}

/* ns a row, the best round; COPY: memcpy instead. */
static double measure(const struct rows *rows, const struct sc_schema *schema, struct sc_bytes *out,
		      bool copy)
{
	double best = 1e30;

	for (int round = 0; round < ROUNDS; round++) {
		double start = now_ns(), took;
		size_t at = 0;

		sc_bytes_clear(out);
		for (int i = 0; i < ROWS; i++) {
			struct sc_span row = sc_span(rows->text.data + at, rows->ends[i] - at);
			int rc = copy ? sc_bytes_put(out, row.data, row.len)
				      : sc_row_project(schema, row, out, NULL);

			if (rc < 0)
				die("a row was refused");
			if (out->len > 256 << 10)
				sc_bytes_clear(out);
			at = rows->ends[i];
		}
		took = (now_ns() - start) / ROWS;
		if (took < best)
			best = took;
	}
	return best;
}

int main(void)
{
	struct rows rows = { 0 };
	struct sc_schema *schema;
	struct sc_bytes out;
	double ns[3], copy, any;

	sc_bytes_init(&rows.text, 1u << 30);
	sc_bytes_init(&out, 1 << 20);
	rows.ends = malloc(ROWS * sizeof(*rows.ends));
	if (!rows.ends || sc_schema_parse(SC_SPAN(schema_text), &schema, NULL) < 0)
		die("out of memory");
	for (int i = 2; i >= 0; i--) {
		make_rows(&rows, formats[i]);
		ns[i] = measure(&rows, schema, &out, false);
	}
	copy = measure(&rows, schema, &out, true);
	any = measure(&rows, NULL, &out, false);
	printf("{\"bench\":\"scan\",\"rows\":%d,\"row_bytes\":%zu,\"project_ns\":%.1f,\"other_"
	       "order_ns\":%.1f,\"spaced_ns\":%.1f,"
	       "\"no_schema_ns\":%.1f,\"memcpy_ns\":%.1f,\"rows_per_s\":%.0f,\"bytes_per_s\":%.0f}"
	       "\n",
	       ROWS, rows.text.len / ROWS, ns[0], ns[1], ns[2], any, copy, 1e9 / ns[0],
	       (double)rows.text.len / ROWS * 1e9 / ns[0]);
	sc_schema_free(schema);
	sc_bytes_done(&rows.text);
	sc_bytes_done(&out);
	free(rows.ends);
	return 0;
}
