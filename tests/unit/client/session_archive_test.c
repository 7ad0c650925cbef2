/*
 * session_archive_test: a session that catches up. Goal: the archive is read only when it was asked
 * for and the server does not go back so far; what comes from there is in order with what came before
 * and comes after; what nobody holds is refused with both numbers; it ends after its rounds. Method:
 * the closes, greetings, archives and rows of a few lives, by hand.
 */
#include "client/session.h"

#include "../check.h"

static struct sc_err err;

static struct sc_session *open_session(struct sc_session_options options)
{
	struct sc_session *s = NULL;

	CHECK_OK(sc_session_new(&options, &s, &err), &err);
	return s;
}

static void check_target(struct sc_session *s, bool peek, const char *want)
{
	struct sc_bytes out;

	sc_bytes_init(&out, 1000);
	CHECK_OK(peek ? sc_session_peek_target(s, &out, &err) : sc_session_target(s, &out, &err),
		 &err);
	CHECK_MEM(out.data, out.len, want);
	sc_bytes_done(&out);
}

static enum sc_session_verdict refused(struct sc_session *s, const char *reason)
{
	sc_session_connected(s);
	return sc_session_closed(s, 4416, sc_span_str(reason), &err);
}

static const char too_old[] = "{\"error\":\"not_replayable\",\"why\":\"too_old\",\"offset\":3,"
			      "\"behind\":90,\"max_replay\":10}";
static const char evicted[] = "{\"error\":\"not_replayable\",\"why\":\"evicted\",\"offset\":3,"
			      "\"earliest\":50}";

static int begin(struct sc_session *s, uint64_t first, uint64_t next)
{
	const struct sc_session_kept kept = {
		.archive = "file:///a/t", .stream_id = "A", .first = first, .next = next
	};

	return sc_session_archive_begin(s, &kept, &err);
}

static void archived(struct sc_session *s, const char *line, enum sc_session_step want)
{
	enum sc_session_step step;
	struct sc_data row;

	CHECK_OK(sc_session_archived(s, sc_span_str(line), &step, &row, &err), &err);
	CHECK_INT(step, want);
	if (step == SC_STEP_ROW)
		sc_session_delivered(s, 1);
}

static void greet(struct sc_session *s, uint64_t from, uint64_t end, const char *id)
{
	enum sc_session_step step;
	struct sc_data row;
	char text[400];

	snprintf(text, sizeof(text),
		 "{\"streamcast\":1,\"stream\":\"t\",\"end_offset\":%llu,\"replay\":[%llu,%llu],"
		 "\"durable\":true,\"schema\":null,\"archive\":null,\"stream_id\":\"%s\"}",
		 (unsigned long long)end, (unsigned long long)from, (unsigned long long)end, id);
	sc_session_connected(s);
	CHECK_OK(sc_session_message(s, sc_span_str(text), false, &step, &row, &err), &err);
	CHECK_INT(step, SC_STEP_GREETED);
}

static int live(struct sc_session *s, const char *text)
{
	enum sc_session_step step;
	struct sc_data row;
	int rc = sc_session_message(s, sc_span_str(text), false, &step, &row, &err);

	return rc < 0 ? rc : (int)step;
}

TEST(only_when_asked_for_and_only_for_what_is_too_old)
{
	struct sc_session *s = open_session(
		(struct sc_session_options){ .target = "/t", .has_offset = true, .offset = 3 });

	CHECK_INT(refused(s, too_old), SC_VERDICT_FAIL);
	CHECK(strstr(err.next, "--catch-up") && strstr(err.fields, "\"why\":\"too_old\""));
	CHECK_INT(refused(s, evicted), SC_VERDICT_FAIL);
	CHECK(strstr(err.next, "--catch-up") && strstr(err.next, "--offset earliest"));
	sc_session_free(s);
	s = open_session((struct sc_session_options){
		.target = "/t", .has_offset = true, .offset = 3, .rounds = 3 });
	for (int i = 0; i < 4; i++) {
		static const char *const others[] = { "ahead", "empty", "not_durable", "newer" };
		char reason[100];

		snprintf(reason, sizeof(reason), "{\"error\":\"not_replayable\",\"why\":\"%s\"}",
			 others[i]);
		CHECK_INT(refused(s, reason), SC_VERDICT_FAIL);
	}
	CHECK_INT(refused(s, ""), SC_VERDICT_FAIL);
	CHECK_INT(sc_session_closed(s, 4404, sc_span_str("{}"), &err), SC_VERDICT_FAIL);
	CHECK_INT(refused(s, evicted), SC_VERDICT_CATCH_UP);
	CHECK_STR(sc_session_archive(s), "");
	sc_session_free(s);
}

