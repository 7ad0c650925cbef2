/* The session: where it resumes, what it takes for a fault, when it is finished, what closes
 * mean. */
#include "client/session.h"

#include "../check.h"

static struct sc_session *open_session(struct sc_session_options options)
{
	struct sc_session *s = NULL;
	struct sc_err err;

	CHECK_OK(sc_session_new(&options, &s, &err), &err);
	return s;
}

static void check_target(struct sc_session *s, const char *want)
{
	struct sc_bytes out;
	struct sc_err err;

	sc_bytes_init(&out, 1000);
	CHECK_OK(sc_session_target(s, &out, &err), &err);
	CHECK_MEM(out.data, out.len, want);
	sc_bytes_done(&out);
}

static int feed(struct sc_session *s, const char *text, enum sc_session_step *ret_step,
		struct sc_data *ret_row, struct sc_err *err)
{
	return sc_session_message(s, sc_span_str(text), false, ret_step, ret_row, err);
}

static void greet(struct sc_session *s, const char *text)
{
	enum sc_session_step step;
	struct sc_data row;
	struct sc_err err;

	sc_session_connected(s);
	CHECK_OK(feed(s, text, &step, &row, &err), &err);
	CHECK_INT(step, SC_STEP_GREETED);
}

static void row(struct sc_session *s, const char *text, enum sc_session_step want)
{
	enum sc_session_step step;
	struct sc_data data;
	struct sc_err err;

	CHECK_OK(feed(s, text, &step, &data, &err), &err);
	CHECK_INT(step, want);
	if (step == SC_STEP_ROW)
		sc_session_delivered(s, 1);
}

static const char live[] =
	"{\"streamcast\":1,\"stream\":\"t\",\"end_offset\":10,\"replay\":null,\"durable\":true,"
	"\"schema\":null,\"archive\":null,\"stream_id\":\"A\"}";
static const char from_3[] =
	"{\"streamcast\":1,\"stream\":\"t\",\"end_offset\":6,\"replay\":[3,6],\"durable\":true,"
	"\"schema\":null,\"archive\":null,\"stream_id\":\"A\"}";
static const char not_durable[] =
	"{\"streamcast\":1,\"stream\":\"t\",\"end_offset\":null,\"replay\":null,"
	"\"durable\":false,\"schema\":null,\"archive\":null}";

TEST(live_goes_on_where_the_first_greeting_said)
{
	struct sc_session *s = open_session((struct sc_session_options){ .target = "/t" });
	struct sc_err err;

	check_target(s, "/t");
	greet(s, live);
	check_target(s, "/t?offset=10"); /* a row sent while the connection is down is not missed */
	row(s, "[10,{}]", SC_STEP_ROW);
	check_target(s, "/t?offset=11");
	CHECK_INT(sc_session_closed(s, 1006, sc_span("", 0), &err), SC_VERDICT_AGAIN);
	CHECK_INT(sc_session_closed(s, 1001, sc_span("", 0), &err), SC_VERDICT_AGAIN);
	CHECK_INT(sc_session_closed(s, 1012, sc_span("", 0), &err), SC_VERDICT_AGAIN);
	CHECK_INT(sc_session_closed(s, 1000, sc_span("", 0), &err), SC_VERDICT_END);
	sc_session_free(s);
}

TEST(the_urls_offset_is_replaced_as_it_goes_on)
{
	struct sc_session *s = open_session(
		(struct sc_session_options){ .target = "/t?where=%7B%7D&offset=3&x" });

	check_target(s, "/t?where=%7B%7D&x&offset=3");
	greet(s, from_3);
	row(s, "[3,1]", SC_STEP_ROW);
	check_target(s, "/t?where=%7B%7D&x&offset=4");
	sc_session_free(s);
}

TEST(two_offsets_or_none_are_refused)
{
	struct sc_session *s = NULL;
	struct sc_err err;
	struct sc_session_options two = { .target = "/t?offset=3",
					  .has_offset = true,
					  .offset = 4 };
	struct sc_session_options bad = { .target = "/t?offset=x" };

	CHECK_INT(sc_session_new(&two, &s, &err), SC_E_USAGE);
	CHECK_INT(sc_session_new(&bad, &s, &err), SC_E_USAGE);
	bad.target = "/t?offset=-1";
	CHECK_INT(sc_session_new(&bad, &s, &err), SC_E_USAGE);
}

TEST(gaps_are_told_once_and_steps_back_are_faults)
{
	struct sc_session *s = open_session(
		(struct sc_session_options){ .target = "/t", .has_offset = true, .offset = 3 });
	enum sc_session_step step;
	struct sc_data data;
	struct sc_gap gap;
	struct sc_err err;

	greet(s, from_3);
	row(s, "[3,{}]", SC_STEP_ROW);
	CHECK(!sc_session_gap(s, &gap));
	row(s, "[7,{}]", SC_STEP_ROW);
	CHECK(sc_session_gap(s, &gap));
	CHECK(gap.known && gap.first == 4 && gap.last == 6);
	CHECK(!sc_session_gap(s, &gap));
	CHECK_INT(feed(s, "[7,{}]", &step, &data, &err), SC_E_PROTOCOL);
	sc_session_free(s);

	s = open_session(
		(struct sc_session_options){ .target = "/t", .has_offset = true, .offset = 3 });
	greet(s, from_3);
	CHECK_INT(feed(s, "[2,{}]", &step, &data, &err),
		  SC_E_PROTOCOL); /* below what was asked for */
	sc_session_free(s);

	s = open_session((struct sc_session_options){
		.target = "/t", .has_offset = true, .offset = 3, .contiguous = true });
	greet(s, from_3);
	row(s, "[3,{}]", SC_STEP_ROW);
	CHECK_INT(feed(s, "[5,{}]", &step, &data, &err), SC_E_PROTOCOL);
	sc_session_free(s);
}

