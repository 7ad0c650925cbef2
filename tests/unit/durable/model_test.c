/*
 * model_test: the engine against the oracle of oracle.h: random operations on a few paths, with
 * crashes and clock changes in between.
 *
 * Method: a sequence is made from its seed and the oracle alone, so any process can repeat it. A
 * child process runs it against the engine until a crash point, where it ends without closing
 * anything; the next one replays the oracle, opens the store again, and goes on. At some crash
 * points a write is in flight: then the store must be as if it had happened whole, or not at all.
 * The clock is the test's. After each operation the answer is compared, now and then everything.
 * SC_DS_SEEDS=N runs N more sequences with random seeds (they are printed); SC_DS_SEED=N that one.
 */
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "folder.h"
#include "oracle.h"
#include "sequence.h"

#include "base/clock.h"
#include "durable/engine.h"

#define OPS 400

static atomic_int_fast64_t clock_us;

static int64_t test_wall(void)
{
	return atomic_load(&clock_us);
}

/* -- the engine's side -- */

static struct sc_ds *ds;
static uint64_t seed_now;
static int op_now;

#define WRONG(...) \
	do { \
		printf("seed %llu, operation %d: ", (unsigned long long)seed_now, op_now); \
		printf(__VA_ARGS__); \
		printf("\n"); \
		fflush(stdout); \
		_exit(1); \
	} while (0)

static void open_ds(void)
{
	struct sc_ds_settings set = {
		.size_max = 64u << 20,
		.read_bytes = 64,
		.sweep_ms = -1,
		.repair_ms = -1,
		.delete_page = 3,
	};
	struct sc_err err = { 0 };

	if (sc_ds_open(folder, &set, &ds, &err) < 0)
		WRONG("cannot open: %s", err.reason);
}

/* What a call borrows. */
struct spelled {
	char body[256], expires[SC_DS_TIME_TEXT + 8], offset[SC_DS_OFFSET_TEXT], sub[16], epoch[16],
		seq_no[16];
};

static struct sc_span type_of(int type)
{
	return type == T_JSON   ? SC_SPAN("application/json")
	       : type == T_TEXT ? SC_SPAN("Text/Plain; charset=utf-8")
				: sc_span(NULL, 0);
}

static struct sc_span spell_body(const struct o_body *body, char *text)
{
	int n = 0;

	if (body->broken)
		n += sprintf(text, "[1,");
	else if (body->array)
		n += sprintf(text, " [");
	for (int i = 0; i < body->count; i++)
		n += sprintf(text + n, "%s%.*s", i ? " , " : "", body->messages[i].len,
			     body->messages[i].text);
	if (body->array && !body->broken)
		n += sprintf(text + n, "]\n");
	return sc_span(text, (size_t)n);
}

static void spell_put(const struct o_put *put, bool zero, struct spelled *sp,
		      struct sc_ds_request *r)
{
	const struct o_config *c = &put->config;

	*r = (struct sc_ds_request){ .method = SC_DS_PUT, .path = sc_span_str(o_paths[put->path]) };
	r->content_type = type_of(c->type);
	r->body = spell_body(&put->body, sp->body);
	if (put->closed)
		r->closed = SC_SPAN("True");
	if (c->life == L_TTL)
		r->ttl = SC_SPAN("1000");
	if (c->life == L_EXPIRY) {
		sc_ds_time_format(c->expires_us, sp->expires);
		r->expires_at = sc_span_str(sp->expires);
	}
	if (c->from == NONE)
		return;
	r->forked_from = sc_span_str(o_paths[c->from]);
	if (c->offset_kind == F_START)
		r->fork_offset = SC_SPAN("-1");
	if (c->offset_kind == F_AT) {
		sc_ds_offset_format(c->offset, sp->offset);
		r->fork_offset = sc_span_str(sp->offset);
	}
	if (c->sub || zero) {
		snprintf(sp->sub, sizeof(sp->sub), "%d", c->sub);
		r->fork_sub_offset = sc_span_str(sp->sub);
	}
}

