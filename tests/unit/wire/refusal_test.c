/* Close codes and reasons: fields in order, the 123-byte rule to the byte, lenient reading, and the
 * boundaries of 5.2. */
#include "../check.h"
#include "wire/refusal.h"

static char reason[SC_REASON_MAX + 1];
static struct sc_refusal r;

#define REASON(WANT) \
	do { \
		size_t reason_len_ = sc_refusal_reason(&r, reason); \
		CHECK_INT(reason_len_, strlen(reason)); \
		CHECK(reason_len_ <= 123); \
		CHECK_STR(reason, WANT); \
	} while (0)

TEST(fields_in_order)
{
	sc_refusal_init(&r, SC_REFUSAL_PUBLISH_DISABLED);
	REASON("{\"error\":\"publish_disabled\"}");
	CHECK_INT(sc_refusal_code(&r), 4400);
	sc_refusal_init(&r, SC_REFUSAL_TOO_SLOW);
	r.backlog = 8192;
	REASON("{\"error\":\"too_slow\",\"backlog\":8192}");
	CHECK_INT(sc_refusal_code(&r), 4429);
	r.has = SC_HAS_RESUME;
	r.resume = 12;
	REASON("{\"error\":\"too_slow\",\"backlog\":8192,\"resume\":12}");
	sc_refusal_init(&r, SC_REFUSAL_NOT_REPLAYABLE);
	CHECK_INT(sc_refusal_code(&r), 4416);
	r.why = SC_WHY_NOT_DURABLE;
	REASON("{\"error\":\"not_replayable\",\"why\":\"not_durable\"}");
	r.why = SC_WHY_AHEAD;
	r.offset = 9;
	r.end_offset = 8;
	REASON("{\"error\":\"not_replayable\",\"why\":\"ahead\",\"offset\":9,\"end_offset\":8}");
	r.why = SC_WHY_TOO_OLD;
	r.offset = 1;
	r.behind = 100001;
	r.max_replay = 100000;
	REASON("{\"error\":\"not_replayable\",\"why\":\"too_old\",\"offset\":1,\"behind\":100001,"
	       "\"max_replay\":100000,"
	       "\"archive\":null}");
	CHECK_INT(strlen(reason), 104);
	r.wire = 4;
	REASON("{\"error\":\"not_replayable\",\"why\":\"too_old\",\"offset\":1,\"behind\":100001,"
	       "\"max_replay\":100000}");
	r.why = SC_WHY_EVICTED;
	r.wire = 2;
	r.earliest = 40;
	REASON("{\"error\":\"not_replayable\",\"why\":\"evicted\",\"offset\":1,\"earliest\":40,"
	       "\"archive\":null}");
	/* Three numbers of 20 digits: the archive goes first, then max_replay. */
	r.why = SC_WHY_TOO_OLD;
	r.offset = r.behind = r.max_replay = UINT64_MAX;
	REASON("{\"error\":\"not_replayable\",\"why\":\"too_old\",\"offset\":18446744073709551615,"
	       "\"behind\":18446744073709551615}");
	r.why = SC_WHY_AHEAD;
	memset(r.offset_digits, '9', 75);
	REASON("{\"error\":\"not_replayable\",\"why\":\"ahead\"}");
	r.offset_digits[40] = '\0';
	r.end_offset = 1;
	REASON("{\"error\":\"not_replayable\",\"why\":\"ahead\",\"offset\":"
	       "9999999999999999999999999999999999999999,"
	       "\"end_offset\":1}");
}

TEST(a_list_is_never_cut)
{
	struct sc_span names[7];

	sc_refusal_init(&r, SC_REFUSAL_NO_SUCH_STREAM);
	REASON("{\"error\":\"no_such_stream\",\"serves\":[]}");
	CHECK_INT(strlen(reason), 38);
	CHECK_INT(sc_refusal_code(&r), 4404);
	for (int i = 0; i < 7; i++)
		names[i] = SC_SPAN("abcdefghij");
	r.serves = names;
	r.serves_count = 6;
	CHECK_INT(sc_refusal_reason(&r, reason), 115);
	r.serves_count = 7;
	CHECK_INT(sc_refusal_reason(&r, reason), 26);
	CHECK_STR(reason, "{\"error\":\"no_such_stream\"}");
	/* Exactly 123 bytes stay, 124 do not. */
	names[0] = SC_SPAN("abcdefghijklmnopqr");
	r.serves_count = 6;
	CHECK_INT(sc_refusal_reason(&r, reason), 123);
	names[0] = SC_SPAN("abcdefghijklmnopqrs");
	CHECK_INT(sc_refusal_reason(&r, reason), 26);
}

