/* net/server.c: listening, accepting, counting, stopping. */
#include "net/server.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "net/server_internal.h"

enum {
	ACCEPT_TURN = 64,     /* connections before others have their turn */
	ACCEPT_REST_MS = 100, /* after the descriptors or the memory ran out */
	TRIM_FROM = 1000,     /* connections at a time */
	REFUSED_EXTRA =
		256, /* connections over the limit that still get a 503 each; beyond, they are cut */
	SPARE_MIN =
		8, /* descriptors that connections leave to the rest of the process: files to read from */
	SPARE_MAX = 128,
	UNSENT_MAX =
		512 << 10, /* bytes of a connection that the kernel holds and did not send yet */
};

void sc_server_options_init(struct sc_server_options *o)
{
	*o = (struct sc_server_options){
		.head_max_bytes = 16384,
		.message_max_bytes = 1 << 20,
		.handshake_ms = 10000,
		.idle_ms = 60000,
		.ping_ms = 20000,
		.pong_ms = 20000,
		.close_ms = 10000,
	};
}

/* Copies of what the options point to. */

static const char *keep(struct sc_server *s, const char *text)
{
	char *copy = text ? strdup(text) : NULL;

	if (copy)
		s->texts[s->text_count++] = copy;
	return copy;
}

static int keep_options(struct sc_server *s, const struct sc_server_options *o, struct sc_err *err)
{
	const char **origins;

	s->options = *o;
	s->options.listen = NULL;
	s->options.origins = NULL;
	s->texts = sc_calloc(o->origin_count + 4, sizeof(*s->texts));
	origins = sc_calloc(o->origin_count + 1, sizeof(*origins));
	if (!s->texts || !origins) {
		free(origins);
		return sc_err_nomem(err, "cannot start the server");
	}
	s->options.origins = origins;
	for (size_t i = 0; i < o->origin_count; i++)
		if (!(origins[i] = keep(s, o->origins[i])))
			return sc_err_nomem(err, "cannot start the server");
	s->options.cert = keep(s, o->cert);
	s->options.key = keep(s, o->key);
	s->options.client_ca = keep(s, o->client_ca);
	if (!s->options.cert != !o->cert || !s->options.key != !o->key ||
	    !s->options.client_ca != !o->client_ca)
		return sc_err_nomem(err, "cannot start the server");
	return 0;
}

static int check_options(const struct sc_server_options *o, struct sc_err *err)
{
	static const char tried[] = "cannot start the server";

	if (!o->cert != !o->key) {
		sc_err_set(err, SC_E_CONFIG, tried, "TLS needs a certificate and its key");
		return sc_err_next(err, "give both, or none");
	}
	if (o->client_ca && !o->cert)
		return sc_err_set(err, SC_E_CONFIG, tried,
				  "client certificates need TLS: a certificate and a key");
	if (o->head_max_bytes < 256 || o->head_max_bytes > 1 << 24)
		return sc_err_set(err, SC_E_CONFIG, tried,
				  "a request head may have 256 bytes to 16 MiB");
	if (o->message_max_bytes < 1 || o->message_max_bytes > SIZE_MAX / 4)
		return sc_err_set(err, SC_E_CONFIG, tried, "the largest message must have a size");
	if (o->handshake_ms < 1 || o->idle_ms < 1 || o->close_ms < 1 || o->pong_ms < 1 ||
	    o->ping_ms == 0)
		return sc_err_set(err, SC_E_CONFIG, tried,
				  "a time-out must be longer than nothing");
	return 0;
}

/* Accepting. */

static void accept_on(struct sc_server *s, bool on)
{
	s->accept_rests = !on;
	for (size_t i = 0; i < s->listeners.count; i++)
		if (s->listen_watches[i])
			sc_watch_set(s->listen_watches[i], on ? SC_READABLE : 0);
}

static void accept_again(void *arg)
{
	accept_on(arg, true);
}

