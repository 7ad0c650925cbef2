/* webhook.c: see durable/webhook.h. */
#include "durable/webhook.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/thread.h"
#include "durable/subs.h"
#include "json/scan.h"
#include "net/address.h"
#include "net/loop.h"
#include "net/post.h"

#define LOOK_MAX_MS 60000 /* clocks may be set */
#define AGAIN_MS 1000     /* when the engine was too busy to hear of an outcome */
#define LIMIT_MS 30000

/* One delivery, from its start until the engine has its outcome. */
struct delivery {
	struct sc_ds_webhooks *hooks;
	struct delivery *next;   /* of those that run */
	struct delivery *handed; /* of those whose outcome the engine has, or refused */
	struct sc_ds_delivery what;
	struct sc_url url;
	struct sc_post *post;
	struct sc_ds_call call;
	struct sc_ds_sub_request outcome;
	bool taken;       /* the engine has the call */
	int64_t again_us; /* it was too busy: not before this */
};

struct sc_ds_webhooks {
	struct sc_ds *ds;
	struct sc_ds_webhook_options o;
	struct sc_loop *loop;
	struct sc_wake *wake;
	struct sc_timer *timer;
	struct sc_tls_context *tls;
	pthread_t thread;
	bool started;
	atomic_bool stopping;
	atomic_uint_fast64_t running;
	struct delivery *list;
	pthread_mutex_t lock;
	pthread_cond_t idle;
	struct delivery *handed; /* with `lock` */
	size_t with_engine;      /* with `lock` */
};

static void say(struct sc_ds_webhooks *hooks, const struct sc_err *err)
{
	char line[1200];

	if (!hooks->o.say)
		return;
	sc_err_line(err, line, sizeof(line));
	hooks->o.say(SC_WARNING, NULL, "%s", line);
}

static void free_delivery(struct delivery *d)
{
	sc_post_free(d->post);
	sc_url_done(&d->url);
	sc_ds_delivery_done(&d->what);
	sc_ds_answer_done(&d->call.answer);
	free(d);
}

static void drop(struct delivery *d)
{
	struct delivery **at = &d->hooks->list;

	while (*at != d)
		at = &(*at)->next;
	*at = d->next;
	atomic_fetch_sub(&d->hooks->running, 1);
	free_delivery(d);
}

/* -- outcomes -- */

/* In the engine's writer thread. */
static void on_done(struct sc_ds_call *call)
{
	struct delivery *d = call->arg;
	struct sc_ds_webhooks *hooks = d->hooks;

	pthread_mutex_lock(&hooks->lock);
	d->handed = hooks->handed;
	hooks->handed = d;
	hooks->with_engine--;
	if (!hooks->with_engine)
		pthread_cond_signal(&hooks->idle);
	sc_wake_up(hooks->wake);
	pthread_mutex_unlock(&hooks->lock);
}

static void submit(struct delivery *d)
{
	struct sc_ds_webhooks *hooks = d->hooks;

	sc_ds_subs_call(&d->call, &d->outcome);
	d->call.done = on_done;
	d->call.arg = d;
	pthread_mutex_lock(&hooks->lock);
	hooks->with_engine++;
	pthread_mutex_unlock(&hooks->lock);
	if (sc_ds_submit(hooks->ds, &d->call) == 0)
		return;
	pthread_mutex_lock(&hooks->lock);
	hooks->with_engine--;
	pthread_mutex_unlock(&hooks->lock);
	d->again_us = sc_mono_us() + AGAIN_MS * 1000;
	sc_timer_start(hooks->timer, AGAIN_MS);
}

/* The delivery is over; the engine hears of it. */
static void tell(struct delivery *d, enum sc_ds_outcome outcome)
{
	sc_post_free(d->post);
	d->post = NULL;
	d->outcome = (struct sc_ds_sub_request){
		.op = SC_DS_SUB_OUTCOME,
		.number = d->what.number,
		.generation = d->what.generation,
		.wake_id = sc_span_str(d->what.wake_id),
		.outcome = outcome,
	};
	submit(d);
}

/* {"done":true} */
static bool says_done(struct sc_span body)
{
	struct sc_json top, done;

	return sc_json_scan(body, &top, NULL) == 0 && sc_json_get(&top, "done", &done) &&
	       done.kind == SC_JSON_TRUE;
}

/* Once a row of failures: what fails for a day is not told all day. */
static void say_failed(struct delivery *d, const struct sc_err *err, int status)
{
	struct sc_err told;
	char line[1200];

	if (d->what.attempts > 0)
		return; /* told already */
	if (err) {
		sc_err_line(err, line, sizeof(line));
		sc_err_set(&told, SC_E_UNAVAILABLE, "cannot deliver a wake to", "%s", line);
	} else {
		sc_err_set(&told, SC_E_UNAVAILABLE, "cannot deliver a wake to",
			   "it answers with status %d", status);
	}
	sc_err_on(&told, "webhook", d->url.shown);
	sc_err_next(&told, "it is tried again");
	say(d->hooks, &told);
}

