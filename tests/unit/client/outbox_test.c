/*
 * Rows on their way to a server: frames and numbers, replies that refuse, lost connections; and a
 * model of a server with producers: whatever is lost and whoever is restarted, each row is stored
 * once and in order.
 */
#include "../check.h"
#include "client/outbox.h"
#include "json/scan.h"
#include "wire/publish.h"

static struct sc_outbox *box;
static struct sc_err err;
static enum sc_outbox_step step;
static struct sc_span frame;
static struct sc_outbox_row row;

static void open_box(size_t window, size_t batch, bool producer)
{
	struct sc_outbox_options o = { .window = window, .batch = batch, .producer = producer };

	sc_outbox_free(box);
	CHECK_OK(sc_outbox_new(&o, &box, &err), &err);
	CHECK_OK(sc_outbox_connected(box, 0, &err), &err);
}

#define PUTS(TEXT, LINE, NUMBER) \
	CHECK_OK(sc_outbox_put(box, SC_SPAN(TEXT), LINE, NUMBER, &err), &err)
#define SENDS(WANT) \
	do { \
		CHECK_INT(sc_outbox_next(box, &frame, &err), 1); \
		CHECK_SPAN(frame, WANT); \
		sc_outbox_sent(box); \
	} while (0)
#define SENDS_NOTHING() CHECK_INT(sc_outbox_next(box, &frame, &err), 0)
#define REPLY(TEXT, STEP) \
	do { \
		CHECK_OK(sc_outbox_reply(box, SC_SPAN(TEXT), &step, &err), &err); \
		CHECK_INT(step, STEP); \
	} while (0)
#define FAILS(TEXT, CODE, WORDS) \
	do { \
		char line_[1300]; \
		CHECK_INT(sc_outbox_reply(box, SC_SPAN(TEXT), &step, &err), CODE); \
		sc_err_line(&err, line_, sizeof(line_)); \
		if (!strstr(line_, WORDS)) \
			FAIL("'%s' is not in '%s'", WORDS, line_); \
	} while (0)

TEST(frames_and_their_rows)
{
	open_box(2, 2, false);
	CHECK(sc_outbox_empty(box));
	SENDS_NOTHING();
	PUTS("{\"a\":1}", 1, 1);
	SENDS("{\"a\":1}");
	PUTS("{\"a\":2}", 2, 2);
	PUTS("{\"a\":3}", 4, 3);
	CHECK(sc_outbox_full(box));
	SENDS("[{\"a\":2},{\"a\":3}]");
	SENDS_NOTHING();
	REPLY("{\"ok\":[7]}", SC_OUTBOX_STORED);
	CHECK(sc_outbox_stored(box, 0, &row) && row.offset == 7 && row.line == 1);
	CHECK(!sc_outbox_stored(box, 1, &row));
	sc_outbox_drop(box);
	CHECK(!sc_outbox_full(box));
	REPLY("{\"ok\":[8,9]}", SC_OUTBOX_STORED);
	CHECK(sc_outbox_stored(box, 0, &row) && sc_outbox_stored(box, 1, &row));
	CHECK_SPAN(row.text, "{\"a\":3}");
	CHECK(row.offset == 9 && row.line == 4);
	sc_outbox_drop(box);
	CHECK(sc_outbox_empty(box));
	CHECK_INT(sc_outbox_line(box), 4);
}

TEST(numbers_without_a_row)
{
	open_box(4, 10, true);
	CHECK_OK(sc_outbox_connected(box, 0, &err), &err);
	PUTS("1", 1, 5);
	PUTS("2", 2, 6);
	SENDS("{\"seq\":5,\"rows\":[1,2]}");
	PUTS("3", 3, 9);
	PUTS("4", 4, 12);
	SENDS("{\"seq\":7,\"last\":12,\"rows\":[3,4]}");
	/* the server has the first frame, and others of ours that are not known here */
	CHECK_OK(sc_outbox_connected(box, 10, &err), &err);
	SENDS("{\"seq\":5,\"rows\":[1,2]}");
	SENDS("{\"seq\":7,\"last\":9,\"rows\":[3]}");
	SENDS("{\"seq\":11,\"last\":12,\"rows\":[4]}");
	/* what the server had at the start is not left out of the count */
	open_box(4, 10, true);
	CHECK_OK(sc_outbox_connected(box, 40, &err), &err);
	PUTS("1", 1, 41);
	SENDS("{\"seq\":41,\"rows\":[1]}");
	open_box(4, 10, true);
	CHECK_OK(sc_outbox_connected(box, 40, &err), &err);
	PUTS("1", 1, 45);
	SENDS("{\"seq\":41,\"last\":45,\"rows\":[1]}");
}

