/*
 * Rows on their way to a Durable Streams server: bodies, sequences, positions, the state file; and
 * a model: whatever is lost and whenever it is killed, each row is stored once and in order.
 */
#include "../check.h"
#include "client/dspost.h"

static struct sc_dspost *d;
static struct sc_err err;
static struct sc_span body;
static struct sc_dspost_state state;
static struct sc_dspost_row row;

static void open_post(size_t batch, bool json, const struct sc_dspost_state *from)
{
	struct sc_dspost_options o = { .batch = batch, .json = json };

	if (from)
		o.state = *from;
	sc_dspost_free(d);
	CHECK_OK(sc_dspost_new(&o, &d, &err), &err);
}

#define PUTS(TEXT, LINE, NUMBER) CHECK_OK(sc_dspost_put(d, SC_SPAN(TEXT), LINE, NUMBER, &err), &err)
#define BEGINS(WANT) \
	do { \
		CHECK_INT(sc_dspost_begin(d, &body, &err), 1); \
		CHECK_SPAN(body, WANT); \
	} while (0)
#define STATE(EPOCH, SEQ, AFTER, LAST) \
	do { \
		sc_dspost_state(d, &state); \
		CHECK(state.epoch == (EPOCH) && state.seq == (SEQ) && state.after == (AFTER) && \
		      state.last == (LAST)); \
	} while (0)

TEST(requests)
{
	open_post(2, true, NULL);
	CHECK_INT(sc_dspost_begin(d, &body, &err), 0);
	PUTS("1", 1, 5);
	PUTS("22", 2, 9);
	CHECK(sc_dspost_full(d));
	BEGINS("[1,22]");
	STATE(0, 0, 0, 9);
	CHECK(!sc_dspost_full(d) && sc_dspost_open(d));
	PUTS("3", 3, 10);
	CHECK_INT(sc_dspost_begin(d, &body, &err), 0);
	sc_dspost_stored(d, 100, true, 111);
	CHECK(sc_dspost_row(d, 0, &row) && row.position == 105 && row.line == 1);
	CHECK(sc_dspost_row(d, 1, &row) && row.position == 111 && row.number == 9);
	CHECK(!sc_dspost_row(d, 2, &row));
	sc_dspost_drop(d);
	STATE(0, 1, 9, 9);
	BEGINS("[3]");
	STATE(0, 1, 9, 10);
	sc_dspost_set_epoch(d, 4);
	STATE(4, 0, 9, 10);
}

TEST(positions)
{
	open_post(2, true, NULL);
	PUTS("1", 1, 1);
	PUTS("2", 2, 2);
	BEGINS("[1,2]");
	sc_dspost_stored(d, 100, true, 150); /* somebody else's rows, or another way to count */
	CHECK(sc_dspost_row(d, 0, &row) && row.position == 0);
	CHECK(sc_dspost_row(d, 1, &row) && row.position == 150);
	sc_dspost_drop(d);
	PUTS("3", 3, 3);
	BEGINS("[3]");
	sc_dspost_stored(d, 150, true, 0); /* a duplicate */
	CHECK(sc_dspost_row(d, 0, &row) && row.position == 0);
	sc_dspost_drop(d);
	CHECK(sc_dspost_empty(d));
}

TEST(what_is_not_json)
{
	open_post(9, false, NULL);
	PUTS("{\"$text\":\"a\\nb\"}", 1, 1);
	CHECK(sc_dspost_full(d));
	BEGINS("a\nb");
	sc_dspost_stored(d, 10, true, 17);
	CHECK(sc_dspost_row(d, 0, &row) && row.position == 17);
	sc_dspost_drop(d);
	PUTS("{\"a\":1}", 2, 2);
	BEGINS("{\"a\":1}");
}

TEST(an_open_request_of_the_last_run)
{
	struct sc_dspost_state from = { 7, 3, 10, 20 };

	open_post(1, true, &from);
	STATE(7, 3, 10, 20);
	PUTS("1", 1, 12);
	CHECK(!sc_dspost_full(d)); /* whatever --batch says now */
	CHECK_INT(sc_dspost_begin(d, &body, &err), 0);
	CHECK_INT(sc_dspost_ended(d, &err), SC_E_DATA);
	PUTS("2", 2, 20);
	CHECK(sc_dspost_full(d));
	CHECK_OK(sc_dspost_ended(d, &err), &err);
	BEGINS("[1,2]");
	STATE(7, 3, 10, 20);
	sc_dspost_stored(d, 0, false, 0);
	sc_dspost_drop(d);
	STATE(7, 4, 20, 20);
	open_post(1, true, &from);
	PUTS("1", 1, 12);
	CHECK_INT(sc_dspost_put(d, SC_SPAN("2"), 2, 21, &err), SC_E_DATA);
}

