/* http.c: the server: opened, run until a signal, drained. */
#include "durable/http.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/thread.h"
#include "durable/http_internal.h"

#define TICK_MS 1000

static const struct sc_token_word token_words[] = {
	{ "read", SC_DS_MAY_READ },
	{ "write", SC_DS_MAY_WRITE },
	{ "admin", SC_DS_MAY_READ | SC_DS_MAY_WRITE | SC_DS_MAY_ADMIN },
	{ "all", SC_DS_MAY_READ | SC_DS_MAY_WRITE | SC_DS_MAY_ADMIN },
	{ NULL, 0 },
};

static void fill_in(struct sc_ds_http *http)
{
	struct sc_ds_http_options *o = &http->o;
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

#define STANDARD(member, value) \
	do { \
		if (!o->member) \
			o->member = (value); \
	} while (0)
	STANDARD(prefix, "/v1/stream/");
	STANDARD(cors, "*");
	STANDARD(long_poll_ms, 30000);
	STANDARD(sse_ms, 60000);
	STANDARD(head_ms, 10000);
	STANDARD(idle_ms, 60000);
	STANDARD(body_max, 64u << 20);
	STANDARD(held_max, 512u << 20);
	STANDARD(path_max, SC_DS_PATH_MAX);
	STANDARD(threads, cores > 0 ? (unsigned)cores : 1);
#undef STANDARD
	if (o->threads > SC_DS_SHARDS_MAX)
		o->threads = SC_DS_SHARDS_MAX;
	if (o->path_max > SC_DS_PATH_MAX)
		o->path_max = SC_DS_PATH_MAX;
	http->face = (struct sc_ds_face){ o->cors, o->private_cache };
}

static int check_prefix(struct sc_ds_http *http, struct sc_err *err)
{
	const char *prefix = http->o.prefix;
	size_t len = strlen(prefix);
	bool clean = prefix[0] == '/' && prefix[len - 1] == '/' && len < http->o.path_max;

	for (size_t i = 0; clean && i < len; i++)
		clean = (unsigned char)prefix[i] > ' ' && prefix[i] != '?' && prefix[i] != '#' &&
			prefix[i] != 0x7f;
	http->prefix = sc_span(prefix, len);
	if (clean)
		return 0;
	sc_err_set(err, SC_E_USAGE, "cannot serve", "a prefix begins and ends with '/'");
	sc_err_on(err, "prefix", prefix);
	return sc_err_next(err, "write it as in /v1/stream/");
}

/* It becomes a field of every answer. */
static int check_cors(const struct sc_ds_http *http, struct sc_err *err)
{
	bool clean = true;

	for (const char *c = http->o.cors; clean && *c; c++)
		clean = *c > ' ' && *c < 0x7f && *c != ',';
	if (clean)
		return 0;
	sc_err_set(err, SC_E_USAGE, "cannot serve", "it is not one origin");
	sc_err_on(err, "CORS origin", http->o.cors);
	return sc_err_next(err, "write it as in https://app.example.com, or take * for all");
}

static int open_tls(const struct sc_ds_http *http, struct sc_tls_context **ret_tls,
		    struct sc_err *err)
{
	struct sc_tls_files files = { .ca = http->o.client_ca,
				      .cert = http->o.cert,
				      .key = http->o.key };

	return sc_tls_server_context_new(&files, ret_tls, err);
}

static int put_every(struct sc_ds_http *http, struct sc_err *err)
{
	struct sc_ds_fields fields;

	sc_bytes_init(&http->every, 65536);
	sc_ds_fields_every(&fields, &http->face);
	return sc_ds_fields_put(&fields, &http->every) < 0 ? sc_err_nomem(err, "cannot serve") : 0;
}

static int open_sockets(struct sc_ds_http *http, struct sc_err *err)
{
	int rc = 0;

	if (http->o.activation)
		rc = sc_listen_add_passed(&http->listen, err);
	for (size_t i = 0; rc == 0 && i < http->o.listen_count; i++)
		rc = sc_listen_add(&http->listen, http->o.listen[i], err);
	if (rc == 0 && http->listen.count == 0) {
		sc_err_set(err, SC_E_CONFIG, "cannot serve", "there is no address to listen on");
		rc = sc_err_next(err, "name one with --listen");
	}
	return rc;
}

