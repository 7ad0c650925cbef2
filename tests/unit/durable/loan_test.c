/*
 * loan_test: bodies that are lent say what copied ones say, to the byte.
 *
 * Method: the same read twice, once with a loan and once without; the loan's parts, and what is
 * left of them behind every edge where a socket may stop, are compared with the copy. The number
 * of readers in the store's table says whether a transaction is held.
 */
#include "durable/engine_internal.h"
#include "engine_fixture.h"

#define EDGE 8192 /* from this length on a message is lent */

static struct sc_ds_loan loan;

static void put_as(const char *path, const char *type)
{
	struct sc_ds_call call = request(SC_DS_PUT, path, "");

	call.request.content_type = sc_span_str(type);
	CHECK_INT(ask(call, NULL), 201);
}

/* A message of LEN bytes that no other is like; JSON: a string. */
static void append(const char *path, bool json, size_t len)
{
	static unsigned seed = 1;
	struct sc_ds_call call = request(SC_DS_POST, path, "");
	char *body = malloc(len);

	CHECK(body != NULL && len >= 2);
	for (size_t i = 0; i < len; i++) {
		seed = seed * 1103515245 + 12345;
		body[i] = (char)('a' + seed / 65536 % 26);
	}
	if (json) {
		body[0] = body[len - 1] = '"';
		call.request.content_type = SC_SPAN("application/json");
	}
	call.request.body = sc_span(body, len);
	CHECK_INT(ask(call, NULL), 204);
	free(body);
}

static int one_more(void *arg, const char *line)
{
	int *count = arg;

	/* a head, "(no active readers)", and of a slot without a transaction a dash */
	*count += line[0] != '(' && !strstr(line, "txnid") && !strstr(line, " -\n");
	return 0;
}

/* Readers with a transaction that is open. */
static int readers(void)
{
	int count = 0;

	sc_kv_readers(ds->kv, one_more, &count);
	return count;
}

static void read_with(const char *path, const char *offset, uint64_t read_bytes,
		      struct sc_ds_loan *with, struct sc_ds_answer *answer)
{
	struct sc_ds_request r = { .method = SC_DS_GET, .path = sc_span_str(path) };
	struct sc_ds_reader reader = { .read_bytes = read_bytes, .loan = with };

	r.query.offset = sc_span_str(offset);
	CHECK_OK(sc_ds_read(ds, &r, &reader, false, answer, &err), &err);
}

static struct sc_bytes joined(void)
{
	struct sc_bytes all;

	sc_bytes_init(&all, SIZE_MAX);
	for (size_t i = 0; i < loan.count; i++)
		CHECK_INT(sc_bytes_put(&all, loan.parts[i].iov_base, loan.parts[i].iov_len), 0);
	return all;
}

/* What is left when a socket has taken TAKEN bytes. */
static void check_rest(const char *path, const char *offset, uint64_t read_bytes, uint64_t taken,
		       struct sc_span whole)
{
	struct sc_ds_answer answer;

	sc_ds_answer_init(&answer);
	read_with(path, offset, read_bytes, &loan, &answer);
	CHECK_INT(loan.bytes, whole.len);
	CHECK_INT(readers(), 1);
	CHECK_INT(sc_ds_loan_end(&loan, taken, &answer), 0);
	CHECK_INT(readers(), 0);
	CHECK_INT(loan.count, 0);
	CHECK_INT(answer.body.len, whole.len - taken);
	CHECK(taken == whole.len ||
	      memcmp(answer.body.data, whole.data + taken, whole.len - taken) == 0);
	CHECK_INT(sc_ds_loan_end(&loan, 0, &answer), 0); /* of none: nothing */
	CHECK_INT(answer.body.len, whole.len - taken);
	sc_ds_answer_done(&answer);
}

/* From OFFSET on, with and without a loan; how many parts it has. */
static size_t check_same(const char *path, const char *offset, uint64_t read_bytes)
{
	struct sc_ds_answer copied, lent;
	struct sc_bytes all;
	size_t parts;

	sc_ds_answer_init(&copied);
	sc_ds_answer_init(&lent);
	read_with(path, offset, read_bytes, NULL, &copied);
	CHECK_INT(readers(), 0);
	read_with(path, offset, read_bytes, &loan, &lent);
	CHECK_INT(lent.status, 200);
	CHECK_INT(lent.next, copied.next);
	CHECK_STR(lent.etag, copied.etag);
	CHECK_INT(lent.up_to_date, copied.up_to_date);
	parts = loan.count;
	CHECK_INT(readers(), parts > 0);
	CHECK(parts <= SC_DS_LOAN_PARTS);
	all = parts ? joined() : lent.body;
	CHECK_INT(all.len, copied.body.len);
	CHECK(!all.len || memcmp(all.data, copied.body.data, all.len) == 0);
	CHECK_INT(sc_ds_loan_end(&loan, loan.bytes, &lent), 0);
	CHECK_INT(readers(), 0);
	if (parts) {
		const uint64_t edges[] = { 0,        1,           EDGE - 1,    EDGE,
					   EDGE + 1, all.len / 2, all.len - 1, all.len };

		for (size_t i = 0; i < sizeof(edges) / sizeof(*edges) && edges[i] <= all.len; i++)
			check_rest(path, offset, read_bytes, edges[i],
				   sc_span(copied.body.data, copied.body.len));
		sc_bytes_done(&all);
	}
	sc_ds_answer_done(&copied);
	sc_ds_answer_done(&lent);
	return parts;
}

