/*
 * subs_test: subscriptions of an engine in this process: what its users in C see, tokens and keys,
 * and that verify finds each kind of damage.
 */
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "folder.h"

#include "base/clock.h"
#include "durable/subs_internal.h"

static struct sc_ds *ds;
static struct sc_err err;
static int64_t shift_us;

static int64_t wall(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000 + shift_us;
}

static void open_it(void)
{
	const struct sc_ds_settings set = { .size_max = 64u << 20,
					    .sweep_ms = -1,
					    .repair_ms = -1 };

	CHECK_OK(sc_ds_open(folder, &set, &ds, &err), &err);
	CHECK_OK(sc_ds_subs_enable(ds, &err), &err);
}

static void begin(void)
{
	folder_new();
	shift_us = 0;
	sc_clock_set(wall, NULL);
	open_it();
}

static void end(void)
{
	char path[300];

	sc_ds_close(ds);
	ds = NULL;
	snprintf(path, sizeof(path), "%s/subscription-keys", folder);
	unlink(path);
	folder_done();
}

static int stream(enum sc_ds_method method, const char *path, const char *body)
{
	struct sc_ds_call call = { .request = { .method = method,
						.path = sc_span_str(path),
						.content_type = SC_SPAN("application/json"),
						.body = sc_span_str(body) } };
	int status;

	sc_ds_answer_init(&call.answer);
	sc_ds_call(ds, &call);
	status = call.answer.status;
	sc_ds_answer_done(&call.answer);
	return status;
}

static char answer_text[65536];

static int ask(const char *method, const char *below, const char *token, const char *body)
{
	struct sc_ds_sub_request r;
	struct sc_ds_call call = { .op = SC_DS_OP_WORK };
	char bearer[1024];
	bool other;
	int status, rc;

	memset(&r, 0, sizeof(r));
	snprintf(bearer, sizeof(bearer), "Bearer %s", token ? token : "");
	sc_ds_answer_init(&call.answer);
	CHECK(sc_ds_sub_route(sc_span_str(below), method, &r, &other));
	r.prefix = SC_SPAN("/s/");
	r.base = SC_SPAN("http://h:1");
	rc = sc_ds_sub_parse(&r, sc_span_str(body), &call.answer);
	if (token)
		CHECK(sc_ds_sub_take_token(&r, sc_span_str(bearer), &call.answer));
	if (rc == 1 && r.op == SC_DS_SUB_GET) {
		CHECK_OK(sc_ds_subs_get(ds, &r, &call.answer, &err), &err);
	} else if (rc == 1) {
		sc_ds_subs_call(&call, &r);
		sc_ds_call(ds, &call);
	}
	status = call.answer.status;
	snprintf(answer_text, sizeof(answer_text), "%.*s", (int)call.answer.body.len,
		 call.answer.body.data ? call.answer.body.data : "");
	sc_ds_sub_request_done(&r);
	sc_ds_answer_done(&call.answer);
	return status;
}

/* A text member of the last answer. */
static const char *member(const char *name)
{
	static char value[1024];
	char find[64];
	const char *at;

	snprintf(find, sizeof(find), "\"%s\":\"", name);
	at = strstr(answer_text, find);
	CHECK(at);
	at += strlen(find);
	snprintf(value, sizeof(value), "%.*s", (int)strcspn(at, "\""), at);
	return value;
}

static void make_pull(void)
{
	CHECK_INT(ask("PUT", "subscriptions/p", NULL,
		      "{\"type\":\"pull-wake\",\"pattern\":\"e/*\",\"wake_stream\":\"w\","
		      "\"lease_ttl_ms\":1000}"),
		  201);
}

TEST(a_lease_ends_by_the_clock_of_the_day)
{
	char token[1024], wake_id[64], body[256];

	begin();
	make_pull();
	CHECK_INT(stream(SC_DS_PUT, "/s/e/1", "[1]"), 201);
	CHECK_INT(ask("POST", "subscriptions/p/claim", NULL, "{\"worker\":\"a\"}"), 200);
	strcpy(token, member("token"));
	strcpy(wake_id, member("wake_id"));
	snprintf(body, sizeof(body), "{\"wake_id\":\"%s\",\"generation\":1}", wake_id);
	shift_us = 900000;
	CHECK_INT(ask("POST", "subscriptions/p/ack", token, body), 200);
	shift_us = 1800000; /* 0.9 s after the ack */
	CHECK_INT(ask("POST", "subscriptions/p/ack", token, body), 200);
	shift_us = 4000000;
	CHECK_INT(ask("POST", "subscriptions/p/ack", token, body), 409);
	CHECK(strstr(answer_text, "FENCED"));
	CHECK_INT(ask("POST", "subscriptions/p/claim", NULL, "{\"worker\":\"b\"}"), 200);
	CHECK(strstr(answer_text, "\"generation\":2"));
	end();
}

static atomic_int answered;

static void on_answer(struct sc_ds_call *call)
{
	(void)call;
	atomic_fetch_add(&answered, 1);
}