static int open_shards(struct sc_ds_http *http, struct sc_err *err)
{
	struct sc_ds_shard *first;
	int rc = 0;

	http->shards = sc_calloc(http->o.threads, sizeof(*http->shards));
	if (!http->shards)
		return sc_err_nomem(err, "cannot serve");
	for (; rc == 0 && http->shard_count < http->o.threads; http->shard_count++) {
		struct sc_ds_shard *shard = &http->shards[http->shard_count];

		shard->epoll_fd = shard->wake_fd = -1;
		shard->logs = sc_calloc(http->logs.count + 1, sizeof(struct sc_log *));
		rc = shard->logs ? sc_ds_shard_open(http, shard, err)
				 : sc_err_nomem(err, "cannot serve");
	}
	if (rc < 0)
		return rc;
	first = &http->shards[0];
	first->listeners = sc_calloc(http->listen.count, sizeof(*first->listeners));
	if (!first->listeners)
		return sc_err_nomem(err, "cannot serve");
	for (; first->listener_count < http->listen.count; first->listener_count++)
		first->listeners[first->listener_count] = (struct sc_ds_listener){
			SC_DS_LISTENER, http->listen.sockets[first->listener_count].fd
		};
	return 0;
}

static int open_subscriptions(struct sc_ds_http *http, struct sc_err *err)
{
	struct sc_ds_webhook_options options = { .ca = http->o.webhook_ca,
						 .limit_ms = http->o.webhook_ms,
						 .say = http->o.say };
	int rc = sc_ds_subs_enable(http->ds, err);

	return rc < 0 ? rc : sc_ds_webhooks_start(http->ds, &options, &http->webhooks, err);
}

static int open_all(struct sc_ds_http *http, struct sc_err *err)
{
	int rc = check_prefix(http, err);

	if (rc == 0)
		rc = check_cors(http, err);
	sc_raise_descriptors();
	if (rc == 0)
		rc = sc_ds_peers_init(&http->peers, http->o.per_address_max, err);
	if (rc == 0 && http->o.token_file)
		rc = sc_tokens_open(http->o.token_file, token_words, &http->tokens, err);
	if (rc == 0 && http->o.cert)
		rc = open_tls(http, &http->tls, err);
	if (rc == 0)
		rc = put_every(http, err);
	if (rc == 0)
		rc = sc_ds_logs_init(&http->logs, http->o.logs, http->o.log_count, err);
	if (rc == 0)
		rc = open_sockets(http, err);
	if (rc == 0)
		rc = open_shards(http, err);
	if (rc == 0 && http->o.subscriptions)
		rc = open_subscriptions(http, err);
	return rc;
}

static void close_all(struct sc_ds_http *http)
{
	sc_ds_webhooks_stop(http->webhooks);
	for (size_t i = 0; i < http->shard_count; i++)
		sc_ds_shard_close(&http->shards[i]);
	free(http->shards);
	sc_listen_done(&http->listen);
	sc_ds_logs_done(&http->logs);
	sc_tokens_close(http->tokens);
	sc_ds_peers_done(&http->peers);
	sc_tls_context_free(http->tls);
	sc_bytes_done(&http->every);
	pthread_rwlock_destroy(&http->tokens_lock);
	pthread_rwlock_destroy(&http->tls_lock);
}

/* Telling that it is ready. */

static int tell_ready(struct sc_ds_http *http, struct sc_err *err)
{
	struct sc_bytes prefix;
	int rc;

	sc_bytes_init(&prefix, 1 << 20);
	rc = sc_bytes_puts(&prefix, ",\"prefix\":");
	if (rc == 0)
		rc = sc_bytes_put_json(&prefix, http->prefix);
	rc = rc < 0 ? sc_err_nomem(err, "cannot tell that it is ready")
		    : sc_listen_tell(&http->listen, sc_span(prefix.data, prefix.len),
				     http->tls ? " (TLS)" : "", http->o.ready_fd, http->o.say, err);
	sc_bytes_done(&prefix);
	return rc;
}

/* Running. */

static void refresh_tokens(struct sc_ds_http *http)
{
	struct sc_err err;
	char line[1200];
	int rc;

	if (!http->tokens)
		return;
	pthread_rwlock_wrlock(&http->tokens_lock);
	rc = sc_tokens_refresh(http->tokens, &err);
	pthread_rwlock_unlock(&http->tokens_lock);
	if (rc >= 0 || !http->o.say)
		return;
	sc_err_line(&err, line, sizeof(line));
	http->o.say(SC_WARNING, NULL, "%s; the old tokens stay", line);
}

/* SIGHUP: the certificate again, for connections to come. */
static void reload_tls(struct sc_ds_http *http)
{
	struct sc_tls_context *fresh = NULL, *old;
	struct sc_err err;
	char line[1200];

	if (!http->tls)
		return;
	if (open_tls(http, &fresh, &err) < 0) {
		sc_err_line(&err, line, sizeof(line));
		if (http->o.say)
			http->o.say(SC_WARNING, NULL, "%s; the old certificate stays", line);
		return;
	}
	pthread_rwlock_wrlock(&http->tls_lock);
	old = http->tls;
	http->tls = fresh;
	pthread_rwlock_unlock(&http->tls_lock);
	sc_tls_context_free(old); /* connections have their own share of it */
}

static void wake_shards(struct sc_ds_http *http)
{
	for (size_t i = 0; i < http->shard_count; i++)
		sc_ds_shard_wake(&http->shards[i]);
}

