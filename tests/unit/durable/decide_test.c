/*
 * decide_test: who wins when several things are wrong: the precedence lists of PUT, POST, DELETE,
 * HEAD and GET, the producers' table and the closing rules, row by row.
 *
 * Method: a request as text ("Header=value" words), a stream's state, and the answer that must
 * come: the status and the headers that matter, as text too.
 */
#include "durable/protocol.h"

#include "../check.h"

#define NOW 1800000000000000ll
#define TAIL 12u

/* The words of a request: h(TEXT) with names below; an empty value is "there and empty". */
static struct sc_ds_request request(const char *words, const char *body)
{
	static char copy[4096];
	static const struct {
		const char *name;
		size_t at;
	} names[] = {
		{ "type", offsetof(struct sc_ds_request, content_type) },
		{ "ttl", offsetof(struct sc_ds_request, ttl) },
		{ "exp", offsetof(struct sc_ds_request, expires_at) },
		{ "closed", offsetof(struct sc_ds_request, closed) },
		{ "seq", offsetof(struct sc_ds_request, seq) },
		{ "from", offsetof(struct sc_ds_request, forked_from) },
		{ "foff", offsetof(struct sc_ds_request, fork_offset) },
		{ "fsub", offsetof(struct sc_ds_request, fork_sub_offset) },
		{ "pid", offsetof(struct sc_ds_request, producer_id) },
		{ "pe", offsetof(struct sc_ds_request, producer_epoch) },
		{ "ps", offsetof(struct sc_ds_request, producer_seq) },
		{ "inm", offsetof(struct sc_ds_request, if_none_match) },
		{ "offset", offsetof(struct sc_ds_request, query.offset) },
		{ "live", offsetof(struct sc_ds_request, query.live) },
	};
	struct sc_ds_request r = { .path = SC_SPAN("/v1/stream/a"), .body = sc_span_str(body) };

	snprintf(copy, sizeof(copy), "%s", words);
	for (char *save = NULL, *word = strtok_r(copy, " ", &save); word;
	     word = strtok_r(NULL, " ", &save)) {
		char *value = strchr(word, '=');
		size_t i = 0;

		if (!strcmp(word, "twice")) {
			r.query.offset_repeated = true;
			continue;
		}
		if (!value)
			FAIL("no value in '%s'", word);
		*value++ = 0;
		while (i < sizeof(names) / sizeof(*names) && strcmp(names[i].name, word))
			i++;
		if (i == sizeof(names) / sizeof(*names))
			FAIL("no header '%s'", word);
		memcpy((char *)&r + names[i].at, &(struct sc_span){ value, strlen(value) },
		       sizeof(struct sc_span));
	}
	return r;
}

/* The answer as words. */
static const char *told(struct sc_ds_answer *a)
{
	static char text[512];
	int n = snprintf(text, sizeof(text), "%d", a->status);

	if (a->wait)
		n += snprintf(text + n, sizeof(text) - (size_t)n, " wait");
	if (a->has_next)
		n += snprintf(text + n, sizeof(text) - (size_t)n, " next=%d", (int)a->next);
	if (a->up_to_date)
		n += snprintf(text + n, sizeof(text) - (size_t)n, " up");
	if (a->closed)
		n += snprintf(text + n, sizeof(text) - (size_t)n, " closed");
	if (a->has_epoch)
		n += snprintf(text + n, sizeof(text) - (size_t)n, " epoch=%d", (int)a->epoch);
	if (a->has_seq)
		n += snprintf(text + n, sizeof(text) - (size_t)n, " seq=%d", (int)a->seq);
	if (a->has_expected)
		n += snprintf(text + n, sizeof(text) - (size_t)n, " expected=%d/%d",
			      (int)a->expected, (int)a->received);
	if (a->status >= 400 && !a->error)
		FAIL("an error without words");
	sc_ds_answer_done(a);
	return text;
}

enum { OPEN, CLOSED, CLOSED_BY_P, GONE, EXPIRED, ABSENT, JSON };

static struct sc_ds_stream *stream(int kind)
{
	static struct sc_ds_stream s;