static void spell_post(const struct o_post *post, struct spelled *sp, struct sc_ds_request *r)
{
	*r = (struct sc_ds_request){ .method = SC_DS_POST,
				     .path = sc_span_str(o_paths[post->path]) };
	r->content_type = type_of(post->type);
	r->body = spell_body(&post->body, sp->body);
	if (post->closed)
		r->closed = SC_SPAN("true");
	if (post->seq[0])
		r->seq = sc_span_str(post->seq);
	if (!post->has_producer)
		return;
	snprintf(sp->epoch, sizeof(sp->epoch), "%d", post->epoch);
	snprintf(sp->seq_no, sizeof(sp->seq_no), "%d", post->seq_no);
	r->producer_id = post->producer ? SC_SPAN("beta") : SC_SPAN("a");
	r->producer_epoch = sc_span_str(sp->epoch);
	r->producer_seq = sc_span_str(sp->seq_no);
}

static void check_answer(const char *what, const struct sc_ds_answer *got,
			 const struct o_answer *want)
{
	if (got->status != want->status)
		WRONG("%s: status %d (%s), not %d", what, got->status, got->error ? got->error : "",
		      want->status);
	if (want->has_next &&
	    (!got->has_next || got->next != want->next || got->closed != want->closed))
		WRONG("%s: next %d closed %d, not %d %d", what, (int)got->next, got->closed,
		      (int)want->next, want->closed);
	if ((want->epoch != NONE) != got->has_epoch ||
	    (want->epoch != NONE && got->epoch != (uint64_t)want->epoch) ||
	    (want->seq != NONE) != got->has_seq ||
	    (want->seq != NONE && got->seq != (uint64_t)want->seq))
		WRONG("%s: producer %d/%d, not %d/%d", what, (int)got->epoch, (int)got->seq,
		      want->epoch, want->seq);
	if ((want->expected != NONE) != got->has_expected ||
	    (want->expected != NONE && got->expected != (uint64_t)want->expected))
		WRONG("%s: expected seq %d, not %d", what, (int)got->expected, want->expected);
}

/* Writes are handed over in bunches, so that several of one stream meet in one transaction. */
static struct bunched {
	struct sc_ds_call call;
	struct spelled spelled;
	struct o_answer want;
	struct o_post post; /* what the call borrows */
	const char *what;
} bunch[8];
static int bunched;
static atomic_int answered;

static void count_answer(struct sc_ds_call *c)
{
	(void)c;
	atomic_fetch_add(&answered, 1);
}

static void drain(void)
{
	atomic_store(&answered, 0);
	for (int i = 0; i < bunched; i++) {
		bunch[i].call.done = count_answer;
		sc_ds_answer_init(&bunch[i].call.answer);
		if (sc_ds_submit(ds, &bunch[i].call))
			WRONG("a call was refused");
	}
	while (atomic_load(&answered) < bunched)
		sched_yield();
	for (int i = 0; i < bunched; i++) {
		check_answer(bunch[i].what, &bunch[i].call.answer, &bunch[i].want);
		sc_ds_answer_done(&bunch[i].call.answer);
	}
	bunched = 0;
}

static void call(const char *what, struct sc_ds_call *c, const struct o_answer *want)
{
	sc_ds_answer_init(&c->answer);
	sc_ds_call(ds, c);
	check_answer(what, &c->answer, want);
	sc_ds_answer_done(&c->answer);
}

/* One page: its bytes against the oracle's messages; *at moves on. */
static int read_page(const char *path, const struct o_stream *s, const char *offset, uint64_t *at,
		     struct sc_ds_answer *a)
{
	struct sc_ds_request r = { .method = SC_DS_GET, .path = sc_span_str(path) };
	struct sc_ds_reader reader = { 0 };
	struct sc_err err = { 0 };
	char want[MESSAGES * 20];
	size_t len = 0;