static int take_signal(int fd)
{
	struct signalfd_siginfo info;

	if (read(fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return 0;
	return (int)info.ssi_signo;
}

/* Until INT or TERM. */
static int watch(struct sc_ds_http *http, int signal_fd, struct sc_err *err)
{
	struct pollfd *polls = sc_calloc(http->logs.count + 1, sizeof(*polls));
	int signo = 0;

	if (!polls)
		return sc_err_nomem(err, "cannot serve");
	while (signo != SIGINT && signo != SIGTERM) {
		int ms = sc_ds_logs_poll(&http->logs, polls), n;

		polls[http->logs.count] = (struct pollfd){ .fd = signal_fd, .events = POLLIN };
		n = poll(polls, http->logs.count + 1, ms >= 0 && ms < TICK_MS ? ms : TICK_MS);
		if (n < 0 && errno != EINTR)
			break;
		sc_ds_logs_turn(&http->logs, polls);
		refresh_tokens(http);
		signo = n > 0 && polls[http->logs.count].revents ? take_signal(signal_fd) : 0;
		if (signo == SIGHUP)
			reload_tls(http);
	}
	free(polls);
	return signo;
}

struct drain {
	struct sc_ds_http *http;
	int signal_fd, done_fd;
};

/* A second signal, or the end of the grace: at once. */
static void *hurry(void *arg)
{
	struct drain *d = arg;
	struct pollfd polls[2] = { { .fd = d->signal_fd, .events = POLLIN },
				   { .fd = d->done_fd, .events = POLLIN } };
	int64_t until_us = sc_mono_us() + d->http->o.grace_ms * 1000;

	for (;;) {
		int64_t left_us = until_us - sc_mono_us();
		int n = poll(polls, 2, left_us > 0 ? (int)(left_us / 1000) + 1 : 0), signo = 0;

		if (polls[1].revents)
			return NULL;
		if (n > 0 && polls[0].revents)
			signo = take_signal(d->signal_fd);
		if (signo == SIGINT || signo == SIGTERM || sc_mono_us() >= until_us)
			break;
	}
	atomic_store(&d->http->at_once, true);
	wake_shards(d->http);
	return NULL;
}

static void drain(struct sc_ds_http *http, int signal_fd)
{
	struct drain d = { http, signal_fd, -1 };
	pthread_t thread;
	int ends[2], e = -1;

	atomic_store(&http->stopping, true);
	sc_ds_stop(http->ds);
	sc_ds_logs_stop(&http->logs);
	if (pipe2(ends, O_CLOEXEC) == 0) {
		d.done_fd = ends[0];
		e = sc_thread_start(&thread, hurry, &d);
	}
	if (e)
		atomic_store(&http->at_once, true); /* nobody could hurry it later */
	wake_shards(http);
	for (size_t i = 0; i < http->shard_count; i++)
		sc_ds_shard_join(&http->shards[i]);
	if (d.done_fd < 0)
		return;
	close(ends[1]);
	if (e == 0)
		pthread_join(thread, NULL);
	close(ends[0]);
}

static int serve(struct sc_ds_http *http, int signal_fd, int *ret_signo, struct sc_err *err)
{
	int rc = sc_ds_shard_listen(&http->shards[0], true);

	if (rc < 0)
		return sc_err_sys(err, SC_E_IO, -rc, "cannot listen");
	for (size_t i = 0; rc == 0 && i < http->shard_count; i++)
		rc = sc_ds_shard_start(&http->shards[i], err);
	if (rc == 0)
		rc = tell_ready(http, err);
	if (rc == 0) {
		rc = watch(http, signal_fd, err);
		if (rc >= 0) {
			*ret_signo = rc;
			rc = 0;
		}
	} else {
		atomic_store(&http->at_once, true);
	}
	drain(http, signal_fd);
	return rc;
}

int sc_ds_http_run(struct sc_ds *ds, const struct sc_ds_http_options *options, int *ret_signo,
		   struct sc_err *err)
{
	struct sc_ds_http *http = sc_calloc(1, sizeof(*http));
	sigset_t signals;
	int signal_fd, rc;

	if (!http)
		return sc_err_nomem(err, "cannot serve");
	http->o = *options;
	http->ds = ds;
	http->began_us = sc_wall_us();
	fill_in(http);
	pthread_rwlock_init(&http->tokens_lock, NULL);
	pthread_rwlock_init(&http->tls_lock, NULL);
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	rc = signal_fd < 0 ? sc_err_sys(err, SC_E_IO, errno, "cannot take signals")
			   : open_all(http, err);
	if (rc == 0)
		rc = serve(http, signal_fd, ret_signo, err);
	close_all(http);
	if (signal_fd >= 0)
		close(signal_fd);
	free(http);
	return rc;
}