TEST(finished_by_count_offset_and_end)
{
	struct sc_session *s = open_session(
		(struct sc_session_options){ .target = "/t", .has_offset = true, .count = 2 });

	greet(s, from_3);
	row(s, "[3,{}]", SC_STEP_ROW);
	CHECK(!sc_session_finished(s));
	row(s, "[4,{}]", SC_STEP_ROW);
	CHECK(sc_session_finished(s));
	sc_session_free(s);

	s = open_session(
		(struct sc_session_options){ .target = "/t", .has_offset = true, .to = 4 });
	greet(s, from_3);
	row(s, "[3,{}]", SC_STEP_ROW);
	CHECK(!sc_session_finished(s));
	row(s, "[5,{}]", SC_STEP_PAST); /* 4 is not there: what is beyond is not delivered */
	CHECK(sc_session_finished(s));
	sc_session_free(s);

	s = open_session((struct sc_session_options){
		.target = "/t", .has_offset = true, .offset = 3, .until_end = true });
	greet(s, from_3);
	row(s, "[3,{}]", SC_STEP_ROW);
	row(s, "[4,{}]", SC_STEP_ROW);
	CHECK_INT(sc_session_awaits_end(s), 6);
	row(s, "[5,{}]", SC_STEP_ROW);
	CHECK(sc_session_finished(s));
	sc_session_free(s);

	s = open_session((struct sc_session_options){ .target = "/t", .until_end = true });
	greet(s, live);
	CHECK(sc_session_finished(s)); /* nothing was asked for that is not there */
	sc_session_free(s);
}

TEST(refusals_keep_their_meaning)
{
	struct sc_session *s = open_session(
		(struct sc_session_options){ .target = "/t", .has_offset = true, .offset = 99 });
	static const struct {
		int code;
		const char *reason;
		int want;
	} cases[] = {
		{ 4416,
		  "{\"error\":\"not_replayable\",\"why\":\"ahead\",\"offset\":99,\"end_offset\":6}",
		  SC_E_REFUSED },
		{ 4416, "", SC_E_REFUSED },
		{ 4404, "{\"error\":\"no_such_stream\",\"serves\":[\"a\"]}", SC_E_NOLOG },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sc_err err;

		CHECK_INT(sc_session_closed(s, cases[i].code, sc_span_str(cases[i].reason), &err),
			  SC_VERDICT_FAIL);
		CHECK_INT(err.code, cases[i].want);
	}
	sc_session_free(s);
}

TEST(too_slow_is_borne_until_nothing_moves)
{
	struct sc_session *s = open_session(
		(struct sc_session_options){ .target = "/t", .has_offset = true, .offset = 3 });
	struct sc_span reason = SC_SPAN("{\"error\":\"too_slow\",\"backlog\":8}");
	struct sc_err err;
	char text[32];

	greet(s, from_3);
	for (int i = 0; i < 3 * SC_SLOW_LIMIT; i++) { /* with progress in between: for ever */
		snprintf(text, sizeof(text), "[%d,{}]", 3 + i);
		row(s, text, SC_STEP_ROW);
		CHECK_INT(sc_session_closed(s, 4429, reason, &err), SC_VERDICT_AGAIN);
		CHECK_INT(err.code, SC_E_BUSY);
	}
	for (int i = 1; i < SC_SLOW_LIMIT - 1; i++)
		CHECK_INT(sc_session_closed(s, 4429, reason, &err), SC_VERDICT_AGAIN);
	CHECK_INT(sc_session_closed(s, 4429, reason, &err), SC_VERDICT_FAIL);
	sc_session_free(s);
}

TEST(another_log_is_not_taken_for_the_old_one)
{
	struct sc_session *s = open_session((struct sc_session_options){ .target = "/t" });
	enum sc_session_step step;
	struct sc_data data;
	struct sc_err err;

	greet(s, live);
	sc_session_connected(s);
	CHECK_INT(feed(s,
		       "{\"streamcast\":1,\"end_offset\":10,\"durable\":true,\"stream_id\":\"B\"}",
		       &step, &data, &err),
		  SC_E_REFUSED);
	CHECK(strstr(err.fields, "other_log") != NULL);
	sc_session_free(s);
}

TEST(a_stream_without_a_log_tells_of_what_is_lost)
{
	struct sc_session *s = open_session((struct sc_session_options){ .target = "/t" });
	struct sc_gap gap;

	greet(s, not_durable);
	CHECK(!sc_session_gap(s, &gap));
	row(s, "[null,{}]", SC_STEP_ROW);
	check_target(s, "/t");
	greet(s, not_durable);
	CHECK(sc_session_gap(s, &gap));
	CHECK(!gap.known);
	sc_session_free(s);
}