	r.query.offset = sc_span_str(offset);
	if (sc_ds_read(ds, &r, &reader, false, a, &err) < 0)
		WRONG("read of %s: %s", path, err.reason);
	if (a->status != 200)
		return a->status;
	if (s->json)
		want[len++] = '[';
	for (int i = o_message_at(s, *at); i < s->count && o_offset(s, i) < a->next; i++) {
		if (s->json && len > 1)
			want[len++] = ',';
		memcpy(want + len, s->messages[i].text, (size_t)s->messages[i].len);
		len += (size_t)s->messages[i].len;
	}
	if (s->json)
		want[len++] = ']';
	if (a->body.len != len || (len && memcmp(a->body.data, want, len)))
		WRONG("read of %s at %d: '%.*s', not '%.*s'", path, (int)*at, (int)a->body.len,
		      a->body.data, (int)len, want);
	if (o_message_at(s, a->next) == NONE || (a->next == *at && *at != o_tail(s)))
		WRONG("read of %s at %d: next is %d", path, (int)*at, (int)a->next);
	if (a->up_to_date != (a->next == o_tail(s)) || a->closed != (a->up_to_date && s->closed))
		WRONG("read of %s: up to date %d, closed %d", path, a->up_to_date, a->closed);
	*at = a->next;
	return 200;
}

static void read_rest(struct oracle *o, int path, const char *offset, uint64_t at, int want)
{
	struct o_stream *s = o_get(o, path);
	char text[SC_DS_OFFSET_TEXT];
	struct sc_ds_answer a;
	int status;

	sc_ds_answer_init(&a);
	snprintf(text, sizeof(text), "%s", offset);
	do {
		status = read_page(o_paths[path], s, text, &at, &a);
		if (status != want)
			WRONG("read of %s at %s: status %d, not %d", o_paths[path], text, status,
			      want);
		sc_ds_offset_format(at, text);
	} while (status == 200 && !a.up_to_date);
	sc_ds_answer_done(&a);
}

static void do_read(struct oracle *o, const struct op *op, bool engine)
{
	struct o_stream *s = o_get(o, op->path);
	char text[SC_DS_OFFSET_TEXT] = "-1";
	int want = o_lives(o, op->path);
	uint64_t at = s ? s->first : 0;

	if (op->offset == 1) {
		strcpy(text, "now");
		at = s ? o_tail(s) : 0;
	} else if (op->offset >= 2) {
		at = op->at;
		sc_ds_offset_format(at, text);
	}
	if (!want)
		want = at > o_tail(s)                ? 400
		       : at < s->first               ? 410
		       : o_message_at(s, at) == NONE ? 400
						     : 200;
	if (engine)
		read_rest(o, op->path, text, at, want);
	if (want == 200)
		s->accessed_us = o->now_us;
}

static void do_head(struct oracle *o, int path)
{
	struct o_stream *s = o_get(o, path);
	struct o_answer want = o_status(o_lives(o, path));
	struct sc_ds_answer a;
	struct sc_err err = { 0 };

	if (!want.status)
		want = o_told(200, s);
	sc_ds_answer_init(&a);
	if (sc_ds_head(ds, sc_span_str(o_paths[path]), &a, &err) < 0)
		WRONG("head: %s", err.reason);
	check_answer("head", &a, &want);
	if (want.status == 200 &&
	    (a.has_ttl != (s->life == L_TTL) || a.has_expiry != (s->life == L_EXPIRY)))
		WRONG("head of %s: life", o_paths[path]);
	sc_ds_answer_done(&a);
}

struct listed {
	int at;
	struct oracle *o;
};

static bool must_be_listed(struct oracle *o, int path)
{
	struct o_stream *s = o_get(o, path);

	return s && !s->gone && !o_expired(o, s) && strncmp(o_paths[path], "/m/", 3) == 0;
}

/* An expired stream is listed until it is swept, which may be later than the oracle forgets it: a
 * PUT that is refused may be the time for that. */
static int list_one(void *arg, const struct sc_ds_stream *stream)
{
	struct listed *l = arg;
	int at = l->at;

	while (at < PATHS && !sc_span_is(stream->path, o_paths[at]) && !must_be_listed(l->o, at))
		at++;
	if (at < PATHS && sc_span_is(stream->path, o_paths[at]) && o_get(l->o, at) &&
	    !o_get(l->o, at)->gone)
		l->at = at + 1;
	else if (!sc_ds_stream_expired(stream, l->o->now_us))
		WRONG("list: '%.*s'", (int)stream->path.len, stream->path.data);
	return 0;
}

static void fault(void *arg, const char *what)
{
	(void)arg;
	WRONG("verify: %s", what);
}