TEST(rows_of_the_archive_stand_between_those_of_the_server)
{
	struct sc_session *s = open_session((struct sc_session_options){
		.target = "/t?where=%7B%7D", .has_offset = true, .offset = 3, .rounds = 3 });
	struct sc_gap gap;

	check_target(s, false, "/t?where=%7B%7D&offset=3");
	check_target(s, true, "/t?where=%7B%7D");
	CHECK_INT(refused(s, too_old), SC_VERDICT_CATCH_UP);
	CHECK_INT(begin(s, 1, 6), 0);
	archived(s, "[3,{}]", SC_STEP_ROW);
	archived(s, "[5,{}]", SC_STEP_ROW); /* 4 was never given: told, as of the server */
	CHECK(sc_session_gap(s, &gap) && gap.known && gap.first == 4 && gap.last == 4);
	CHECK_INT(sc_session_resume(s), 6);
	CHECK_INT(sc_session_last(s), 5);
	check_target(s, false, "/t?where=%7B%7D&offset=6");
	greet(s, 6, 8, "A");
	CHECK_INT(live(s, "[6,{}]"), SC_STEP_ROW);
	CHECK_INT(live(s, "[5,{}]"), SC_E_PROTOCOL); /* the order spans the join */
	CHECK_INT(sc_session_rows(s), 3);
	/* days later, in the middle of it */
	CHECK_INT(sc_session_closed(s, 1006, sc_span("", 0), &err), SC_VERDICT_AGAIN);
	CHECK_INT(refused(s, evicted), SC_VERDICT_CATCH_UP);
	CHECK_INT(begin(s, 1, 9), 0);
	archived(s, "[7,{}]", SC_STEP_ROW);
	sc_session_free(s);
}

TEST(a_step_back_in_the_archive_is_a_fault)
{
	struct sc_session *s = open_session((struct sc_session_options){
		.target = "/t", .has_offset = true, .offset = 3, .rounds = 3 });
	enum sc_session_step step;
	struct sc_data row;

	CHECK_INT(refused(s, too_old), SC_VERDICT_CATCH_UP);
	CHECK_INT(begin(s, 1, 9), 0);
	archived(s, "[3,{}]", SC_STEP_ROW);
	CHECK_INT(sc_session_archived(s, sc_span_str("[3,{}]"), &step, &row, &err), SC_E_PROTOCOL);
	CHECK_INT(sc_session_archived(s, sc_span_str("3,{}]"), &step, &row, &err), SC_E_DATA);
	sc_session_free(s);
	s = open_session((struct sc_session_options){
		.target = "/t", .has_offset = true, .offset = 3, .rounds = 3, .contiguous = true });
	CHECK_INT(refused(s, too_old), SC_VERDICT_CATCH_UP);
	CHECK_INT(begin(s, 1, 9), 0);
	CHECK_INT(sc_session_archived(s, sc_span_str("[4,{}]"), &step, &row, &err), SC_E_PROTOCOL);
	sc_session_free(s);
}

TEST(what_nobody_holds_is_refused_with_both_numbers)
{
	struct sc_session *s = open_session((struct sc_session_options){
		.target = "/t", .has_offset = true, .offset = 3, .rounds = 9 });

	CHECK_INT(refused(s, evicted), SC_VERDICT_CATCH_UP);
	CHECK_INT(begin(s, 5, 60), SC_E_REFUSED); /* it begins above */
	CHECK(strstr(err.fields, "\"why\":\"gap\",\"first\":3,\"last\":4"));
	CHECK(strstr(err.reason, "from offset 3 to 4"));
	CHECK_INT(begin(s, 1, 3), SC_E_REFUSED); /* it ends below: the server has 50 on */
	CHECK(strstr(err.fields, "\"why\":\"gap\",\"first\":3,\"last\":49"));
	CHECK_INT(refused(s, too_old), SC_VERDICT_CATCH_UP);
	CHECK_INT(begin(s, 1, 3), SC_E_REFUSED); /* the server holds them and will not give them */
	CHECK(strstr(err.fields, "\"first\":3,\"archive_end\":3") &&
	      strstr(err.next, "at most 10"));
	sc_session_free(s);
	/* earliest is what there is */
	s = open_session((struct sc_session_options){
		.target = "/t", .has_offset = true, .offset = 0, .rounds = 9 });
	CHECK_INT(refused(s, too_old), SC_VERDICT_CATCH_UP);
	CHECK_INT(sc_session_resume(s), 0);
	CHECK_INT(begin(s, 1, 1), SC_E_REFUSED); /* an empty one */
	CHECK_INT(begin(s, 40, 60), 0);
	archived(s, "[40,{}]", SC_STEP_ROW);
	CHECK(!sc_session_gap(s, &(struct sc_gap){ 0 }));
	sc_session_free(s);
}

