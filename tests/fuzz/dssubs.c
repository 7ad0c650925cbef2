/* tests/fuzz/dssubs.c: any bytes as a record of a subscription or a link, as a route and the body of
 * a request about one, as a pattern and a path, as a URL: nothing is read outside the bytes, and
 * what is taken is written the same way ever after. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "durable/sub_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same(struct sc_bytes *a, struct sc_bytes *b)
{
	if (a->len != b->len || memcmp(a->data, b->data, a->len))
		abort();
	sc_bytes_done(a);
	sc_bytes_done(b);
}

static void records(struct sc_span bytes)
{
	struct sc_ds_link link;
	struct sc_ds_sub sub;
	struct sc_bytes out, again;

	sc_bytes_init(&out, 1 << 20);
	sc_bytes_init(&again, 1 << 20);
	if (sc_ds_sub_decode(bytes, &sub, NULL) == 0) {
		if (sc_ds_sub_encode(&sub, &out) < 0 ||
		    sc_ds_sub_decode(sc_span(out.data, out.len), &sub, NULL) < 0 ||
		    sc_ds_sub_encode(&sub, &again) < 0)
			abort();
		same(&out, &again);
	}
	if (sc_ds_link_decode(bytes, &link, NULL) == 0) {
		if (sc_ds_link_encode(&link, &out) < 0 ||
		    sc_ds_link_decode(sc_span(out.data, out.len), &link, NULL) < 0 ||
		    sc_ds_link_encode(&link, &again) < 0)
			abort();
		same(&out, &again);
	}
}

/* METHOD ROUTE, a newline, the body. */
static void request(struct sc_span bytes)
{
	static const char *const methods[] = { "PUT", "GET", "DELETE", "POST" };
	const char *line = memchr(bytes.data, '\n', bytes.len);
	struct sc_span below = sc_span(bytes.data, line ? (size_t)(line - bytes.data) : bytes.len);
	struct sc_span body = line ? sc_span(line + 1, bytes.len - below.len - 1) : SC_SPAN("");

	for (size_t i = 0; i < 4; i++) {
		struct sc_ds_sub_request r = { .op = SC_DS_SUB_GET };
		struct sc_ds_answer answer;
		bool other;

		sc_ds_answer_init(&answer);
		r.prefix = SC_SPAN("/v1/stream/");
		if (below.len && sc_ds_sub_route(below, methods[i], &r, &other)) {
			size_t id_len = r.id.len;
			int rc;

			r.prefix = SC_SPAN("/v1/stream/");
			rc = sc_ds_sub_parse(&r, body, &answer);
			if (rc < 0 || (rc == 0 && (answer.status < 400 || !answer.body.len)) ||
			    r.id.len != id_len || r.id.data != r.text.data)
				abort();
			for (size_t k = 1; rc == 1 && k < r.stream_count; k++)
				if (r.streams[k].len > SC_DS_PATH_MAX)
					abort();
		}
		sc_ds_sub_request_done(&r);
		sc_ds_answer_done(&answer);
	}
}

static void pattern(struct sc_span bytes)
{
	const char *line = memchr(bytes.data, '\n', bytes.len);
	struct sc_span glob = sc_span(bytes.data, line ? (size_t)(line - bytes.data) : bytes.len);
	struct sc_span path = line ? sc_span(line + 1, bytes.len - glob.len - 1) : glob;
	struct sc_span literal = sc_ds_glob_literal(glob, 400);

	if (sc_ds_glob_match(glob, path) && literal.len &&
	    (path.len < literal.len || memcmp(path.data, literal.data, literal.len)))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sc_span bytes = sc_span((const char *)data, size);
	char *url = malloc(size + 1);

	if (size && url) {
		memcpy(url, data, size);
		url[size] = 0;
		(void)sc_ds_sub_url_refused(url);
		records(bytes);
		request(bytes);
		pattern(bytes);
	}
	free(url);
	return 0;
}