TEST(a_server_that_lost_rows)
{
	open_box(4, 10, true);
	PUTS("1", 1, 5);
	SENDS("{\"seq\":5,\"rows\":[1]}");
	REPLY("{\"ok\":[1]}", SC_OUTBOX_STORED);
	sc_outbox_drop(box);
	CHECK_INT(sc_outbox_connected(box, 4, &err), SC_E_REFUSED);
	CHECK_OK(sc_outbox_connected(box, 5, &err), &err);
}

TEST(a_refused_row_is_found)
{
	open_box(4, 10, false);
	for (int i = 1; i <= 5; i++)
		PUTS("{}", (uint64_t)i, (uint64_t)i);
	SENDS("[{},{},{},{},{}]");
	REPLY("{\"error\":\"rejected\",\"detail\":\"column 'a'\"}", SC_OUTBOX_WAIT);
	CHECK(sc_outbox_full(box));
	SENDS("[{},{},{}]");
	SENDS_NOTHING(); /* one at a time: what follows must not be stored before */
	REPLY("{\"ok\":[1,2,3]}", SC_OUTBOX_STORED);
	sc_outbox_drop(box);
	SENDS("[{},{}]");
	REPLY("{\"error\":\"rejected\",\"detail\":\"column 'a'\"}", SC_OUTBOX_WAIT);
	SENDS("{}");
	FAILS("{\"error\":\"rejected\",\"detail\":\"column 'a'\"}", SC_E_DATA,
	      "on line '4': the server refused the row: column 'a'");
}

/* Four rows on their way in two groups of two. */
static void two_groups(void)
{
	open_box(4, 2, false);
	for (int i = 1; i <= 4; i++)
		PUTS("{}", (uint64_t)i, (uint64_t)i);
	SENDS("[{},{}]");
	SENDS("[{},{}]");
}

TEST(what_stands_behind_a_refused_group)
{
	open_box(4, 2, false);
	for (int i = 1; i <= 6; i++)
		PUTS("{}", (uint64_t)i, (uint64_t)i);
	for (int i = 0; i < 3; i++)
		SENDS("[{},{}]");
	REPLY("{\"ok\":[1,2]}", SC_OUTBOX_STORED);
	sc_outbox_drop(box);
	REPLY("{\"error\":\"rejected\",\"detail\":\"no\"}", SC_OUTBOX_WAIT);
	SENDS_NOTHING();
	REPLY("{\"ok\":[3,4]}", SC_OUTBOX_STORED);
	sc_outbox_drop(box);
	CHECK_INT(sc_outbox_line(box), 2);
	two_groups();
	REPLY("{\"error\":\"rejected\",\"detail\":\"no\"}", SC_OUTBOX_WAIT);
	REPLY("{\"error\":\"rejected\",\"detail\":\"later\"}", SC_OUTBOX_WAIT);
	SENDS("{}");
	FAILS("{\"error\":\"rejected\",\"detail\":\"no\"}", SC_E_DATA, "on line '1'");
	two_groups();
	REPLY("{\"error\":\"rejected\",\"detail\":\"no\"}", SC_OUTBOX_WAIT);
	REPLY("{\"ok\":[1,2]}", SC_OUTBOX_STORED);
	sc_outbox_drop(box);
	CHECK_INT(sc_outbox_settle(box, &step, &err), SC_E_DATA);
	CHECK(strstr(err.reason, "one of the lines 1 to 2: no"));
}