	s = (struct sc_ds_stream){
		.sid = 5,
		.path = SC_SPAN("/v1/stream/a"),
		.type = kind == JSON ? SC_SPAN("application/json") : SC_SPAN("text/plain"),
		.tail = TAIL,
		.first = 6,
		.seq = SC_SPAN("5"),
		.accessed_us = NOW,
	};
	s.asked.type = s.type;
	s.closed = kind == CLOSED || kind == CLOSED_BY_P;
	if (kind == CLOSED_BY_P) {
		s.has_closer = true;
		s.closer = SC_SPAN("p");
		s.closer_epoch = 3;
		s.closer_seq = 8;
	}
	s.gone = kind == GONE;
	if (kind == EXPIRED)
		s.life = (struct sc_ds_life){ .has_expiry = true, .expires_us = NOW };
	return kind == ABSENT ? NULL : &s;
}

/* The producer p is known at epoch 3, seq 7. */
static const struct {
	int stream;
	const char *words, *body, *answer;
	bool stored;
} posts[] = {
	/* the stream first, whatever the headers say */
	{ ABSENT, "pid=", "", "404", false },
	{ EXPIRED, "pid=p", "", "404", false },
	{ GONE, "pid=", "", "410", false },
	/* then the producer's headers */
	{ CLOSED, "pid=p", "", "400", false },
	{ CLOSED, "pid=p pe=1", "", "400", false },
	{ OPEN, "pe=1 ps=1 type=text/plain", "x", "400", false },
	{ OPEN, "pid= pe=1 ps=1 type=text/plain", "x", "400", false },
	{ OPEN, "pid=p pe= ps=1 type=text/plain", "x", "400", false },
	{ OPEN, "pid=p pe=x ps=1 type=text/plain", "x", "400", false },
	{ OPEN, "pid=p pe=3 ps=9007199254740992 type=text/plain", "x", "400", false },
	/* then an empty body without a close, then a body without a type */
	{ CLOSED, "", "", "400", false },
	{ CLOSED, "closed=yes", "", "400", false },
	{ CLOSED, "", "x", "400", false },
	{ CLOSED, "type=", "x", "400", false },
	/* then the closed stream, before type, sequence and JSON */
	{ CLOSED, "type=image/png", "x", "409 next=12 closed", false },
	{ CLOSED_BY_P, "type=image/png pid=p pe=3 ps=8", "x", "204 next=12 closed epoch=3 seq=8",
	  false },
	{ CLOSED_BY_P, "type=text/plain pid=p pe=3 ps=9", "x", "409 next=12 closed", false },
	{ CLOSED_BY_P, "type=text/plain pid=p pe=2 ps=0", "x", "409 next=12 closed", false },
	{ CLOSED_BY_P, "type=text/plain pid=q pe=3 ps=8", "x", "409 next=12 closed", false },
	{ CLOSED_BY_P, "type=text/plain closed=true pid=p pe=3 ps=8", "x",
	  "204 next=12 closed epoch=3 seq=8", false },
	{ CLOSED, "type=text/plain closed=true", "x", "409 next=12 closed", false },
	/* then the type, before the producer */
	{ OPEN, "type=image/png pid=p pe=1 ps=0", "x", "409", false },
	/* section 6 */
	{ OPEN, "type=text/plain pid=q pe=9 ps=0", "x", "200 next=17 epoch=9 seq=0", true },
	{ OPEN, "type=text/plain pid=q pe=9 ps=4", "x", "409 expected=0/4", false },
	{ OPEN, "type=text/plain pid=p pe=2 ps=8", "x", "403 epoch=3", false },
	{ OPEN, "type=text/plain pid=p pe=4 ps=0", "x", "200 next=17 epoch=4 seq=0", true },
	{ OPEN, "type=text/plain pid=p pe=4 ps=1", "x", "400", false },
	{ OPEN, "type=text/plain pid=p pe=3 ps=7", "x", "204 next=12 epoch=3 seq=7", false },
	{ OPEN, "type=text/plain pid=p pe=3 ps=2", "x", "204 next=12 epoch=3 seq=7", false },
	{ OPEN, "type=text/plain pid=p pe=03 ps=008", "x", "200 next=17 epoch=3 seq=8", true },
	{ OPEN, "type=text/plain pid=p pe=3 ps=9", "x", "409 expected=8/9", false },
	/* a duplicate is one before Stream-Seq and JSON are looked at */
	{ OPEN, "type=text/plain pid=p pe=3 ps=7 seq=1", "x", "204 next=12 epoch=3 seq=7", false },
	{ JSON, "type=application/json pid=p pe=3 ps=7", "{", "204 next=12 epoch=3 seq=7", false },
	/* Stream-Seq, bytewise */
	{ OPEN, "type=text/plain seq=5", "x", "409", false },
	{ OPEN, "type=text/plain seq=10", "x", "409", false },
	{ OPEN, "type=text/plain seq=50", "x", "204 next=17", true },
	{ OPEN, "type=text/plain seq=6", "x", "204 next=17", true },
	{ OPEN, "type=text/plain seq=", "x", "204 next=17", true },
	{ JSON, "type=application/json seq=4", "{", "409", false },
	/* JSON */
	{ JSON, "type=application/json", "{", "400", false },
	{ JSON, "type=application/json", "[]", "400", false },
	{ JSON, "type=application/json pid=p pe=3 ps=8", "[]", "400", false },
	{ JSON, "type=APPLICATION/JSON;x", "[1,22]", "204 next=23", true },
	/* success */
	{ OPEN, "type=text/plain", "x", "204 next=17", true },
	{ OPEN, "type=text/plain closed=TRUE", "x", "204 next=17 closed", true },
	{ OPEN, "type=text/plain closed=true pid=p pe=3 ps=8", "x",
	  "200 next=17 closed epoch=3 seq=8", true },
	{ OPEN, "type=text/plain closed=1", "x", "204 next=17", true },
	/* closing alone */
	{ OPEN, "closed=true", "", "204 next=12 closed", true },
	{ OPEN, "closed=true type=image/png seq=1", "", "204 next=12 closed", true },
	{ CLOSED, "closed=true", "", "204 next=12 closed", false },
	{ CLOSED, "closed=true pid=p pe=3 ps=8", "", "409 next=12 closed", false },
	{ CLOSED_BY_P, "closed=true pid=p pe=3 ps=8", "", "204 next=12 closed epoch=3 seq=8",
	  false },
	{ OPEN, "closed=true pid=p pe=3 ps=8", "", "204 next=12 closed epoch=3 seq=8", true },
	{ OPEN, "closed=true pid=p pe=3 ps=7", "", "204 next=12 epoch=3 seq=7", false },
	{ OPEN, "closed=true pid=p pe=3 ps=9", "", "409 expected=8/9", false },
	{ OPEN, "closed=true pid=p pe=2 ps=0", "", "403 epoch=3", false },
};