static void address_of(const struct sockaddr *sa, struct in6_addr *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (sa->sa_family == AF_INET6) {
		*ret = ((const struct sockaddr_in6 *)sa)->sin6_addr;
	} else if (sa->sa_family == AF_INET) {
		ret->s6_addr[10] = ret->s6_addr[11] = 0xff;
		memcpy(&ret->s6_addr[12], &((const struct sockaddr_in *)sa)->sin_addr, 4);
	}
}

static size_t bucket(const struct in6_addr *address)
{
	uint64_t a, b;

	memcpy(&a, address->s6_addr, 8);
	memcpy(&b, address->s6_addr + 8, 8);
	return (size_t)(((a * 0x9e3779b97f4a7c15u) ^ b) * 0xff51afd7ed558ccdu >> 54) %
	       SC_SERVER_BUCKETS;
}

static bool address_full(const struct sc_server *s, const struct in6_addr *address)
{
	size_t n = 0;

	for (struct sc_conn *c = s->buckets[bucket(address)]; c; c = c->address_next)
		if (memcmp(&c->address, address, sizeof(*address)) == 0 &&
		    ++n >= s->options.per_address_max)
			return true;
	return false;
}

static void take(struct sc_server *s, int fd, const struct sockaddr_storage *peer, socklen_t len)
{
	static const char full[] =
		"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\n"
		"Connection: close\r\n\r\n";
	size_t max = s->options.clients_max;
	bool local = peer->ss_family == AF_UNIX, refuse = false;
	struct in6_addr address;
	struct sc_conn *c;
	int one = 1, unsent = UNSENT_MAX;

	s->stats.accepted++;
	address_of((const struct sockaddr *)peer, &address);
	if (s->options.per_address_max && !local)
		refuse = address_full(s, &address);
	/* Plain requests are served beyond the limit of clients, but not without end. */
	if (fd >= s->fd_limit || (max && s->stats.connections >= max + REFUSED_EXTRA) ||
	    (refuse && s->stats.refused_now >= REFUSED_EXTRA)) {
		s->stats.refused_limit++;
		if (!s->tls)
			(void)!send(fd, full, sizeof(full) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		close(fd);
		return;
	}
	if (!local) {
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		/* What nobody takes waits in the ring, once, and not in the kernel for each. */
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent));
	}
	if (s->options.sndbuf_bytes)
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &s->options.sndbuf_bytes, sizeof(int));
	if (sc_conn_new(s, fd, (const struct sockaddr *)peer, len, refuse, &c) < 0) {
		s->stats.accept_failures++;
		return;
	}
	c->address = address;
	c->local = local;
	c->next = s->conns;
	if (c->next)
		c->next->prev = c;
	s->conns = c;
	s->stats.connections++;
	if (s->stats.connections > s->peak)
		s->peak = s->stats.connections;
	s->stats.refused_now += refuse;
	if (s->options.per_address_max && !local && !refuse) {
		struct sc_conn **b = &s->buckets[bucket(&address)];

		c->address_next = *b;
		*b = c;
	}
}

static void acceptable(void *arg, int events)
{
	struct accept_arg *a = arg;
	struct sc_server *s = a->server;

	(void)events;
	for (int i = 0; i < ACCEPT_TURN && !s->accept_rests; i++) {
		struct sockaddr_storage peer = { .ss_family = AF_UNIX };
		socklen_t len = sizeof(peer);
		int fd = accept4(s->listeners.sockets[a->index].fd, (struct sockaddr *)&peer, &len,
				 SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			take(s, fd, &peer, len);
		} else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
			   errno == ENOMEM) {
			/* They wait in the kernel's queue: asking again at once would only burn the
			 * processor. */
			s->stats.accept_failures++;
			accept_on(s, false);
			sc_timer_start(s->accept_timer, ACCEPT_REST_MS);
		} else if (errno != EINTR && errno != ECONNABORTED) {
			return;
		}
	}
}

static void bucket_remove(struct sc_server *s, struct sc_conn *c)
{
	struct sc_conn **at = &s->buckets[bucket(&c->address)];

	while (*at && *at != c)
		at = &(*at)->address_next;
	if (*at)
		*at = c->address_next;
}