TEST(fenced_is_asked_once)
{
	open_box(4, 1, true);
	PUTS("1", 1, 5);
	PUTS("2", 2, 6);
	SENDS("{\"seq\":5,\"rows\":[1]}");
	SENDS("{\"seq\":6,\"rows\":[2]}");
	REPLY("{\"error\":\"fenced\",\"detail\":\"x\"}", SC_OUTBOX_WAIT);
	REPLY("{\"error\":\"fenced\",\"detail\":\"y\"}", SC_OUTBOX_RECONNECT);
	CHECK_OK(sc_outbox_connected(box, 0, &err), &err);
	SENDS("{\"seq\":5,\"rows\":[1]}");
	FAILS("{\"error\":\"fenced\",\"detail\":\"x\"}", SC_E_REFUSED, "row 5: x");
}

TEST(a_server_that_cannot_store)
{
	open_box(4, 1, true);
	PUTS("1", 1, 5);
	SENDS("{\"seq\":5,\"rows\":[1]}");
	REPLY("{\"error\":\"commit_failed\",\"detail\":\"disk\"}", SC_OUTBOX_LATER);
	SENDS_NOTHING();
	sc_outbox_resend(box);
	SENDS("{\"seq\":5,\"rows\":[1]}");
	open_box(4, 1, false);
	PUTS("{}", 8, 1);
	SENDS("{}");
	FAILS("{\"error\":\"commit_failed\",\"detail\":\"disk\"}", SC_E_BUSY, "on line '8'");
}

TEST(a_server_that_lies)
{
	open_box(4, 10, false);
	FAILS("{\"ok\":[1]}", SC_E_PROTOCOL, "none was due");
	PUTS("{}", 1, 1);
	SENDS("{}");
	FAILS("{\"ok\":[1,2]}", SC_E_PROTOCOL, "1 rows were acknowledged with 2 offsets");
	open_box(4, 10, false);
	PUTS("{}", 1, 1);
	PUTS("{}", 2, 2);
	SENDS("[{},{}]");
	FAILS("{\"ok\":[4,9]}", SC_E_PROTOCOL, "offsets 4 to 9");
	open_box(4, 1, false);
	PUTS("{}", 1, 1);
	PUTS("{}", 2, 2);
	SENDS("{}");
	SENDS("{}");
	REPLY("{\"ok\":[4]}", SC_OUTBOX_STORED);
	sc_outbox_drop(box);
	FAILS("{\"ok\":[4]}", SC_E_PROTOCOL, "behind 4");
	FAILS("[]", SC_E_PROTOCOL, "no JSON object");
	FAILS("{\"error\":\"strange\"}", SC_E_PROTOCOL, "'strange'");
}

TEST(what_is_in_doubt)
{
	uint64_t first, last;
	char text[1300];

	open_box(4, 2, false);
	CHECK_OK(sc_outbox_lost(box, &err), &err);
	for (int i = 1; i <= 5; i++)
		PUTS("{}", (uint64_t)i * 10, (uint64_t)i);
	CHECK_OK(sc_outbox_lost(box, &err), &err); /* nothing was sent */
	SENDS("[{},{}]");
	SENDS("[{},{}]");
	REPLY("{\"ok\":[4,5]}", SC_OUTBOX_STORED);
	sc_outbox_drop(box);
	CHECK(sc_outbox_in_doubt(box, &first, &last) && first == 30 && last == 40);
	CHECK_INT(sc_outbox_lost(box, &err), SC_E_UNAVAILABLE);
	sc_err_line(&err, text, sizeof(text));
	CHECK(strstr(text, "the lines 30 to 40 were sent and not acknowledged"));
	CHECK(strstr(err.fields, "\"line\":30,\"last_line\":40,\"stored_line\":20"));
	CHECK_OK(sc_outbox_connected(box, 0, &err), &err);
	CHECK(!sc_outbox_in_doubt(box, &first, &last));
}

/* The model: a server with one producer, whose replies and connections get lost. */

#define ROWS 400

static uint64_t rng = 1;

static uint64_t below(uint64_t n)
{
	rng = rng * 6364136223846793005ULL + 1442695040888963407ULL;
	return (rng >> 33) % n;
}

static struct {
	uint64_t seq_last, first_seq;
	bool known;
	uint64_t rows[2 * ROWS];
	size_t count;
	char replies[64][256];
	size_t reply_count;
	char waiting[64][512]; /* frames that came and were not looked at */
	size_t wait_count;
} server;