TEST(the_state_file)
{
	struct sc_bytes text;

	sc_bytes_init(&text, 4096);
	state = (struct sc_dspost_state){ 1, 2, 3, 18446744073709551615ULL };
	CHECK_INT(sc_dspost_state_put(&text, "a \"b\"", &state), 0);
	CHECK_SPAN(
		text,
		"{\"producer\":\"a "
		"\\\"b\\\"\",\"epoch\":1,\"seq\":2,\"after\":3,\"last\":18446744073709551615}\n");
	memset(&state, 0, sizeof(state));
	CHECK_OK(sc_dspost_state_parse(sc_span(text.data, text.len), "a \"b\"", &state, &err),
		 &err);
	CHECK(state.epoch == 1 && state.seq == 2 && state.after == 3 &&
	      state.last == 18446744073709551615ULL);
	CHECK_INT(sc_dspost_state_parse(sc_span(text.data, text.len), "a", &state, &err),
		  SC_E_DATA);
	CHECK_INT(sc_dspost_state_parse(SC_SPAN("{}"), "a", &state, &err), SC_E_DATA);
	CHECK_INT(sc_dspost_state_parse(SC_SPAN("52"), "a", &state, &err), SC_E_DATA);
	CHECK_INT(sc_dspost_state_parse(SC_SPAN("{\"producer\":\"a\",\"epoch\":1,\"seq\":2,"
						"\"after\":3,\"last\":2}"),
					"a", &state, &err),
		  SC_E_DATA);
	sc_bytes_done(&text);
}

/* The model. */

#define ROWS 300

static uint64_t rng;

static uint64_t below(uint64_t n)
{
	rng = rng * 6364136223846793005ULL + 1442695040888963407ULL;
	return (rng >> 33) % n;
}

static struct {
	int64_t seq;
	char rows[ROWS * 8];
} server;

/* One request: its rows are kept if its sequence is the next one. */
static void serve(void)
{
	sc_dspost_state(d, &state);
	body = sc_dspost_body(d);
	if ((int64_t)state.seq <= server.seq)
		return;
	CHECK_INT(state.seq, server.seq + 1);
	server.seq++;
	snprintf(server.rows + strlen(server.rows), sizeof(server.rows) - strlen(server.rows),
		 "%.*s,", (int)body.len - 2, body.data + 1);
}

/* One life, killed or done (true). *KEPT is the state on disk. */
static bool live(struct sc_dspost_state *kept)
{
	size_t next = 0;

	open_post(1 + below(6), true, kept);
	while (next < ROWS && 2 * next + 1 <= kept->after)
		next++;
	for (;;) {
		for (size_t n = below(4); n && next < ROWS && !sc_dspost_full(d); n--, next++) {
			char text[24];
			size_t len = sc_u64_digits(text, next);

			CHECK_OK(sc_dspost_put(d, sc_span(text, len), next, 2 * next + 1, &err),
				 &err);
		}
		if (below(30) == 0)
			return false;
		if (!sc_dspost_open(d) && sc_dspost_begin(d, &body, &err) == 1) {
			sc_dspost_state(d, kept);
			if (below(10) == 0)
				return false;
		}
		if (sc_dspost_open(d)) {
			if (below(4))
				serve(); /* else it was lost on the way */
			else
				continue;
			if (below(5) == 0)
				continue; /* the answer was lost: again */
			sc_dspost_stored(d, 0, false, 0);
			sc_dspost_drop(d);
		}
		if (next == ROWS && sc_dspost_empty(d))
			return true;
	}
}

TEST(every_row_once)
{
	static char want[sizeof(server.rows)];

	for (size_t i = 0; i < ROWS; i++)
		snprintf(want + strlen(want), sizeof(want) - strlen(want), "%zu,", i);
	for (int round = 0; round < 200; round++) {
		struct sc_dspost_state kept = { 0 };

		memset(&server, 0, sizeof(server));
		server.seq = -1;
		rng = (uint64_t)round + 3;
		while (!live(&kept))
			;
		CHECK_STR(server.rows, want);
	}
	sc_dspost_free(d);
	d = NULL;
}