TEST(rounds_are_counted_until_a_connection_is_accepted)
{
	struct sc_session *s = open_session((struct sc_session_options){
		.target = "/t", .has_offset = true, .offset = 3, .rounds = 2 });

	for (int life = 0; life < 3; life++) {
		CHECK_INT(refused(s, evicted), SC_VERDICT_CATCH_UP);
		CHECK_INT(refused(s, too_old), SC_VERDICT_CATCH_UP);
		if (life < 2)
			greet(s, sc_session_resume(s), 90, "A");
	}
	CHECK_INT(begin(s, 1, 6), 0);
	archived(s, "[3,{}]", SC_STEP_ROW);
	CHECK_INT(sc_session_closed(s, 1006, sc_span("", 0), &err), SC_VERDICT_AGAIN);
	CHECK_INT(refused(s, evicted), SC_VERDICT_FAIL);
	CHECK_INT(err.code, SC_E_REFUSED);
	CHECK(strstr(err.reason, "up to offset 3 in 2 rounds") && strstr(err.reason, "is 50"));
	CHECK(strstr(err.next, "faster than it is archived"));
	CHECK(strstr(err.fields, "\"earliest\":50") && strstr(err.fields, "\"rounds\":2"));
	sc_session_free(s);
}

/* Offsets that were burned by a restore: the archive ends above them. */
TEST(the_archives_end_is_where_it_goes_on)
{
	struct sc_session *s = open_session((struct sc_session_options){
		.target = "/t", .has_offset = true, .offset = 3, .rounds = 3 });
	struct sc_gap gap;

	CHECK_INT(refused(s, evicted), SC_VERDICT_CATCH_UP);
	CHECK_INT(begin(s, 1, 1000), 0);
	archived(s, "[3,{}]", SC_STEP_ROW);
	CHECK_OK(sc_session_archive_end(s, 1000, &err), &err);
	CHECK(sc_session_gap(s, &gap) && gap.known && gap.first == 4 && gap.last == 999);
	check_target(s, false, "/t?offset=1000");
	CHECK_OK(sc_session_archive_end(s, 1000, &err), &err);
	CHECK(!sc_session_gap(s, &gap));
	sc_session_free(s);
	s = open_session((struct sc_session_options){
		.target = "/t", .has_offset = true, .offset = 3, .rounds = 3, .contiguous = true });
	CHECK_INT(refused(s, evicted), SC_VERDICT_CATCH_UP);
	CHECK_INT(begin(s, 1, 1000), 0);
	CHECK_INT(sc_session_archive_end(s, 1000, &err), SC_E_PROTOCOL);
	sc_session_free(s);
}

/* Rows 3 and 4 out of the archive: the session is finished with the second. */
static struct sc_session *finished_at_4(struct sc_session_options o)
{
	struct sc_session *s;

	o.target = "/t";
	o.has_offset = true;
	o.offset = 3;
	o.rounds = 3;
	s = open_session(o);
	CHECK_INT(refused(s, evicted), SC_VERDICT_CATCH_UP);
	CHECK_INT(begin(s, 1, 9), 0);
	archived(s, "[3,{}]", SC_STEP_ROW);
	CHECK(!sc_session_finished(s));
	archived(s, "[4,{}]", SC_STEP_ROW);
	CHECK(sc_session_finished(s));
	return s;
}

TEST(it_is_finished_in_the_archive_too)
{
	struct sc_session *s = finished_at_4((struct sc_session_options){ .to = 4 });

	archived(s, "[5,{}]", SC_STEP_PAST);
	sc_session_free(s);
	sc_session_free(finished_at_4((struct sc_session_options){ .count = 2 }));
}