TEST(posts_are_decided_in_order)
{
	for (size_t i = 0; i < sizeof(posts) / sizeof(*posts); i++) {
		struct sc_ds_request r = request(posts[i].words, posts[i].body);
		struct sc_ds_producer known = { 3, 7 };
		struct sc_ds_stream *s = stream(posts[i].stream), before;
		struct sc_ds_append append;
		struct sc_ds_answer answer;
		struct sc_span id;
		bool asked = sc_ds_append_producer(&r, &id) && sc_span_is(id, "p");

		memset(&before, 0, sizeof(before));
		if (s)
			memcpy(&before, s, sizeof(before));
		sc_ds_answer_init(&answer);
		sc_ds_append_decide(&r, s, asked ? &known : NULL, NULL, NOW, &append, &answer);
		if (append.store != posts[i].stored)
			FAIL("row %zu (%s): stored", i, posts[i].words);
		if (strcmp(told(&answer), posts[i].answer))
			FAIL("row %zu (%s): %s, not %s", i, posts[i].words, told(&answer),
			     posts[i].answer);
		if (!append.store && s && memcmp(&before, s, sizeof(before)))
			FAIL("row %zu (%s): a refused request changed the stream", i,
			     posts[i].words);
		if (!append.store && append.has_producer)
			FAIL("row %zu (%s): a refused request moved the producer", i,
			     posts[i].words);
	}
}