static void serve(void)
{
	struct sc_span text = sc_span_str(server.waiting[0]);
	struct sc_publish p;
	struct sc_span one;
	struct sc_bytes out;
	char *reply = server.replies[server.reply_count++];

	CHECK(server.reply_count <= 64);
	sc_bytes_init(&out, 4096);
	CHECK_OK(sc_publish_parse(text, true, &p, &err), &err);
	if (below(40) == 0) {
		sc_publish_error(&out, SC_PUBLISH_FAILED, "disk");
	} else if (server.known && p.last <= server.seq_last) {
		sc_publish_ok(&out, 0, p.count, true);
	} else if (server.known && p.seq != server.seq_last + 1) {
		sc_publish_error(&out, SC_PUBLISH_FENCED, "sequence");
	} else {
		sc_publish_ok(&out, server.count + 1, p.count, false);
		while (sc_publish_next(&p, &one))
			CHECK(server.count < 2 * ROWS &&
			      sc_u64_parse(one, &server.rows[server.count++]));
		server.known = true;
		server.seq_last = p.last;
	}
	CHECK(out.len < 256);
	memcpy(reply, out.data, out.len);
	reply[out.len] = '\0';
	sc_bytes_done(&out);
	memmove(server.waiting[0], server.waiting[1], sizeof(server.waiting[0]) * 63);
	server.wait_count--;
}

/* A new connection: it is greeted, and only then some of what came over the old one is looked
 * at. */
static void connect_again(void)
{
	uint64_t stored = server.known ? server.seq_last : 0;
	size_t late = below(server.wait_count + 1);

	while (late--)
		serve();
	server.wait_count = server.reply_count = 0;
	CHECK_OK(sc_outbox_connected(box, stored, &err), &err);
}

/* Input numbers: with gaps, the same in every run. */
static uint64_t number_of(size_t i)
{
	return 3 * i + 1 + (i * i % 3);
}

/* One life of a publisher, until it is killed or done: true. */
static bool live(size_t window, size_t batch)
{
	uint64_t stored = server.seq_last;
	size_t next = 0;

	open_box(window, batch, true);
	connect_again();
	while (next < ROWS && number_of(next) <= stored)
		next++;
	for (;;) {
		char text[24];

		switch (below(8)) {
		case 0:
		case 1:
			for (size_t n = below(6); n && next < ROWS && !sc_outbox_full(box); n--) {
				size_t len = sc_u64_digits(text, number_of(next));

				CHECK_OK(sc_outbox_put(box, sc_span(text, len), next + 1,
						       number_of(next), &err),
					 &err);
				next++;
			}
			break;
		case 2:
		case 3:
			if (sc_outbox_next(box, &frame, &err) == 1) {
				CHECK(frame.len < 512 && server.wait_count < 64);
				memcpy(server.waiting[server.wait_count], frame.data, frame.len);
				server.waiting[server.wait_count++][frame.len] = '\0';
				sc_outbox_sent(box);
			}
			break;
		case 4:
		case 5:
		case 6:
			if (server.wait_count && below(2))
				serve();
			if (!server.reply_count)
				break;
			CHECK_OK(sc_outbox_reply(box, sc_span_str(server.replies[0]), &step, &err),
				 &err);
			memmove(server.replies[0], server.replies[1],
				sizeof(server.replies[0]) * 63);
			server.reply_count--;
			if (step == SC_OUTBOX_STORED) {
				sc_outbox_drop(box);
				CHECK_OK(sc_outbox_settle(box, &step, &err), &err);
			}
			if (step == SC_OUTBOX_LATER)
				sc_outbox_resend(box);
			if (step != SC_OUTBOX_RECONNECT)
				break;
			connect_again();
			break;
		default:
			if (below(6))
				break;
			if (below(4) == 0)
				return false; /* killed */
			CHECK_OK(sc_outbox_lost(box, &err), &err);
			connect_again();
		}
		if (next == ROWS && sc_outbox_empty(box))
			return true;
	}
}

TEST(every_row_once)
{
	for (int round = 0; round < 200; round++) {
		memset(&server, 0, sizeof(server));
		rng = (uint64_t)round + 7;
		while (!live(1 + below(5), 1 + below(7)))
			;
		CHECK_INT(server.count, ROWS);
		for (size_t i = 0; i < ROWS; i++)
			CHECK_INT(server.rows[i], number_of(i));
	}
	sc_outbox_free(box);
	box = NULL;
}