/* Reading counts as an access, so this does too. */
static void compare(struct oracle *o, bool engine)
{
	struct listed l = { 0, o };
	struct sc_ds_verified verified;
	struct sc_err err = { 0 };

	for (int path = 0; path < PATHS; path++) {
		struct op op = { .kind = READ, .path = path };

		if (engine)
			do_head(o, path);
		do_read(o, &op, engine);
	}
	if (!engine)
		return;
	if (sc_ds_list(ds, SC_SPAN("/m/"), list_one, &l, &err) < 0)
		WRONG("list: %s", err.reason);
	for (; l.at < PATHS; l.at++)
		if (must_be_listed(o, l.at))
			WRONG("list: '%s' is missing", o_paths[l.at]);
	if (sc_ds_verify(ds, fault, NULL, &verified, &err) < 0)
		WRONG("verify: %s", err.reason);
}

/* -- running -- */

struct shared {   /* between the processes of a sequence */
	int done; /* operations finished */
	signed char applied[OPS];
	bool failed;
};

static void noop(struct sc_ds_call *c)
{
	(void)c;
}

/* Everything that was queued before is in the store: last accesses too. */
static void barrier(void)
{
	struct sc_ds_call c = { .op = SC_DS_OP_TRIM, .request.path = SC_SPAN("/none") };
	struct o_answer want = o_status(404);

	for (int i = 0; i < 2; i++)
		call("barrier", &c, &want);
}

static void crash(const struct op *op)
{
	static struct spelled sp;
	static struct sc_ds_call c;

	barrier();
	if (op->in_flight) {
		spell_post(&op->post, &sp, &c.request);
		c.done = noop;
		sc_ds_answer_init(&c.answer);
		if (sc_ds_submit(ds, &c))
			WRONG("a call was refused");
		usleep(op->delay_us);
	}
	_exit(42);
}

/* Did the write in flight happen? Its stream's tail and closed flag, or its producers, tell. */
static bool happened(struct oracle *before, struct oracle *after, const struct o_post *post)
{
	struct o_stream *a = o_get(before, post->path), *b = o_get(after, post->path);
	struct sc_ds_answer answer;
	struct sc_err err = { 0 };
	bool moved;

	if (!a || !b || (o_tail(a) == o_tail(b) && a->closed == b->closed))
		return false;
	sc_ds_answer_init(&answer);
	if (sc_ds_head(ds, sc_span_str(o_paths[post->path]), &answer, &err) < 0)
		WRONG("head: %s", err.reason);
	moved = answer.has_next && answer.next == o_tail(b) && answer.closed == b->closed;
	if (answer.has_next && !moved && (answer.next != o_tail(a) || answer.closed != a->closed))
		WRONG("after a crash: tail %d closed %d is neither before nor after",
		      (int)answer.next, answer.closed);
	sc_ds_answer_done(&answer);
	return moved;
}

static void settle_crash(struct oracle *o, const struct op *op, struct shared *sh, int index)
{
	static struct oracle after;

	after = *o;
	o_post(&after, &op->post);
	if (ds && sh->applied[index] == 0)
		sh->applied[index] = happened(o, &after, &op->post) ? 1 : -1;
	if (sh->applied[index] == 1)
		*o = after;
}

static void do_write(struct oracle *o, const struct op *op, bool engine)
{
	struct bunched *b = &bunch[bunched];
	struct sc_ds_call c = { .op = SC_DS_OP_REQUEST };
	struct o_answer want;

	b->post = op->post;
	switch (op->kind) {
	case PUT:
		want = o_put(o, &op->put);
		if (want.status == -1)
			return;
		spell_put(&op->put, op->spell_zero && op->put.config.from != NONE, &b->spelled,
			  &c.request);
		break;
	case POST:
		want = o_post(o, &op->post);
		spell_post(&b->post, &b->spelled, &c.request);
		break;
	case DELETE:
		want = o_delete(o, op->path);
		c.request.method = SC_DS_DELETE;
		c.request.path = sc_span_str(o_paths[op->path]);
		break;
	case TRIM:
		want = o_trim(o, op->path, op->at);
		c.op = SC_DS_OP_TRIM;
		c.position = op->at;
		c.request.path = sc_span_str(o_paths[op->path]);
		break;
	default:
		o->sealed[op->group] = true;
		want = o_status(204);
		c.op = SC_DS_OP_SEAL;
		c.request.path = sc_span_str(o_groups[op->group]);
	}
	if (!engine)
		return;
	b->call = c;
	b->want = want;
	b->what = op->kind == PUT ? "put" : op->kind == POST ? "post" : "write";
	bunched++;
	if (bunched == (int)(sizeof(bunch) / sizeof(*bunch)) || !op->keep)
		drain();
}