TEST(the_server_tells_where_the_archive_is)
{
	static const char peeked[] =
		"{\"streamcast\":1,\"stream\":\"t\",\"end_offset\":5,\"replay\":null,"
		"\"durable\":true,\"schema\":null,\"archive\":null,\"stream_id\":\"A\","
		"\"sc_archive\":\"s3://b/p/t\"}";
	static const char original[] =
		"{\"streamcast\":2,\"stream\":\"t\",\"end_offset\":5,\"replay\":null,"
		"\"durable\":true,\"schema\":null,\"log\":{\"name\":\"t\",\"archive\":\"s3://"
		"ice\"}}";
	static const char with_nul[] =
		"{\"streamcast\":1,\"stream\":\"t\",\"end_offset\":5,\"replay\":null,"
		"\"durable\":true,\"archive\":\"s3:\\u0000b\"}";
	struct sc_session *s = open_session((struct sc_session_options){ .target = "/a/t?where={}",
									 .has_offset = true,
									 .offset = 3,
									 .until_end = true,
									 .rounds = 3 });

	CHECK_STR(sc_session_stream(s), "a/t");
	CHECK_INT(refused(s, "{\"error\":\"not_replayable\",\"why\":\"evicted\",\"offset\":3,"
			     "\"earliest\":9,\"archive\":\"s3://b/q\"}"),
		  SC_VERDICT_CATCH_UP);
	CHECK_STR(sc_session_archive(s), "s3://b/q");
	CHECK_OK(sc_session_peeked(s, sc_span_str(peeked), false, &err), &err);
	CHECK_STR(sc_session_archive(s), "s3://b/p/t");
	CHECK_OK(sc_session_peeked(s, sc_span_str(with_nul), false, &err), &err);
	CHECK_STR(sc_session_archive(s), "s3://b/p/t");
	/* that greeting is no acceptance, but its end is the end */
	CHECK(!sc_session_greeted(s));
	CHECK_INT(sc_session_resume(s), 3);
	CHECK_INT(begin(s, 1, 9), 0);
	archived(s, "[3,{}]", SC_STEP_ROW);
	archived(s, "[4,{}]", SC_STEP_ROW);
	CHECK(sc_session_finished(s));
	CHECK_OK(sc_session_peeked(s, sc_span_str(original), false, &err), &err);
	CHECK_STR(sc_session_archive(s), "s3://ice");
	CHECK_INT(sc_session_peeked(s, sc_span_str("[1]"), false, &err), SC_E_PROTOCOL);
	CHECK_INT(sc_session_peeked(s, sc_span_str(peeked), true, &err), SC_E_PROTOCOL);
	sc_session_free(s);
}

TEST(an_archive_of_another_log)
{
	struct sc_session *s = open_session((struct sc_session_options){
		.target = "/t", .has_offset = true, .offset = 3, .rounds = 3 });
	struct sc_session_kept kept = {
		.archive = "file:///a/t", .stream_id = "B", .first = 1, .next = 9
	};
	enum sc_session_step step;
	struct sc_data row;

	greet(s, 3, 9, "A");
	CHECK_INT(refused(s, evicted), SC_VERDICT_CATCH_UP);
	CHECK_INT(sc_session_archive_begin(s, &kept, &err), SC_E_CONFIG);
	CHECK(strstr(err.reason, "another log"));
	kept.trusted = true;
	CHECK_INT(sc_session_archive_begin(s, &kept, &err), 1);
	greet(s, 3, 9, "A");
	sc_session_free(s);
	/* it comes to light with the greeting behind it */
	s = open_session((struct sc_session_options){
		.target = "/t", .has_offset = true, .offset = 3, .rounds = 3 });
	CHECK_INT(refused(s, evicted), SC_VERDICT_CATCH_UP);
	kept.trusted = false;
	CHECK_INT(sc_session_archive_begin(s, &kept, &err), 0);
	archived(s, "[3,{}]", SC_STEP_ROW);
	sc_session_connected(s);
	CHECK_INT(sc_session_message(
			  s,
			  sc_span_str("{\"streamcast\":1,\"stream\":\"t\",\"end_offset\":9,"
				      "\"replay\":[4,9],\"durable\":true,\"stream_id\":\"A\"}"),
			  false, &step, &row, &err),
		  SC_E_REFUSED);
	CHECK(strstr(err.fields, "\"why\":\"other_log\""));
	sc_session_free(s);
}

/* ?where= is the server's filter; rows of the archive do not pass through it. */
TEST(the_filter_in_the_url_holds_for_archived_rows)
{
	struct sc_session *s = open_session(
		(struct sc_session_options){ .target = "/t?where=%7B%22side%22%3A%22buy%22%7D",
					     .has_offset = true,
					     .offset = 3,
					     .rounds = 3 });

	CHECK_INT(refused(s, evicted), SC_VERDICT_CATCH_UP);
	CHECK_INT(begin(s, 1, 9), 0);
	archived(s, "[3,{\"side\":\"buy\"}]", SC_STEP_ROW);
	archived(s, "[4,{\"side\":\"sell\"}]", SC_STEP_DROPPED);
	CHECK_INT(sc_session_resume(s), 5);
	CHECK_INT(sc_session_rows(s), 1);
	archived(s, "[5,{\"side\":\"buy\"}]", SC_STEP_ROW);
	CHECK(!sc_session_gap(s, &(struct sc_gap){ 0 }));
	sc_session_free(s);
	/* one that cannot be read is not passed over */
	s = open_session((struct sc_session_options){
		.target = "/t?filter=a", .has_offset = true, .offset = 3, .rounds = 3 });
	CHECK_INT(refused(s, evicted), SC_VERDICT_CATCH_UP);
	CHECK_INT(begin(s, 1, 9), 0);
	CHECK_INT(sc_session_archived(s, sc_span_str("[3,{}]"), &(enum sc_session_step){ 0 },
				      &(struct sc_data){ 0 }, &err),
		  SC_E_USAGE);
	sc_session_free(s);
}