/* A first call keeps the writer waiting for the store while the others queue up. */
TEST(what_was_appended_in_the_same_commit_is_known_to_a_claim)
{
	static const char claim[] = "{\"worker\":\"a\"}";
	struct sc_ds_call calls[3] = { { .op = SC_DS_OP_REQUEST } };
	struct sc_ds_stats before, after;
	struct sc_kv_txn *txn = NULL;
	struct sc_ds_sub_request r;
	bool other;

	begin();
	make_pull();
	CHECK_INT(stream(SC_DS_PUT, "/s/e/1", "[]"), 201);
	memset(&r, 0, sizeof(r));
	for (int i = 0; i < 3; i++) {
		sc_ds_answer_init(&calls[i].answer);
		calls[i].done = on_answer;
		calls[i].request =
			(struct sc_ds_request){ .method = i ? SC_DS_POST : SC_DS_PUT,
						.path = i ? SC_SPAN("/s/e/1") : SC_SPAN("/s/other"),
						.content_type = SC_SPAN("application/json"),
						.body = SC_SPAN("[1]") };
	}
	CHECK(sc_ds_sub_route(SC_SPAN("subscriptions/p/claim"), "POST", &r, &other));
	r.prefix = SC_SPAN("/s/");
	CHECK_INT(sc_ds_sub_parse(&r, SC_SPAN(claim), &calls[2].answer), 1);
	sc_ds_subs_call(&calls[2], &r);
	atomic_store(&answered, 0);
	CHECK_OK(sc_ds_stats(ds, &before, &err), &err);
	CHECK_OK(sc_kv_write(ds->kv, &txn, &err), &err);
	CHECK_INT(sc_ds_submit(ds, &calls[0]), 0);
	usleep(100000);
	CHECK_INT(sc_ds_submit(ds, &calls[1]), 0);
	CHECK_INT(sc_ds_submit(ds, &calls[2]), 0);
	sc_kv_abort(&txn);
	while (atomic_load(&answered) < 3)
		usleep(1000);
	CHECK_OK(sc_ds_stats(ds, &after, &err), &err);
	CHECK_INT(after.commits - before.commits, 2);
	CHECK_INT(calls[1].answer.status, 204);
	CHECK_INT(calls[2].answer.status, 200);
	sc_ds_sub_request_done(&r);
	for (int i = 0; i < 3; i++)
		sc_ds_answer_done(&calls[i].answer);
	end();
}

TEST(tokens_and_keys_last_and_expire)
{
	const struct sc_ds_keys *keys;
	struct sc_bytes token;
	uint64_t generation = 0;
	struct sc_span text;
	char id[64], path[300];

	begin();
	keys = sc_ds_subs_keys(ds);
	strcpy(id, sc_ds_keys_id(keys));
	sc_bytes_init(&token, 4096);
	CHECK_OK(sc_ds_token_put(keys, SC_SPAN("a\"\\\n"), 7, 5000000, &token, &err), &err);
	text = sc_span(token.data, token.len);
	CHECK_INT(sc_ds_token_check(keys, SC_SPAN("a\"\\\n"), text, 5000000, &generation),
		  SC_DS_TOKEN_GOOD);
	CHECK_INT(generation, 7);
	CHECK_INT(sc_ds_token_check(keys, SC_SPAN("a"), text, 5000000, &generation),
		  SC_DS_TOKEN_INVALID);
	CHECK_INT(sc_ds_token_check(keys, SC_SPAN("a\"\\\n"), text, 3605000000ll, &generation),
		  SC_DS_TOKEN_GOOD);
	CHECK_INT(sc_ds_token_check(keys, SC_SPAN("a\"\\\n"), text, 3606000000ll, &generation),
		  SC_DS_TOKEN_EXPIRED);
	for (size_t i = 0; i < token.len; i++) {
		token.data[i] ^= 1;
		CHECK_INT(sc_ds_token_check(keys, SC_SPAN("a\"\\\n"), text, 5000000, &generation),
			  SC_DS_TOKEN_INVALID);
		token.data[i] ^= 1;
		CHECK_INT(sc_ds_token_check(keys, SC_SPAN("a\"\\\n"), sc_span(token.data, i),
					    5000000, &generation),
			  SC_DS_TOKEN_INVALID);
	}
	sc_ds_close(ds);
	open_it();
	keys = sc_ds_subs_keys(ds);
	CHECK_STR(sc_ds_keys_id(keys), id);
	CHECK_INT(sc_ds_token_check(keys, SC_SPAN("a\"\\\n"), text, 5000000, &generation),
		  SC_DS_TOKEN_GOOD);
	sc_ds_close(ds);
	ds = NULL;
	/* a file that is none */
	snprintf(path, sizeof(path), "%s/subscription-keys", folder);
	CHECK_INT(truncate(path, 20), 0);
	{
		struct sc_ds_keys *none = NULL;

		CHECK_INT(sc_ds_keys_open(folder, &none, &err), SC_E_CONFIG);
		CHECK(!none && strstr(err.reason, "no file of keys"));
	}
	sc_bytes_done(&token);
	end();
}