TEST(puts_are_checked_before_anything_is_looked_at)
{
	static const struct {
		const char *words, *answer; /* NULL: goes on */
	} rows[] = {
		{ "", NULL },
		{ "fsub=0", "400" },
		{ "fsub=", "400" },
		{ "fsub= from=/a", "400" },
		{ "fsub=+1 from=/a", "400" },
		{ "fsub=1.5 from=/a", "400" },
		{ "fsub=01 from=/a", "400" },
		{ "fsub=0 from=/a", NULL },
		{ "foff=now from=/a", "400" },
		{ "foff=12 from=/a", "400" },
		{ "foff=9999999999999999_9999999999999999 from=/a", "400" },
		{ "foff=-1 from=/a", NULL },
		{ "foff= from=/a", NULL },
		{ "foff=rubbish", NULL },
		{ "ttl=1 exp=2030-01-01T00:00:00Z", "400" },
		{ "ttl=x exp=x", "400" },
		{ "ttl=01", "400" },
		{ "ttl=0", NULL },
		{ "ttl= exp=", NULL },
		{ "exp=tomorrow", "400" },
		{ "type=a\r\nb", "400" },
		{ "type=no-slash", NULL },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct sc_ds_request r = request(rows[i].words, "");
		struct sc_ds_create create;
		struct sc_ds_answer answer;

		sc_ds_answer_init(&answer);
		if (sc_ds_create_parse(&r, &create, &answer) != !rows[i].answer)
			FAIL("row %zu (%s)", i, rows[i].words);
		if (rows[i].answer)
			CHECK_STR(told(&answer), rows[i].answer);
		sc_ds_answer_done(&answer);
	}
}

/* A stream made by the first words meets a request of the second. */
TEST(a_put_of_what_exists_is_compared)
{
	static const struct {
		const char *first, *again, *answer;
		int then; /* what became of it */
	} rows[] = {
		{ "", "", "200 next=0", OPEN },
		{ "", "type=Application/Octet-Stream;x", "200 next=0", OPEN },
		{ "type=text/plain", "type=TEXT/plain;charset=utf-8", "200 next=0", OPEN },
		{ "type=text/plain", "", "409", OPEN },
		{ "type=text/plain", "type=text/html", "409", OPEN },
		{ "ttl=60", "ttl=60", "200 next=0", OPEN },
		{ "ttl=60", "ttl=61", "409", OPEN },
		{ "ttl=60", "", "409", OPEN },
		{ "", "ttl=60", "409", OPEN },
		{ "exp=2030-01-01T00:00:00Z", "exp=2030-01-01T01:00:00.000+01:00", "200 next=0",
		  OPEN },
		{ "exp=2030-01-01T00:00:00Z", "exp=2030-01-01T00:00:01Z", "409", OPEN },
		{ "exp=2030-01-01T00:00:00Z", "ttl=60", "409", OPEN },
		{ "", "closed=true", "409", OPEN },
		{ "closed=true", "", "409", OPEN },
		{ "closed=true", "closed=TRUE", "200 next=0 closed", OPEN },
		{ "", "closed=true", "200 next=0 closed", CLOSED },
		{ "", "", "409", CLOSED },
		{ "", "", "409", GONE },
		{ "", "", "409", EXPIRED },
		{ "from=/s", "from=/s", "200 next=12", OPEN },
		{ "from=/s", "from=/t", "409", OPEN },
		{ "from=/s", "", "409", OPEN },
		{ "", "from=/s", "409", OPEN },
		{ "from=/s", "from=/s foff=0000000000000000_0000000000000012", "200 next=12",
		  OPEN },
		{ "from=/s", "from=/s foff=0000000000000000_0000000000000006", "409", OPEN },
		{ "from=/s foff=0000000000000000_0000000000000012", "from=/s", "200 next=12",
		  OPEN },
		{ "from=/s", "from=/s fsub=0", "200 next=12", OPEN },
		{ "from=/s", "from=/s fsub=1", "409", OPEN },
		{ "from=/s", "from=/s type=text/plain", "200 next=12", OPEN },
		{ "from=/s", "from=/s type=image/png", "409", OPEN },
		{ "from=/s", "from=/s ttl=9", "200 next=12", OPEN }, /* the source's */
		{ "from=/s", "from=/s ttl=8", "409", OPEN },
		{ "from=/s ttl=8", "from=/s ttl=8", "200 next=12", OPEN },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct sc_ds_request first = request(rows[i].first, ""), again;
		struct sc_ds_stream source = *stream(OPEN), made;
		struct sc_ds_create create;
		struct sc_ds_answer answer;
		char words[512];

		sc_ds_answer_init(&answer);
		source.life = (struct sc_ds_life){ .has_ttl = true, .ttl_s = 9 };
		/* request() keeps one text: the first request's must not be overwritten */
		snprintf(words, sizeof(words), "%s", rows[i].first);
		CHECK(sc_ds_create_parse(&first, &create, &answer));
		sc_ds_create_make(&create, create.asked.forked_from.data ? &source : NULL,
				  create.asked.forked_from.data ? TAIL : 0, NOW, &made);
		if (rows[i].then == CLOSED)
			made.closed = true;
		made.gone = rows[i].then == GONE;
		if (rows[i].then == EXPIRED)
			made.life = made.asked.life = stream(EXPIRED)->life;
		{
			/* the record keeps what the request said */
			static struct sc_bytes record;
			struct sc_err err = { 0 };

			sc_bytes_init(&record, 1 << 20);
			made.sid = 1;
			made.path = SC_SPAN("/v1/stream/a");
			CHECK_INT(sc_ds_stream_encode(&made, &record), 0);
			CHECK_OK(sc_ds_stream_decode(sc_span(record.data, record.len), &made, &err),
				 &err);
			again = request(rows[i].again, "ignored");
			CHECK(sc_ds_create_parse(&again, &create, &answer));
			CHECK(!sc_ds_create_target(&create, &made, true, NOW, &answer));
			sc_bytes_done(&record);
		}
		if (strcmp(told(&answer), rows[i].answer))
			FAIL("row %zu (%s, then %s): %s, not %s", i, rows[i].first, rows[i].again,
			     told(&answer), rows[i].answer);
	}
}

