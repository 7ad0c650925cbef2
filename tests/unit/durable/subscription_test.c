/*
 * subscription_test: the life of a subscription, patterns and links, without a store.
 *
 * Goal    each row of what may follow what; patterns against a slow and simple matcher; records
 *         there and back, and cut anywhere; a random life against a model of its rules.
 */
#include "durable/subscription.h"

#include "../check.h"
#include "durable/sub_request.h"
#include "json/scan.h"

static const char wake_a[SC_DS_WAKE_ID_TEXT] = "w_aaaaaaaaaaaaaaaaaaaaaaaa";
static const char wake_b[SC_DS_WAKE_ID_TEXT] = "w_bbbbbbbbbbbbbbbbbbbbbbbb";

static struct sc_ds_sub make(enum sc_ds_sub_type type)
{
	struct sc_ds_sub sub = { .number = 1,
				 .type = type,
				 .id = SC_SPAN("s"),
				 .prefix = SC_SPAN("/v1/stream/"),
				 .base = SC_SPAN("http://h"),
				 .lease_ms = 1000,
				 .lease_us = INT64_MAX,
				 .attempt_us = INT64_MAX };

	if (type == SC_DS_WEBHOOK)
		sub.url = SC_SPAN("http://localhost/");
	else
		sub.wake_stream = SC_SPAN("w");
	return sub;
}

TEST(a_webhook_is_woken_taken_and_released)
{
	struct sc_ds_sub sub = make(SC_DS_WEBHOOK);

	CHECK(!sc_ds_sub_current(&sub, 0, SC_SPAN("")));
	sc_ds_sub_wake(&sub, wake_a, 5);
	CHECK_INT(sub.phase, SC_DS_SUB_WOKEN);
	CHECK_INT(sub.generation, 1);
	CHECK_INT(sub.attempt_us, 5);
	CHECK_INT(sub.lease_us, INT64_MAX);
	CHECK(sc_ds_sub_current(&sub, 1, sc_span_str(wake_a)));
	CHECK(!sc_ds_sub_current(&sub, 1, sc_span_str(wake_b)));
	CHECK(!sc_ds_sub_current(&sub, 2, sc_span_str(wake_a)));
	CHECK(!sc_ds_sub_lapse(&sub, INT64_MAX - 1));
	sc_ds_sub_hold(&sub, sc_span(NULL, 0), 10);
	CHECK_INT(sub.phase, SC_DS_SUB_HELD);
	CHECK_INT(sub.lease_us, 1000010);
	CHECK_INT(sub.attempt_us, INT64_MAX);
	CHECK(!sc_ds_sub_lapse(&sub, 1000009));
	sc_ds_sub_extend(&sub, 20);
	CHECK(!sc_ds_sub_lapse(&sub, 1000010));
	CHECK(sc_ds_sub_lapse(&sub, 1000020));
	CHECK_INT(sub.phase, SC_DS_SUB_IDLE);
	CHECK(!sc_ds_sub_current(&sub, 1, sc_span_str(wake_a)));
	CHECK_INT(sub.lease_us, INT64_MAX);
	sc_ds_sub_wake(&sub, wake_b, 30);
	CHECK_INT(sub.generation, 2);
	sc_ds_sub_release(&sub);
	CHECK_INT(sub.phase, SC_DS_SUB_IDLE);
	CHECK_INT(sub.attempt_us, INT64_MAX);
}

TEST(a_pull_wake_is_due_nowhere_until_it_is_claimed)
{
	struct sc_ds_sub sub = make(SC_DS_PULL_WAKE);

	sc_ds_sub_wake(&sub, wake_a, 5);
	CHECK_INT(sub.attempt_us, INT64_MAX);
	CHECK_INT(sub.lease_us, INT64_MAX);
	sc_ds_sub_hold(&sub, SC_SPAN("me"), 10);
	CHECK_SPAN(sub.holder, "me");
	sc_ds_sub_release(&sub);
	CHECK(!sub.holder.data);
}