void sc_server_forget(struct sc_conn *c)
{
	struct sc_server *s = c->server;

	if (c->told) {
		c->told = false;
		s->hooks.closed(s->arg, c, c->code ? c->code : 1006,
				sc_span(c->reason, c->reason_len), c->by_peer);
	}
	if (c->prev)
		c->prev->next = c->next;
	else
		s->conns = c->next;
	if (c->next)
		c->next->prev = c->prev;
	if (s->options.per_address_max && !c->local && !c->refuse)
		bucket_remove(s, c);
	s->stats.connections--;
	s->stats.memory_bytes -= c->weighed;
	c->weighed = 0;
	s->stats.refused_now -= c->refuse;
	s->stats.clients -= c->counted;
	if (s->peak > TRIM_FROM && s->stats.connections < s->peak / 8) {
		/* Thousands left: give their memory back, which the allocator would keep below its
		 * last piece. */
		s->peak = s->stats.connections;
		(void)malloc_trim(0);
	}
	if (s->accept_rests && !s->stopping)
		accept_on(s, true);
	if (s->stopping && !s->conns)
		sc_task_queue(s->loop, &s->done_task);
}

/* Life. */

static void stopped(void *arg)
{
	struct sc_server *s = arg;
	void (*done)(void *) = s->done;

	if (!done || s->conns)
		return;
	s->done = NULL;
	sc_timer_stop(s->grace);
	done(s->done_arg); /* may free the server */
}

static void cut_all(void *arg)
{
	struct sc_server *s = arg;

	for (struct sc_conn *c = s->conns; c; c = c->next)
		sc_conn_kill(c, 1001);
}

/* The kernel gives the lowest descriptor that is free: a high one says that few are left. */
static int fd_limit(void)
{
	struct rlimit limit;
	rlim_t spare;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY ||
	    limit.rlim_cur > INT_MAX)
		return INT_MAX;
	spare = limit.rlim_cur / 8;
	if (spare < SPARE_MIN)
		spare = SPARE_MIN;
	else if (spare > SPARE_MAX)
		spare = SPARE_MAX;
	return limit.rlim_cur > spare ? (int)(limit.rlim_cur - spare) : 0;
}

static int start(struct sc_server *s, const struct sc_server_options *o, struct sc_err *err)
{
	int rc = 0;

	s->fd_limit = fd_limit();
	for (size_t i = 0; i < o->listen_count && rc == 0; i++)
		rc = sc_listen_add(&s->listeners, o->listen[i], err);
	if (rc == 0 && o->activation)
		rc = sc_listen_add_passed(&s->listeners, err);
	if (rc < 0)
		return rc;
	if (s->listeners.count == 0)
		return sc_err_set(err, SC_E_CONFIG, "cannot start the server",
				  "there is no address to listen on");
	s->listen_watches = sc_calloc(s->listeners.count, sizeof(struct sc_watch *));
	s->accept_args = sc_calloc(s->listeners.count, sizeof(*s->accept_args));
	if (!s->listen_watches || !s->accept_args)
		return sc_err_nomem(err, "cannot start the server");
	for (size_t i = 0; i < s->listeners.count && rc == 0; i++) {
		s->accept_args[i] = (struct accept_arg){ s, i };
		rc = sc_watch_new(s->loop, s->listeners.sockets[i].fd, SC_READABLE, acceptable,
				  &s->accept_args[i], &s->listen_watches[i], err);
	}
	return rc;
}

int sc_server_new(struct sc_loop *loop, const struct sc_server_options *options,
		  const struct sc_server_hooks *hooks, void *arg, struct sc_server **ret_server,
		  struct sc_err *err)
{
	struct sc_server *s;
	int rc = check_options(options, err);