static char told[512];

static void on_fault(void *arg, const char *what)
{
	(void)arg;
	snprintf(told + strlen(told), sizeof(told) - strlen(told), "%s\n", what);
}

static uint64_t verify(void)
{
	struct sc_ds_verified v;

	told[0] = 0;
	CHECK_OK(sc_ds_verify(ds, on_fault, NULL, &v, &err), &err);
	return v.faults;
}

/* The first row of TABLE goes, or (VALUE) is another. */
static void damage(int table, const char *front, struct sc_span value, struct sc_ds_key *ret_key,
		   struct sc_bytes *ret_value)
{
	struct sc_kv_txn *txn = NULL;
	struct sc_span was;

	CHECK_OK(sc_kv_write(ds->kv, &txn, &err), &err);
	CHECK_INT(sc_ds_row_from(txn, table, sc_span_str(front), ret_key, &was, &err), 1);
	sc_bytes_clear(ret_value);
	CHECK(sc_bytes_put(ret_value, was.data, was.len) == 0);
	if (value.data)
		CHECK_OK(sc_kv_put(txn, table, sc_ds_key_span(ret_key), value, &err), &err);
	else
		CHECK_INT(sc_kv_del(txn, table, sc_ds_key_span(ret_key), &err), 1);
	CHECK_OK(sc_kv_commit(&txn, &err), &err);
}

static void repair(int table, const struct sc_ds_key *key, const struct sc_bytes *value)
{
	struct sc_kv_txn *txn = NULL;

	CHECK_OK(sc_kv_write(ds->kv, &txn, &err), &err);
	CHECK_OK(sc_kv_put(txn, table, sc_ds_key_span(key), sc_span(value->data, value->len), &err),
		 &err);
	CHECK_OK(sc_kv_commit(&txn, &err), &err);
}

TEST(verify_finds_each_kind_of_damage)
{
	static const struct {
		int table;
		const char *front, *value, *says;
	} rows[] = {
		{ SC_DS_SUBS, "", "x", "its record is damaged" },
		{ SC_DS_SUBS, "", NULL, "an id leads to none" },
		{ SC_DS_SUB_IDS, "", NULL, "its id does not lead to it" },
		{ SC_DS_LINKS, "", NULL, "miscounted" },
		{ SC_DS_LINKS, "", "y", "a link is damaged" },
		{ SC_DS_LINKED, "", NULL, "does not know of its link" },
		{ SC_DS_PENDING, "", NULL, "what is pending is not" },
		{ SC_DS_DUE, "L", NULL, "nobody would look at it" },
	};
	struct sc_bytes value;
	struct sc_ds_key key;

	begin();
	make_pull();
	CHECK_INT(stream(SC_DS_PUT, "/s/e/1", "[1]"), 201);
	CHECK_INT(ask("POST", "subscriptions/p/claim", NULL, "{\"worker\":\"a\"}"), 200);
	sc_bytes_init(&value, 65536);
	CHECK_INT(verify(), 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		damage(rows[i].table, rows[i].front,
		       rows[i].value ? sc_span_str(rows[i].value) : sc_span(NULL, 0), &key, &value);
		if (!verify() || !strstr(told, rows[i].says))
			FAIL("row %zu: not found; told: %s", i, told);
		repair(rows[i].table, &key, &value);
		CHECK_INT(verify(), 0);
	}
	sc_bytes_done(&value);
	end();
}

TEST(long_paths_have_links_too)
{
	char path[520], body[1200];

	begin();
	memset(path, 'x', sizeof(path));
	memcpy(path, "/s/e/", 5);
	path[512] = 0;
	make_pull();
	snprintf(body, sizeof(body),
		 "{\"type\":\"pull-wake\",\"streams\":[\"%s\"],\"wake_stream\":\"w\"}", path + 3);
	CHECK_INT(ask("PUT", "subscriptions/n", NULL, body), 201);
	CHECK_INT(stream(SC_DS_PUT, path, "[1]"), 201);
	CHECK_INT(ask("POST", "subscriptions/p/claim", NULL, "{\"worker\":\"a\"}"), 200);
	CHECK(strstr(answer_text, path + 3));
	CHECK_INT(ask("POST", "subscriptions/n/claim", NULL, "{\"worker\":\"a\"}"), 200);
	CHECK_INT(verify(), 0);
	CHECK_INT(stream(SC_DS_DELETE, path, ""), 204);
	CHECK_INT(ask("GET", "subscriptions/p", NULL, ""), 200);
	CHECK(!strstr(answer_text, path + 3));
	CHECK_INT(ask("DELETE", "subscriptions/p", NULL, ""), 204);
	CHECK_INT(ask("DELETE", "subscriptions/n", NULL, ""), 204);
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	CHECK_INT(verify(), 0);
	{
		struct sc_ds_stats stats;

		CHECK_OK(sc_ds_stats(ds, &stats, &err), &err);
		CHECK_INT(stats.subs + stats.links + stats.links_pending, 0);
	}
	end();
}