TEST(failures_wait_longer_each_time_up_to_a_minute)
{
	static const int64_t base_ms[] = { 1000,  2000,  4000,  8000,  16000,
					   32000, 60000, 60000, 60000, 60000 };
	struct sc_ds_sub sub = make(SC_DS_WEBHOOK);
	uint64_t x = 88172645463325252ull;

	for (int round = 0; round < 200; round++) {
		sc_ds_sub_wake(&sub, wake_a, 0);
		CHECK(!sc_ds_sub_is_failing(&sub));
		for (size_t i = 0; i < sizeof(base_ms) / sizeof(*base_ms); i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			sc_ds_sub_failed(&sub, round ? x : UINT64_MAX * (i & 1), 7);
			CHECK(sub.attempt_us >= 7 + base_ms[i] * 800);
			CHECK(sub.attempt_us <= 7 + base_ms[i] * 1200);
			CHECK_INT(sub.attempts, i + 1);
			CHECK(sc_ds_sub_is_failing(&sub));
			CHECK(sc_ds_sub_current(&sub, sub.generation, sc_span_str(wake_a)));
		}
	}
	/* a worker that calls back lives: what became of the delivery says nothing */
	sc_ds_sub_extend(&sub, 9);
	CHECK_INT(sub.phase, SC_DS_SUB_HELD);
	sc_ds_sub_failed(&sub, 0, 10);
	CHECK_INT(sub.phase, SC_DS_SUB_HELD);
	CHECK_INT(sub.attempt_us, INT64_MAX);
	CHECK(!sc_ds_sub_is_failing(&sub));
}

/* -- patterns: as they are told in a sentence, by trying all -- */

static bool star_at(const char *p)
{
	return p[0] == '%' && p[1] == '2' && (p[2] == 'a' || p[2] == 'A');
}

static bool slow_segment(const char *p, size_t plen, const char *s, size_t slen)
{
	char decoded[64];
	size_t n = 0;

	if (plen == 1 && *p == '*')
		return true;
	if (plen == slen && memcmp(p, s, plen) == 0)
		return true;
	for (size_t i = 0; i < plen; i++)
		if (plen - i >= 3 && star_at(p + i)) {
			decoded[n++] = '*';
			i += 2;
		} else {
			decoded[n++] = p[i];
		}
	return n == slen && memcmp(decoded, s, n) == 0;
}

/* NULL: behind the last segment. */
static const char *behind(const char *s, size_t len)
{
	return s[len] == '/' ? s + len + 1 : NULL;
}

static bool slow_match(const char *p, const char *s)
{
	size_t plen = p ? strcspn(p, "/") : 0, slen = s ? strcspn(s, "/") : 0;

	if (!p)
		return !s;
	if (plen == 2 && p[0] == '*' && p[1] == '*')
		return slow_match(behind(p, plen), s) || (s && slow_match(p, behind(s, slen)));
	return s && slow_segment(p, plen, s, slen) && slow_match(behind(p, plen), behind(s, slen));
}

TEST(patterns_match_as_the_slow_matcher_says)
{
	static const char *const bits[] = { "a", "b",   "*",     "**", "%2A", "%2a",
					    "",  "a*b", "a%2Ab", "ab", "%2",  "%" };
	uint64_t x = 2463534242ull, yes = 0;

	for (int round = 0; round < 200000; round++) {
		char texts[2][80];

		for (int t = 0; t < 2; t++) {
			size_t len = 0;
			unsigned count;

			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			count = 1 + (unsigned)(x >> 20) % (t ? 6 : 5);
			for (unsigned i = 0; i < count; i++) {
				x ^= x << 13;
				x ^= x >> 7;
				x ^= x << 17;
				len += (size_t)snprintf(texts[t] + len, sizeof(texts[t]) - len,
							"%s%s", i ? "/" : "",
							bits[(x >> 30) % (x % 3 ? 4 : 12)]);
			}
			if (!len)
				snprintf(texts[t], sizeof(texts[t]), "a");
		}
		bool slow = slow_match(texts[0], texts[1]);
		bool fast = sc_ds_glob_match(sc_span_str(texts[0]), sc_span_str(texts[1]));

		yes += slow;
		if (fast != slow)
			FAIL("'%s' and '%s': %d, not %d", texts[0], texts[1], fast, slow);
		/* whatever matches begins with the literal, whole segments */
		for (size_t max = 0; slow && max < 8; max++) {
			struct sc_span front = sc_ds_glob_literal(sc_span_str(texts[0]), max);

			CHECK(front.len <= max && front.len <= strlen(texts[1]));
			CHECK(memcmp(front.data, texts[1], front.len) == 0);
			CHECK(!front.len || !texts[1][front.len] || texts[1][front.len] == '/');
		}
	}
	CHECK(yes > 10000);
}

TEST(many_stars_take_no_time)
{
	char pattern[512], path[512];

	for (int i = 0; i < 100; i++) {
		memcpy(pattern + 5 * i, "**/a/", 5);
		memcpy(path + 5 * i, "a/a/b", 5);
	}
	memcpy(path + 500, "/c", 3);
	memcpy(pattern + 500, "zz", 3);
	CHECK(!sc_ds_glob_match(sc_span_str(pattern), sc_span_str(path)));
}