/* One operation, on the oracle and (not while replaying) on the engine. */
static void step(struct oracle *o, struct shared *sh, int index, bool engine)
{
	struct op op = random_op(o);
	struct sc_err err = { 0 };

	op_now = index;
	if (engine && (op.kind >= READ))
		drain();
	switch (op.kind) {
	case READ:
		do_read(o, &op, engine);
		break;
	case HEAD:
		if (engine)
			do_head(o, op.path);
		break;
	case CLOCK:
		o->now_us += op.step_us;
		atomic_store(&clock_us, o->now_us);
		break;
	case UPKEEP:
		if (engine && sc_ds_upkeep(ds, &err) < 0)
			WRONG("upkeep: %s", err.reason);
		o_sweep(o);
		break;
	case COMPARE:
		compare(o, engine);
		break;
	case REOPEN:
		if (engine) {
			sc_ds_close(ds);
			open_ds();
		}
		break;
	case CRASH:
		if (engine && sh->done == index) {
			sh->done = index + 1;
			crash(&op);
		}
		if (op.in_flight)
			settle_crash(o, &op, sh, index);
		break;
	default:
		do_write(o, &op, engine);
	}
}

/* A process: what was done before is replayed on the oracle, then the engine takes part. */
static void run_on(struct shared *sh, uint64_t seed)
{
	static struct oracle o;
	int start = sh->done;

	alarm(120); /* a hang is a failure like another */

	rng = seed * 0x9e3779b97f4a7c15ull + 1;
	o_init(&o);
	o.now_us = 1800000000000000ll;
	atomic_store(&clock_us, o.now_us);
	sc_clock_set(test_wall, NULL);
	ds = NULL;
	for (int i = 0; i < OPS; i++) {
		/* the operation that ended in the crash is settled against the store */
		if (i == start - 1 || (i == 0 && start == 0))
			open_ds();
		step(&o, sh, i, i >= start);
		if (i >= start && !bunched)
			sh->done = i + 1;
	}
	op_now = OPS;
	drain();
	compare(&o, true);
	sc_ds_close(ds);
	_exit(0);
}

static void run_seed(uint64_t seed)
{
	struct shared *sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status = 0;

	CHECK(sh != MAP_FAILED);
	memset(sh, 0, sizeof(*sh));
	seed_now = seed;
	folder_new();
	do {
		pid_t pid;

		fflush(stdout);
		pid = fork();
		CHECK(pid >= 0);
		if (pid == 0)
			run_on(sh, seed);
		CHECK(waitpid(pid, &status, 0) == pid);
	} while (WIFEXITED(status) && WEXITSTATUS(status) == 42);
	folder_done();
	munmap(sh, sizeof(*sh));
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		FAIL("seed %llu failed (SC_DS_SEED=%llu repeats it)", (unsigned long long)seed,
		     (unsigned long long)seed);
}

TEST(the_engine_does_what_the_oracle_does)
{
	const char *one = getenv("SC_DS_SEED"), *more = getenv("SC_DS_SEEDS");
	uint64_t count = more ? strtoull(more, NULL, 10) : 0, seed;

	if (one) {
		run_seed(strtoull(one, NULL, 10));
		return;
	}
	for (seed = 1; seed <= 12; seed++)
		run_seed(seed);
	for (; count > 0; count--) {
		sc_random(&seed, sizeof(seed));
		seed >>= 16;
		printf("seed %llu\n", (unsigned long long)seed);
		run_seed(seed);
	}
}

/* Until a few seconds are over. */
TEST(random_sequences_for_a_while)
{
	int64_t end_us = sc_mono_us() + 4000000;
	uint64_t seed;

	if (getenv("SC_DS_SEED"))
		return;
	do {
		sc_random(&seed, sizeof(seed));
		seed >>= 16;
		printf("seed %llu\n", (unsigned long long)seed);
		run_seed(seed);
	} while (sc_mono_us() < end_us);
}