TEST(a_detail_is_cut_to_80_characters)
{
	char text[400];

	memset(text, 'x', 399);
	text[399] = '\0';
	sc_refusal_init(&r, SC_REFUSAL_BAD_REQUEST);
	sc_refusal_detail(&r, "%s", text);
	CHECK_INT(strlen(r.detail), 80);
	CHECK_INT(sc_refusal_reason(&r, reason), 115);
	memset(text, '"', 80);
	sc_refusal_detail(&r, "%s", text);
	REASON("{\"error\":\"bad_request\"}");
	for (int i = 0; i < 100; i++)
		memcpy(text + 3 * i, "\xe2\x82\xac", 3);
	text[300] = '\0';
	sc_refusal_detail(&r, "%s", text);
	CHECK_INT(strlen(r.detail), 240);
	REASON("{\"error\":\"bad_request\"}");
	sc_refusal_detail(&r, "a\xff\xe2\x82z");
	REASON("{\"error\":\"bad_request\",\"detail\":\"a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz\"}");
	sc_refusal_detail(&r, "say \"no\"\n");
	REASON("{\"error\":\"bad_request\",\"detail\":\"say \\\"no\\\"\\n\"}");
}

static void read_reason(int code, const char *text)
{
	sc_refusal_parse(code, sc_span_str(text), &r);
}

TEST(the_code_decides)
{
	struct sc_err err;

	read_reason(4416, "");
	CHECK_INT(r.kind, SC_REFUSAL_NOT_REPLAYABLE);
	CHECK_INT(r.why, SC_WHY_NONE);
	read_reason(4416, "{\"error\":\"not_replayable\",\"why\":\"ahe");
	CHECK_INT(r.kind, SC_REFUSAL_NOT_REPLAYABLE);
	read_reason(4416, "{\"why\":\"ahead\",\"offset\":9,\"end_offset\":8}");
	CHECK_INT(r.why, SC_WHY_AHEAD);
	CHECK_INT(r.has, SC_HAS_OFFSET | SC_HAS_END);
	CHECK_INT(r.end_offset, 8);
	CHECK_INT(sc_refusal_err(&r, "cannot subscribe", &err), SC_E_REFUSED);
	CHECK(strstr(err.fields, "\"why\":\"ahead\""));
	CHECK(strstr(err.fields, "\"end_offset\":8"));
	read_reason(4416, "{\"why\":\"moon\",\"offset\":-3}");
	CHECK_INT(r.why, SC_WHY_NONE);
	CHECK_STR(r.word, "moon");
	CHECK_INT(r.has, 0);
	sc_refusal_err(&r, "cannot subscribe", &err);
	CHECK(strstr(err.reason, "moon"));
	read_reason(4404, "{\"serves\":[\"a\",3,\"\",\"b\\u00e9\"]}");
	CHECK_STR(r.detail, "a, (unnamed), b\xc3\xa9");
	CHECK_INT(sc_refusal_err(&r, "cannot subscribe", &err), SC_E_NOLOG);
	read_reason(4404, "{\"serves\":3}");
	CHECK(!(r.has & SC_HAS_SERVES));
	read_reason(4429, "{\"error\":\"too_slow\",\"backlog\":\"x\"}");
	CHECK_INT(r.kind, SC_REFUSAL_TOO_SLOW);
	CHECK(!(r.has & SC_HAS_BACKLOG));
	CHECK_INT(sc_refusal_err(&r, "cannot go on", &err), SC_E_BUSY);
	CHECK(strstr(err.reason, "more than ? messages"));
	read_reason(4400, "{\"error\":\"publish_disabled\"}");
	CHECK_INT(r.kind, SC_REFUSAL_PUBLISH_DISABLED);
	read_reason(4400, "{\"error\":\"bad_request\",\"detail\":\"no\"}");
	CHECK_STR(r.detail, "no");
	CHECK_INT(sc_refusal_err(&r, "cannot subscribe", &err), SC_E_PROTOCOL);
	read_reason(4410, "{\"at\":5,\"end_offset\":7}");
	CHECK_INT(r.kind, SC_REFUSAL_RETIRED);
	read_reason(4999, "{\"error\":\"too_slow\"}");
	CHECK_INT(r.kind, SC_REFUSAL_NONE);
	read_reason(1001, "server shutting down");
	CHECK_INT(r.kind, SC_REFUSAL_NONE);
}