	if (rc < 0)
		return rc;
	s = sc_calloc(1, sizeof(*s));
	if (!s)
		return sc_err_nomem(err, "cannot start the server");
	s->loop = loop;
	s->hooks = *hooks;
	s->arg = arg;
	s->done_task = (struct sc_task){ .run = stopped, .arg = s };
	rc = keep_options(s, options, err);
	if (rc == 0 && options->cert)
		rc = sc_server_tls_new(options, &s->tls, err);
	if (rc == 0) {
		s->scratch = sc_malloc(SC_CONN_SCRATCH);
		s->plain = sc_malloc(SC_CONN_SCRATCH);
		if (!s->scratch || !s->plain)
			rc = sc_err_nomem(err, "cannot start the server");
	}
	if (rc == 0)
		rc = sc_timer_new(loop, accept_again, s, &s->accept_timer, err);
	if (rc == 0)
		rc = sc_timer_new(loop, cut_all, s, &s->grace, err);
	if (rc == 0)
		rc = start(s, options, err);
	if (rc < 0) {
		sc_server_free(s);
		return rc;
	}
	*ret_server = s;
	return 0;
}

static void stop_listening(struct sc_server *s)
{
	for (size_t i = 0; s->listen_watches && i < s->listeners.count; i++) {
		sc_watch_free(s->listen_watches[i]);
		s->listen_watches[i] = NULL;
	}
	sc_listen_done(&s->listeners);
	if (s->accept_timer)
		sc_timer_stop(s->accept_timer);
}

void sc_server_free(struct sc_server *s)
{
	if (!s)
		return;
	s->done = NULL;
	stop_listening(s);
	while (s->conns) {
		struct sc_conn *c = s->conns;

		sc_conn_kill(c, 1001);
		sc_server_forget(c);
		sc_conn_free(c);
	}
	sc_task_cancel(&s->done_task);
	sc_timer_free(s->accept_timer);
	sc_timer_free(s->grace);
	sc_tls_context_free(s->tls);
	sc_inflate_free(s->inflate);
	for (size_t i = 0; i < s->text_count; i++)
		free(s->texts[i]);
	free(s->texts);
	free((void *)s->options.origins);
	free(s->listen_watches);
	free(s->accept_args);
	free(s->scratch);
	free(s->plain);
	free(s);
}

void sc_server_shutdown(struct sc_server *s, int code, const char *reason, int64_t grace_ms,
			void (*done)(void *arg), void *arg)
{
	s->stopping = true;
	s->done = done;
	s->done_arg = arg;
	stop_listening(s);
	for (struct sc_conn *c = s->conns; c; c = c->next) {
		if (c->state == SC_CONN_HEAD)
			sc_conn_kill(c, 1001);
		else
			sc_conn_close(c, code, sc_span_str(reason));
	}
	sc_timer_start(s->grace, grace_ms);
	if (!s->conns)
		sc_task_queue(s->loop, &s->done_task);
}

int sc_server_reload_tls(struct sc_server *s, struct sc_err *err)
{
	struct sc_tls_context *tls = NULL;
	int rc;

	if (!s->tls)
		return 0;
	rc = sc_server_tls_new(&s->options, &tls, err);
	if (rc < 0)
		return rc;
	/* Connections hold the old context by reference. */
	sc_tls_context_free(s->tls);
	s->tls = tls;
	return 0;
}

const char *sc_server_address(const struct sc_server *s, size_t index)
{
	return index < s->listeners.count ? s->listeners.sockets[index].name : NULL;
}

int sc_server_port(const struct sc_server *s)
{
	for (size_t i = 0; i < s->listeners.count; i++)
		if (s->listeners.sockets[i].port)
			return s->listeners.sockets[i].port;
	return 0;
}

int sc_server_tell(const struct sc_server *s, struct sc_span members, const char *about,
		   int ready_fd,
		   void (*say)(enum sc_level level, const char *fields, const char *format, ...),
		   struct sc_err *err)
{
	return sc_listen_tell(&s->listeners, members, about, ready_fd, say, err);
}

void sc_server_stats(const struct sc_server *s, struct sc_server_stats *ret)
{
	*ret = s->stats;
}