static void on_answer(void *arg, const struct sc_post_answer *answer, const struct sc_err *err)
{
	struct delivery *d = arg;
	bool good = answer && answer->status >= 200 && answer->status < 300;

	if (!good)
		say_failed(d, answer ? NULL : err, answer ? answer->status : 0);
	if (!good)
		tell(d, SC_DS_OUTCOME_FAILED);
	else if (!answer->cut && says_done(answer->body))
		tell(d, SC_DS_OUTCOME_DONE);
	else
		tell(d, SC_DS_OUTCOME_TAKEN);
}

/* -- starting -- */

static bool is_public(void *arg, const struct sockaddr *address)
{
	(void)arg;
	return sc_address_public(address);
}

static bool is_local(void *arg, const struct sockaddr *address)
{
	(void)arg;
	return sc_address_loopback(address);
}

static int post(struct delivery *d, struct sc_err *err)
{
	static const char tried[] = "cannot deliver a wake";
	struct sc_ds_webhooks *hooks = d->hooks;
	struct sc_span body = sc_span(d->what.body.data, d->what.body.len);
	struct sc_post_request request = {
		.url = &d->url,
		.body = body,
		.limit_ms = hooks->o.limit_ms,
		.answer_max = SC_DS_WEBHOOK_ANSWER_MAX,
		.tls = hooks->tls,
		.allow = d->url.tls ? is_public : is_local,
	};
	struct sc_bytes fields;
	int rc;

	sc_bytes_init(&fields, 4096);
	if (sc_bytes_puts(&fields, "Content-Type: application/json\r\nWebhook-Signature: ") < 0)
		rc = sc_err_nomem(err, tried);
	else
		rc = sc_ds_keys_sign(sc_ds_subs_keys(hooks->ds), body, sc_wall_us(), &fields, err);
	if (rc == 0 && sc_bytes_puts(&fields, "\r\n") == 0)
		request.fields = sc_bytes_str(&fields);
	if (rc == 0 && !request.fields)
		rc = sc_err_nomem(err, tried);
	if (rc == 0)
		rc = sc_post_new(hooks->loop, &request, on_answer, d, &d->post, err);
	sc_bytes_done(&fields);
	return rc;
}

/* The URL was looked at when it came; what may be used is told apart by what is allowed now. */
static int begin(struct delivery *d, struct sc_err *err)
{
	const char *url = sc_bytes_str(&d->what.url), *why;
	int rc;

	if (!url)
		return sc_err_nomem(err, "cannot deliver a wake");
	why = sc_ds_sub_url_refused(url);
	if (why) {
		sc_err_set(err, SC_E_NOAUTH, "cannot deliver a wake to", "%s", why);
		return sc_err_on(err, "webhook", url);
	}
	rc = sc_url_parse(url, &d->url, err);
	return rc < 0 ? rc : post(d, err);
}

static void start(struct sc_ds_webhooks *hooks, uint64_t number)
{
	struct delivery *d = sc_calloc(1, sizeof(*d));
	struct sc_err err;
	int rc;

	if (!d)
		return; /* the next look finds it again */
	d->hooks = hooks;
	sc_ds_delivery_init(&d->what);
	sc_ds_answer_init(&d->call.answer);
	rc = sc_ds_subs_delivery(hooks->ds, number, sc_wall_us(), &d->what, &err);
	if (rc < 0)
		say(hooks, &err);
	for (struct delivery *other = hooks->list; rc == 1 && other; other = other->next)
		if (other->what.number == number && other->what.generation == d->what.generation)
			rc = 0; /* it runs */
	if (rc <= 0) {
		free_delivery(d);
		return;
	}
	d->next = hooks->list;
	hooks->list = d;
	atomic_fetch_add(&hooks->running, 1);
	if (!d->what.body.len) {
		tell(d, SC_DS_OUTCOME_IDLE);
	} else if (begin(d, &err) < 0) {
		if (!d->what.attempts)
			say(hooks, &err);
		tell(d, SC_DS_OUTCOME_FAILED);
	}
}

struct due {
	struct sc_ds_webhooks *hooks;
	uint64_t numbers[SC_DS_WEBHOOKS_MAX];
	size_t count;
	bool more; /* than there is room for */
};

static size_t running_of(const struct sc_ds_webhooks *hooks, uint64_t number)
{
	size_t count = 0;

	for (const struct delivery *d = hooks->list; d; d = d->next)
		count += d->what.number == number;
	return count;
}

static int take_due(void *arg, uint64_t number, int64_t due_us)
{
	struct due *due = arg;

	(void)due_us;
	if (running_of(due->hooks, number) >= SC_DS_WEBHOOKS_OF_ONE_MAX)
		return 0;
	due->more = due->count + atomic_load(&due->hooks->running) >= SC_DS_WEBHOOKS_MAX;
	if (due->more)
		return 1;
	due->numbers[due->count++] = number;
	return 0;
}

static void submit_again(struct sc_ds_webhooks *hooks)
{
	struct delivery *next;

	for (struct delivery *d = hooks->list; d; d = next) {
		next = d->next;
		if (d->again_us && sc_mono_us() >= d->again_us) {
			d->again_us = 0;
			submit(d);
		}
	}
}