TEST(a_reason_is_read_back)
{
	struct sc_refusal built;

	sc_refusal_init(&built, SC_REFUSAL_NOT_REPLAYABLE);
	built.why = SC_WHY_TOO_OLD;
	built.offset = 1;
	built.behind = 2;
	built.max_replay = 3;
	sc_refusal_reason(&built, reason);
	read_reason(4416, reason);
	CHECK_INT(r.why, SC_WHY_TOO_OLD);
	CHECK_INT(r.offset, 1);
	CHECK_INT(r.behind, 2);
	CHECK_INT(r.max_replay, 3);
	CHECK_INT(r.has, SC_HAS_OFFSET | SC_HAS_BEHIND | SC_HAS_MAX_REPLAY);
}

static int64_t held_rows(void *arg, uint64_t offset)
{
	(void)offset;
	return *(int64_t *)arg;
}

#define DECIDE(OFFSET, WHY) \
	CHECK_INT((sc_resume_decide(&at, OFFSET, held_rows, &rows, &start, &r), r.why), WHY)
#define TAKES(OFFSET, START) \
	do { \
		start = 0; \
		CHECK(sc_resume_decide(&at, OFFSET, held_rows, &rows, &start, &r)); \
		CHECK_INT(start, START); \
	} while (0)

TEST(boundaries)
{
	struct sc_resume at = { .durable = true, .wire = 1, .first_offset = 1, .end_offset = 1 };
	int64_t rows = 0;
	uint64_t start;

	/* An empty log: F is 1. */
	TAKES(0, 1);
	TAKES(1, 1);
	DECIDE(2, SC_WHY_AHEAD);
	CHECK_INT(r.offset, 2);
	CHECK_INT(r.end_offset, 1);
	at.durable = false;
	DECIDE(0, SC_WHY_NOT_DURABLE);
	DECIDE(7, SC_WHY_NOT_DURABLE);
	at.durable = true;
	/* Rows 1 to 100. */
	at.end_offset = 101;
	TAKES(0, 1);
	TAKES(50, 50);
	TAKES(101, 101);
	DECIDE(102, SC_WHY_AHEAD);
	DECIDE(UINT64_MAX, SC_WHY_AHEAD);
	/* Bounded: equal is served, one more is not, and the rows decide, not the distance. */
	at.bounded = true;
	at.max_replay = 100;
	rows = 100;
	TAKES(1, 1);
	at.max_replay = 99;
	DECIDE(0, SC_WHY_TOO_OLD);
	CHECK_INT(r.offset, 1);
	CHECK_INT(r.behind, 100);
	CHECK_INT(r.max_replay, 99);
	TAKES(2, 2);
	rows = 99;
	TAKES(1, 1);
	rows = -1;
	DECIDE(1, SC_WHY_TOO_OLD);
	CHECK_INT(r.behind, 100);
	at.max_replay = 0;
	rows = 1;
	DECIDE(100, SC_WHY_TOO_OLD);
	TAKES(101, 101);
	/* The lower rows are gone: ahead before too old before evicted. */
	at.first_offset = 41;
	at.bounded = false;
	DECIDE(40, SC_WHY_EVICTED);
	CHECK_INT(r.offset, 40);
	CHECK_INT(r.earliest, 41);
	TAKES(41, 41);
	TAKES(0, 41);
	at.bounded = true;
	at.max_replay = 10;
	rows = 60;
	DECIDE(1, SC_WHY_TOO_OLD);
	rows = 5;
	DECIDE(1, SC_WHY_EVICTED);
	/* Evicted dry. */
	at.bounded = false;
	at.first_offset = 101;
	DECIDE(100, SC_WHY_EVICTED);
	CHECK_INT(r.earliest, 101);
	TAKES(0, 101);
	TAKES(101, 101);
}