TEST(sealed_groups_take_no_new_streams)
{
	struct sc_ds_create create = { .closed = false };
	struct sc_ds_answer answer;

	sc_ds_answer_init(&answer);
	CHECK(sc_ds_create_target(&create, NULL, false, NOW, &answer));
	CHECK(!sc_ds_create_target(&create, NULL, true, NOW, &answer));
	CHECK_STR(told(&answer), "409");
}

TEST(forks_are_checked_in_order)
{
	static const struct {
		int source;
		const char *words;
		struct sc_ds_point point;
		const char *answer; /* "" = made */
		uint64_t fork_at;
		size_t prefix;
	} rows[] = {
		{ ABSENT, "type=image/png", { .boundary = true }, "404", 0, 0 },
		{ EXPIRED, "type=image/png", { .boundary = true }, "404", 0, 0 },
		{ GONE, "type=image/png", { .boundary = true }, "409", 0, 0 },
		{ OPEN,
		  "type=image/png foff=0000000000000000_0000000000000099",
		  { .boundary = true },
		  "409",
		  0,
		  0 },
		{ OPEN,
		  "foff=0000000000000000_0000000000000013",
		  { .boundary = true },
		  "400",
		  0,
		  0 },
		{ OPEN,
		  "foff=0000000000000000_0000000000000007",
		  { .boundary = false },
		  "400",
		  0,
		  0 },
		{ OPEN, "type=TEXT/plain", { .boundary = true }, "", 12, 0 },
		{ CLOSED, "", { .boundary = true }, "", 12, 0 },
		{ OPEN, "foff=0000000000000000_0000000000000000", { .boundary = false }, "", 0, 0 },
		{ OPEN, "foff=-1", { .boundary = true }, "", 0, 0 },
		{ OPEN, "fsub=1", { .boundary = true }, "400", 0, 0 },
		{ OPEN,
		  "foff=-1 fsub=1",
		  { .boundary = true, .message = { "ab", 2 } },
		  "400",
		  0,
		  0 },
		{ OPEN,
		  "foff=0000000000000000_0000000000000006 fsub=2",
		  { .boundary = true, .message = { "ab", 2 } },
		  "",
		  6,
		  2 },
		{ OPEN,
		  "foff=0000000000000000_0000000000000006 fsub=3",
		  { .boundary = true, .message = { "ab", 2 } },
		  "400",
		  0,
		  0 },
		{ JSON,
		  "foff=0000000000000000_0000000000000006 fsub=1",
		  { .boundary = true, .json_reached = true, .json_at = 12 },
		  "",
		  12,
		  0 },
		{ JSON,
		  "foff=0000000000000000_0000000000000006 fsub=2",
		  { .boundary = true },
		  "400",
		  0,
		  0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char words[256];
		struct sc_ds_request r;
		struct sc_ds_create create;
		struct sc_ds_answer answer;
		struct sc_span prefix;
		uint64_t point, at = 0;
		bool fine;

		snprintf(words, sizeof(words), "from=/s %s", rows[i].words);
		r = request(words, "");
		sc_ds_answer_init(&answer);
		CHECK(sc_ds_create_parse(&r, &create, &answer));
		fine = sc_ds_create_source(&create, stream(rows[i].source), NOW, &point, &answer) &&
		       sc_ds_create_point(&create, stream(rows[i].source), point, &rows[i].point,
					  &at, &prefix, &answer);
		if (fine != !*rows[i].answer || (fine && at != rows[i].fork_at) ||
		    (fine && prefix.len != rows[i].prefix))
			FAIL("row %zu (%s): at %d", i, rows[i].words, (int)at);
		if (!fine)
			CHECK_STR(told(&answer), rows[i].answer);
		sc_ds_answer_done(&answer);
	}
}

TEST(gets_are_decided_in_order)
{
	static const struct {
		int stream;
		const char *words, *answer; /* NULL: read */
		uint64_t start;
	} rows[] = {
		{ ABSENT, "offset=x", "404", 0 },
		{ EXPIRED, "offset=x", "404", 0 },
		{ GONE, "offset=x", "410", 0 },
		{ OPEN, "offset=-1 twice live=sse", "400", 0 },
		{ OPEN, "offset=", "400", 0 },
		{ OPEN, "offset=x", "400", 0 },
		{ OPEN, "offset=5,6", "400", 0 },
		{ OPEN, "live=sse", "400", 0 },
		{ OPEN, "live=long-poll", "400", 0 },
		{ OPEN, "live=other", NULL, 6 },
		{ OPEN, "offset=0000000000000000_0000000000000013", "400", 0 },
		{ OPEN, "offset=0000000000000000_0000000000000000", "410", 0 },
		{ OPEN, "offset=0000000000000000_0000000000000006", NULL, 6 },
		{ OPEN, "offset=-1", NULL, 6 },
		{ OPEN, "", NULL, 6 },
		{ OPEN, "offset=now live=sse", NULL, 12 },
		{ CLOSED, "offset=0000000000000000_0000000000000012", NULL, 12 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct sc_ds_request r = request(rows[i].words, "");
		struct sc_ds_read_plan plan;
		struct sc_ds_answer answer;
		bool fine;

		sc_ds_answer_init(&answer);
		fine = sc_ds_read_decide(&r, stream(rows[i].stream), NOW, &plan, &answer);
		if (fine != !rows[i].answer || (fine && plan.start != rows[i].start))
			FAIL("row %zu (%s)", i, rows[i].words);
		if (!fine)
			CHECK_STR(told(&answer), rows[i].answer);
		sc_ds_answer_done(&answer);
	}
}

TEST(reads_are_answered)
{
	static const struct {
		int stream;
		struct sc_ds_read_found found;
		const char *answer, *etag;
		int cache;
	} rows[] = {
		{ OPEN, { .start = 6, .end = 9 }, "200 next=9", "\"5:6:9\"", SC_DS_CACHE_HISTORY },
		{ OPEN,
		  { .start = 6, .end = 12 },
		  "200 next=12 up",
		  "\"5:6:12\"",
		  SC_DS_CACHE_NONE },
		{ OPEN,
		  { .start = 12, .end = 12 },
		  "200 next=12 up",
		  "\"5:12:12\"",
		  SC_DS_CACHE_NONE },
		{ CLOSED,
		  { .start = 6, .end = 9 },
		  "200 next=9",
		  "\"5:6:9\"",
		  SC_DS_CACHE_HISTORY },
		{ CLOSED,
		  { .start = 6, .end = 12 },
		  "200 next=12 up closed",
		  "\"5:6:12:c\"",
		  SC_DS_CACHE_NONE },
		{ CLOSED,
		  { .now = true, .start = 12, .end = 12 },
		  "200 next=12 up closed",
		  "",
		  SC_DS_CACHE_NO_STORE },
		{ OPEN,
		  { .start = 6, .end = 12, .if_none_match = { "\"5:6:12\"", 8 } },
		  "304 next=12 up",
		  "\"5:6:12\"",
		  SC_DS_CACHE_NONE },
		{ CLOSED,
		  { .start = 6, .end = 12, .if_none_match = { "\"5:6:12\"", 8 } },
		  "200 next=12 up closed",
		  "\"5:6:12:c\"",
		  SC_DS_CACHE_NONE },
		{ OPEN,
		  { .live = SC_DS_LONG_POLL, .start = 6, .end = 12 },
		  "200 next=12 up",
		  "\"5:6:12\"",
		  SC_DS_CACHE_NONE },
		{ OPEN,
		  { .live = SC_DS_LONG_POLL, .start = 12, .end = 12 },
		  "204 wait next=12 up",
		  "",
		  SC_DS_CACHE_NONE },
		{ OPEN,
		  { .live = SC_DS_LONG_POLL, .start = 12, .end = 12, .last = true },
		  "204 next=12 up",
		  "",
		  SC_DS_CACHE_NONE },
		{ CLOSED,
		  { .live = SC_DS_LONG_POLL, .start = 12, .end = 12 },
		  "204 next=12 up closed",
		  "",
		  SC_DS_CACHE_NONE },
		{ CLOSED,
		  { .live = SC_DS_LONG_POLL, .start = 6, .end = 12 },
		  "200 next=12 up closed",
		  "\"5:6:12:c\"",
		  SC_DS_CACHE_NONE },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct sc_ds_read_found found = rows[i].found;
		struct sc_ds_answer answer;
		char text[128];

		found.cursor = "7";
		sc_ds_answer_init(&answer);
		CHECK_INT(sc_ds_read_answer(stream(rows[i].stream), &found, &answer), 0);
		CHECK_STR(answer.etag, rows[i].etag);
		CHECK_INT(answer.cache, rows[i].cache);
		CHECK_STR(answer.cursor, found.live ? "7" : "");
		snprintf(text, sizeof(text), "%s", told(&answer));
		if (strcmp(text, rows[i].answer))
			FAIL("row %zu: %s, not %s", i, text, rows[i].answer);
	}
}

TEST(deletes_and_heads)
{
	static const int kinds[] = { OPEN, CLOSED, GONE, EXPIRED, ABSENT },
			 status[] = { 204, 204, 410, 404, 404 };

	for (size_t i = 0; i < 5; i++) {
		struct sc_ds_answer answer;

		sc_ds_answer_init(&answer);
		CHECK_INT(sc_ds_delete_decide(stream(kinds[i]), NOW, &answer), i < 2);
		CHECK_INT(answer.status, status[i]);
		CHECK_INT(sc_ds_head_answer(stream(kinds[i]), NOW, &answer), 0);
		CHECK_INT(answer.status, i < 2 ? 200 : status[i]);
		CHECK_INT(answer.cache, SC_DS_CACHE_NO_STORE);
		CHECK_INT(answer.closed, kinds[i] == CLOSED);
		sc_ds_answer_done(&answer);
	}
}

TEST(records_come_back)
{
	struct sc_ds_stream s = *stream(CLOSED_BY_P), back;
	struct sc_bytes record, again;
	struct sc_err err = { 0 };

	s.life = (struct sc_ds_life){ .has_ttl = true, .ttl_s = SC_DS_TTL_MAX };
	s.asked.forked_from = SC_SPAN("/x");
	s.asked.has_offset = true;
	s.asked.offset = 9;
	s.fork_at = 6;
	s.source_sid = 2;
	s.forks = 3;
	s.indexed_us = -1;
	sc_bytes_init(&record, 1 << 20);
	sc_bytes_init(&again, 1 << 20);
	CHECK_INT(sc_ds_stream_encode(&s, &record), 0);
	CHECK_OK(sc_ds_stream_decode(sc_span(record.data, record.len), &back, &err), &err);
	CHECK_INT(sc_ds_stream_encode(&back, &again), 0);
	CHECK(record.len == again.len && !memcmp(record.data, again.data, record.len));
	CHECK_SPAN(back.closer, "p");
	CHECK_SPAN(back.asked.forked_from, "/x");
	CHECK_INT(back.life.ttl_s, SC_DS_TTL_MAX);
	CHECK_INT(back.indexed_us, -1);
	/* every torn record is refused */
	for (size_t len = 0; len < record.len; len++) {
		char *torn = malloc(len + 1);

		CHECK(torn != NULL);
		memcpy(torn, record.data, len);
		CHECK_INT(sc_ds_stream_decode(sc_span(torn, len), &back, &err), SC_E_DATA);
		free(torn);
	}
	record.data[0] = 9;
	CHECK_INT(sc_ds_stream_decode(sc_span(record.data, record.len), &back, &err), SC_E_DATA);
	sc_bytes_done(&record);
	sc_bytes_done(&again);
}