TEST(literals_end_in_front_of_the_first_wildcard)
{
	static const struct {
		const char *pattern, *literal;
	} rows[] = { { "a/b/*", "a/b" }, { "*", "" },        { "**/a", "" },
		     { "a/b", "a/b" },   { "a/%2A/b", "a" }, { "a*/b", "a*/b" } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		CHECK_SPAN(sc_ds_glob_literal(sc_span_str(rows[i].pattern), 100), rows[i].literal);
	CHECK_SPAN(sc_ds_glob_literal(SC_SPAN("ab/cd/e"), 4), "ab");
}

/* -- links -- */

TEST(what_may_be_acknowledged)
{
	struct sc_ds_link link = { .by_name = true, .acked = 10, .path = SC_SPAN("/a") };
	static const struct {
		const char *offset;
		bool may;
	} rows[] = {
		{ "-1", false },
		{ "now", false },
		{ "", false },
		{ "10", false },
		{ "0000000000000000_0000000000000009", false },
		{ "0000000000000000_0000000000000010", true },
		{ "0000000000000000_0000000000000020", true },
		{ "0000000000000000_0000000000000021", false },
		{ "0000000000000001_0000000000000010", false },
	};
	uint64_t at = 0;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		CHECK_INT(sc_ds_link_may_ack(&link, 20, sc_span_str(rows[i].offset), &at),
			  rows[i].may);
	CHECK(sc_ds_link_pending(&link, 11) && !sc_ds_link_pending(&link, 10));
	sc_ds_link_ack(&link, 15);
	sc_ds_link_ack(&link, 12);
	CHECK_INT(link.acked, 15);
	sc_ds_link_restart(&link);
	CHECK(link.fresh && !link.acked);
	CHECK(!sc_ds_link_pending(&link, 0));
	sc_ds_link_ack(&link, 0);
	CHECK(!link.fresh);
}

/* -- records -- */

static void there_and_back(const struct sc_ds_sub *sub)
{
	struct sc_bytes out, again;
	struct sc_ds_sub got;
	struct sc_err err;

	sc_bytes_init(&out, 65536);
	sc_bytes_init(&again, 65536);
	CHECK(sc_ds_sub_encode(sub, &out) == 0);
	CHECK_OK(sc_ds_sub_decode(sc_span(out.data, out.len), &got, &err), &err);
	CHECK(sc_ds_sub_encode(&got, &again) == 0);
	CHECK(out.len == again.len && memcmp(out.data, again.data, out.len) == 0);
	CHECK(got.phase == sub->phase && got.generation == sub->generation);
	CHECK(got.lease_us == sub->lease_us && got.attempt_us == sub->attempt_us);
	CHECK(!got.description.data == !sub->description.data);
	CHECK_STR(got.wake_id, sub->wake_id);
	for (size_t len = 0; len < out.len; len++) {
		char *copy = malloc(len + 1);

		memcpy(copy, out.data, len);
		CHECK(sc_ds_sub_decode(sc_span(copy, len), &got, NULL) == SC_E_DATA);
		free(copy);
	}
	sc_bytes_done(&out);
	sc_bytes_done(&again);
}

TEST(records_are_read_whole_or_not_at_all)
{
	struct sc_ds_sub sub = make(SC_DS_WEBHOOK), pull = make(SC_DS_PULL_WAKE);
	struct sc_ds_link link = { .by_pattern = true, .fresh = true, .path = SC_SPAN("/a/b") },
			  got;
	struct sc_bytes out;

	there_and_back(&sub);
	sub.description = SC_SPAN("");
	sub.pattern = SC_SPAN("a/**");
	sc_ds_sub_wake(&sub, wake_a, -5);
	sc_ds_sub_failed(&sub, 3, 9);
	there_and_back(&sub);
	sc_ds_sub_wake(&pull, wake_b, 1);
	sc_ds_sub_hold(&pull, SC_SPAN("worker"), 7);
	there_and_back(&pull);
	sc_bytes_init(&out, 4096);
	CHECK(sc_ds_link_encode(&link, &out) == 0);
	for (size_t len = 0; len < out.len; len++)
		CHECK(sc_ds_link_decode(sc_span(out.data, len), &got, NULL) == SC_E_DATA);
	CHECK(sc_ds_link_decode(sc_span(out.data, out.len), &got, NULL) == 0);
	CHECK(got.by_pattern && !got.by_name && got.fresh);
	CHECK_SPAN(got.path, "/a/b");
	out.data[0] = 2;
	CHECK(sc_ds_link_decode(sc_span(out.data, out.len), &got, NULL) == SC_E_DATA);
	sc_bytes_done(&out);
}

/* -- a random life against its rules, told once more and otherwise -- */

TEST(a_random_life_keeps_its_rules)
{
	uint64_t x = 362436069ull;

	for (int round = 0; round < 200; round++) {
		struct sc_ds_sub sub = make(round & 1 ? SC_DS_WEBHOOK : SC_DS_PULL_WAKE);
		uint64_t generation = 0, failed = 0;
		bool awake = false, held = false;
		int64_t now = 0, until = 0;

		for (int step = 0; step < 500; step++) {
			unsigned dice;

			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			dice = (unsigned)(x >> 33) % 6;
			now += (int64_t)(x >> 40) % 400000;
			if (dice == 0 && !awake) {
				sc_ds_sub_wake(&sub, x & 1 ? wake_a : wake_b, now);
				awake = true;
				generation++;
				failed = 0;
			} else if (dice == 1 && awake && !held) {
				sc_ds_sub_hold(&sub, SC_SPAN("w"), now);
				held = true;
				until = now + 1000000;
			} else if (dice == 2 && awake) {
				sc_ds_sub_extend(&sub, now);
				held = true;
				until = now + 1000000;
			} else if (dice == 3 && awake && x & 64) {
				sc_ds_sub_release(&sub);
				awake = held = false;
			} else if (dice == 4 && awake && sub.type == SC_DS_WEBHOOK) {
				sc_ds_sub_failed(&sub, x, now);
				failed += !held;
			} else if (dice == 5) {
				bool over = held && now >= until;

				CHECK_INT(sc_ds_sub_lapse(&sub, now), over);
				awake = awake && !over;
				held = held && !over;
			}
			CHECK_INT(sub.phase, held    ? SC_DS_SUB_HELD
					     : awake ? SC_DS_SUB_WOKEN
						     : SC_DS_SUB_IDLE);
			CHECK_INT(sub.generation, generation);
			CHECK_INT(sub.lease_us, held ? until : INT64_MAX);
			CHECK_INT(sub.attempt_us != INT64_MAX,
				  awake && !held && sub.type == SC_DS_WEBHOOK);
			CHECK_INT(sc_ds_sub_is_failing(&sub), awake && !held && failed > 0);
			CHECK_INT(sub.wake_id[0] != 0, awake);
			if (held)
				failed = 0;
		}
	}
}

/* -- requests: any bytes are safe -- */

TEST(random_bodies_are_safe)
{
	static const char seed[] =
		"{\"type\":\"webhook\",\"pattern\":\"a/*\",\"streams\":[\"a\",\"\\u0062/"
		"c\"],\"webhook\":{"
		"\"url\":\"http://localhost:1/\"},\"acks\":[{\"stream\":\"a\",\"offset\":\"-1\"}],"
		"\"worker\":\"w\",\"wake_id\":\"w_\",\"generation\":1,\"description\":"
		"\"\\ud83d\\ude00\"}";
	uint64_t x = 521288629ull, good = 0;

	for (int round = 0; round < 30000; round++) {
		struct sc_ds_sub_request r = { .op = SC_DS_SUB_GET };
		enum sc_ds_sub_op op = (enum sc_ds_sub_op)(round % SC_DS_SUB_OUTCOME);
		struct sc_ds_answer answer;
		size_t len = sizeof(seed) - 1;
		char *body = malloc(len);
		bool other;

		memcpy(body, seed, len);
		for (unsigned i = 0; i < (unsigned)round % 4; i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			body[x % len] = "\"\\{}[]:,a0\x01\xff"[(x >> 32) % 12];
		}
		sc_ds_answer_init(&answer);
		CHECK(sc_ds_sub_route(SC_SPAN("subscriptions/%C3%A9x"), "PUT", &r, &other));
		r.op = op == SC_DS_SUB_UNLINK ? SC_DS_SUB_LINK : op;
		r.prefix = SC_SPAN("/v1/stream/");
		good += sc_ds_sub_parse(&r, sc_span(body, len), &answer) == 1;
		CHECK_SPAN(r.id, "\xc3\xa9x");
		for (size_t i = 1; i < r.stream_count; i++)
			CHECK(r.streams[i].data != r.streams[i - 1].data);
		sc_ds_sub_request_done(&r);
		sc_ds_answer_done(&answer);
		free(body);
	}
	CHECK(good > 5000 && good < 29000);
}