TEST(long_messages_are_lent_and_short_ones_copied)
{
	static const size_t lens[] = { EDGE,  10,     10,       EDGE - 1, EDGE, 70000, 65516,
				       65517, 100000, EDGE + 1, 20,       2,    EDGE,  3 };

	for (int json = 0; json < 2; json++) {
		char offset[SC_DS_OFFSET_TEXT] = "-1";
		uint64_t at = 0;

		begin(&quiet);
		put_as("/a", json ? "application/json" : "text/plain");
		for (size_t i = 0; i < sizeof(lens) / sizeof(*lens); i++)
			append("/a", json, lens[i]);
		for (size_t i = 0; i < sizeof(lens) / sizeof(*lens); i++) {
			size_t parts = check_same("/a", offset, 0);

			/* eight are long, with what is between, in front and behind */
			if (i == 0)
				CHECK_INT(parts, json ? 17 : 11);
			at += 4 + lens[i];
			sc_ds_offset_format(at, offset);
		}
		CHECK_INT(check_same("/a", "-1", 1), json ? 3 : 1);
		CHECK_INT(check_same("/a", offset, 0), 0);
		CHECK_INT(check_same("/a", "now", 0), 0);
		end();
	}
}

TEST(what_is_short_is_not_lent)
{
	begin(&quiet);
	put_as("/a", "text/plain");
	for (int i = 0; i < 10; i++)
		append("/a", false, 1000);
	CHECK_INT(check_same("/a", "-1", 0), 0);
	CHECK_INT(check_same("/a", "-1", 2000), 0);
	end();
}

/* More long messages in one read than there are parts: the others are copied. */
TEST(parts_that_run_out)
{
	struct sc_ds_settings set = quiet;

	set.read_bytes = 32u << 20;
	for (int json = 0; json < 2; json++) {
		begin(&set);
		put_as("/a", json ? "application/json" : "text/plain");
		for (int i = 0; i < 600; i++)
			append("/a", json, EDGE + (size_t)i % 3);
		CHECK(check_same("/a", "-1", 0) >= SC_DS_LOAN_PARTS - 2);
		end();
	}
}

TEST(a_loan_goes_through_a_chain_of_forks)
{
	begin(&quiet);
	put_as("/a", "text/plain");
	append("/a", false, 20000);
	append("/a", false, 5);
	CHECK_INT(fork_of("/f", "/a", NULL), 201);
	append("/f", false, 30000);
	CHECK_INT(fork_of("/g", "/f", "0000000000000000_0000000000020004"), 201);
	append("/g", false, 9000);
	CHECK_INT(check_same("/f", "-1", 0), 3);
	CHECK_INT(check_same("/g", "-1", 0), 2);
	CHECK_INT(check_same("/g", "0000000000000000_0000000000020004", 0), 1);
	verified();
	end();
}

/* Answers without the data lend nothing and hold nothing. */
TEST(no_body_no_loan)
{
	static const char *const refused[] = { "0000000000000000_0000000000000007", "x",
					       "0000000000000000_0000000000999999" };
	struct sc_ds_request r = { .method = SC_DS_GET, .path = SC_SPAN("/a") };
	struct sc_ds_answer answer;
	char etag[SC_DS_ETAG_TEXT];

	begin(&quiet);
	put_as("/a", "text/plain");
	append("/a", false, 20000);
	sc_ds_answer_init(&answer);
	for (size_t i = 0; i < 3; i++) {
		read_with("/a", refused[i], 0, &loan, &answer);
		CHECK_INT(answer.status, 400);
		CHECK_INT(loan.count, 0);
		CHECK_INT(readers(), 0);
	}
	read_with("/b", "-1", 0, &loan, &answer);
	CHECK_INT(answer.status, 404);
	CHECK_INT(loan.count, 0);
	read_with("/a", "-1", 0, NULL, &answer);
	memcpy(etag, answer.etag, sizeof(etag));
	for (int live = 0; live < 2; live++) {
		struct sc_ds_reader reader = { .loan = &loan };

		r.query.offset = SC_SPAN("-1");
		r.query.live = live ? SC_SPAN("long-poll") : sc_span(NULL, 0);
		r.if_none_match = sc_span_str(etag);
		CHECK_OK(sc_ds_read(ds, &r, &reader, false, &answer, &err), &err);
		CHECK_INT(answer.status, 304);
		CHECK_INT(loan.count, 0);
		CHECK_INT(answer.body.len, 0);
		CHECK_INT(readers(), 0);
	}
	sc_ds_answer_done(&answer);
	end();
}

/* A long-poll lends what it finds; server-sent events never. */
TEST(live_reads)
{
	struct sc_ds_request r = { .method = SC_DS_GET, .path = SC_SPAN("/a") };
	struct sc_ds_reader reader = { .loan = &loan };
	struct sc_ds_answer answer;

	begin(&quiet);
	put_as("/a", "text/plain");
	sc_ds_answer_init(&answer);
	r.query.offset = SC_SPAN("-1");
	r.query.live = SC_SPAN("long-poll");
	CHECK_OK(sc_ds_read(ds, &r, &reader, false, &answer, &err), &err);
	CHECK(answer.wait && loan.count == 0);
	append("/a", false, 20000);
	CHECK_OK(sc_ds_read(ds, &r, &reader, false, &answer, &err), &err);
	CHECK_INT(answer.status, 200);
	CHECK_INT(loan.count, 1);
	CHECK_INT(loan.bytes, 20000);
	CHECK_INT(sc_ds_loan_end(&loan, 20000, &answer), 0);
	reader = (struct sc_ds_reader){ .loan = &loan };
	r.query.live = SC_SPAN("sse");
	CHECK_OK(sc_ds_read(ds, &r, &reader, false, &answer, &err), &err);
	CHECK_INT(loan.count, 0);
	CHECK(answer.body.len > 20000);
	CHECK_INT(readers(), 0);
	sc_ds_answer_done(&answer);
	end();
}