/* What is due begins, as far as there is room; then the next look. */
static void look(void *arg)
{
	struct sc_ds_webhooks *hooks = arg;
	struct due due = { .hooks = hooks };
	int64_t now_us = sc_wall_us(), next_us = INT64_MAX, in_ms = LOOK_MAX_MS;
	struct sc_err err;

	submit_again(hooks);
	if (sc_ds_subs_due(hooks->ds, now_us, take_due, &due, &next_us, &err) < 0) {
		say(hooks, &err);
		next_us = now_us + AGAIN_MS * 1000;
	}
	for (size_t i = 0; i < due.count; i++)
		start(hooks, due.numbers[i]);
	if (next_us != INT64_MAX && (next_us - now_us) / 1000 + 1 < in_ms)
		in_ms = (next_us - now_us) / 1000 + 1;
	for (struct delivery *d = hooks->list; d; d = d->next)
		if (d->again_us && in_ms > AGAIN_MS)
			in_ms = AGAIN_MS;
	sc_timer_start(hooks->timer, in_ms);
}

/* Something became due, an outcome is known, or the end. */
static void on_wake(void *arg)
{
	struct sc_ds_webhooks *hooks = arg;
	struct delivery *d, *next;

	if (atomic_load(&hooks->stopping)) {
		sc_loop_stop(hooks->loop);
		return;
	}
	pthread_mutex_lock(&hooks->lock);
	d = hooks->handed;
	hooks->handed = NULL;
	pthread_mutex_unlock(&hooks->lock);
	for (; d; d = next) {
		next = d->handed;
		if (d->call.answer.status == 503) {
			/* it was not stored */
			d->again_us = sc_mono_us() + AGAIN_MS * 1000;
			continue;
		}
		drop(d);
	}
	look(hooks);
}

/* In the engine's writer thread, with its lock held. */
static void on_due(void *arg)
{
	struct sc_ds_webhooks *hooks = arg;

	sc_wake_up(hooks->wake);
}

static void *run(void *arg)
{
	struct sc_ds_webhooks *hooks = arg;
	struct sc_err err;

	look(hooks);
	if (sc_loop_run(hooks->loop, &err) < 0)
		say(hooks, &err);
	return NULL;
}

static int start_thread(struct sc_ds_webhooks *hooks, struct sc_err *err)
{
	int rc = sc_thread_start(&hooks->thread, run, hooks);

	hooks->started = rc == 0;
	return rc ? sc_err_sys(err, SC_E_INTERNAL, rc, "cannot start a thread for webhooks") : 0;
}

int sc_ds_webhooks_start(struct sc_ds *ds, const struct sc_ds_webhook_options *options,
			 struct sc_ds_webhooks **ret_webhooks, struct sc_err *err)
{
	struct sc_ds_webhooks *hooks = sc_calloc(1, sizeof(*hooks));
	struct sc_tls_files files = { .ca = options->ca };
	int rc;

	if (!hooks)
		return sc_err_nomem(err, "cannot deliver to webhooks");
	hooks->ds = ds;
	hooks->o = *options;
	if (!hooks->o.limit_ms)
		hooks->o.limit_ms = LIMIT_MS;
	pthread_mutex_init(&hooks->lock, NULL);
	pthread_cond_init(&hooks->idle, NULL);
	rc = sc_loop_new(&hooks->loop, err);
	if (rc == 0)
		rc = sc_wake_new(hooks->loop, on_wake, hooks, &hooks->wake, err);
	if (rc == 0)
		rc = sc_timer_new(hooks->loop, look, hooks, &hooks->timer, err);
	if (rc == 0)
		rc = sc_tls_context_new(&files, &hooks->tls, err);
	if (rc == 0) {
		sc_ds_subs_listen(ds, on_due, hooks);
		rc = start_thread(hooks, err);
	}
	if (rc < 0)
		sc_ds_webhooks_stop(hooks);
	else
		*ret_webhooks = hooks;
	return rc;
}

void sc_ds_webhooks_stop(struct sc_ds_webhooks *hooks)
{
	if (!hooks)
		return;
	sc_ds_subs_listen(hooks->ds, NULL, NULL);
	atomic_store(&hooks->stopping, true);
	if (hooks->started) {
		sc_wake_up(hooks->wake);
		pthread_join(hooks->thread, NULL);
	}
	/* what the engine has of them it gives back */
	pthread_mutex_lock(&hooks->lock);
	while (hooks->with_engine)
		pthread_cond_wait(&hooks->idle, &hooks->lock);
	pthread_mutex_unlock(&hooks->lock);
	while (hooks->list)
		drop(hooks->list);
	sc_timer_free(hooks->timer);
	sc_wake_free(hooks->wake);
	sc_tls_context_free(hooks->tls);
	sc_loop_free(hooks->loop);
	pthread_cond_destroy(&hooks->idle);
	pthread_mutex_destroy(&hooks->lock);
	free(hooks);
}

uint64_t sc_ds_webhooks_running(const struct sc_ds_webhooks *hooks)
{
	return atomic_load(&hooks->running);
}
