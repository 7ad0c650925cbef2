/* net/dial.c: see net/dial.h. */
#include "net/dial.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "net/loop_internal.h"

#define ADDRESS_TEXT 128

/* Shared by the loop's thread and the helper's; the last one to let go frees it. */
struct lookup {
	pthread_mutex_t lock;
	int holders;
	struct sc_wake *wake; /* NULL once nobody waits */
	char host[256], port[8];
	bool ready;
	int result; /* EAI_ code */
	int errnum; /* with EAI_SYSTEM */
	struct addrinfo *list;
};

struct attempt {
	struct sc_dial *dial;
	int fd;
	struct sc_watch *watch;
};

struct sc_dial {
	struct sc_loop *loop;
	sc_dial_done *done;
	void *arg;
	sc_dial_allow *allow;
	void *allow_arg;
	char host[256];
	uint16_t port;
	struct lookup *lookup;
	struct sc_wake *wake;
	struct sc_timer *stagger;
	struct sc_task start;
	struct sockaddr_storage addresses[SC_DIAL_ADDRESSES_MAX];
	struct attempt attempts[SC_DIAL_ADDRESSES_MAX];
	size_t count, started, failed;
	struct sc_err last;
};

static sc_dial_resolver *test_resolver;

void sc_dial_set_resolver(sc_dial_resolver *resolver)
{
	test_resolver = resolver;
}

static void address_text(const struct sockaddr_storage *sa, char text[ADDRESS_TEXT])
{
	char host[NI_MAXHOST], port[NI_MAXSERV];

	if (sa->ss_family == AF_UNIX) {
		snprintf(text, ADDRESS_TEXT, "unix:%.110s",
			 ((const struct sockaddr_un *)sa)->sun_path);
	} else if (getnameinfo((const struct sockaddr *)sa, sizeof(*sa), host, sizeof(host), port,
			       sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) == 0) {
		snprintf(text, ADDRESS_TEXT,
			 sa->ss_family == AF_INET6 ? "[%.90s]:%.8s" : "%.90s:%.8s", host, port);
	} else {
		snprintf(text, ADDRESS_TEXT, "an address of family %d", sa->ss_family);
	}
}

static void lookup_drop(struct lookup *l)
{
	bool last;

	pthread_mutex_lock(&l->lock);
	last = --l->holders == 0;
	pthread_mutex_unlock(&l->lock);
	if (!last)
		return;
	if (l->list)
		freeaddrinfo(l->list);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

static void *lookup_thread(void *arg)
{
	struct lookup *l = arg;
	struct addrinfo hints = { .ai_family = AF_UNSPEC,
				  .ai_socktype = SOCK_STREAM,
				  .ai_flags = AI_NUMERICSERV };
	struct addrinfo *list = NULL;
	int rc = getaddrinfo(l->host, l->port, &hints, &list), e = errno;

	pthread_mutex_lock(&l->lock);
	l->result = rc;
	l->errnum = e;
	l->list = rc == 0 ? list : NULL;
	l->ready = true;
	if (l->wake)
		sc_wake_up(l->wake);
	pthread_mutex_unlock(&l->lock);
	lookup_drop(l);
	return NULL;
}

/* Families take turns, the resolver's first choice first (RFC 8305, 4). */
static void take_list(struct sc_dial *d, const struct addrinfo *list)
{
	int first = list->ai_family;
	const struct addrinfo *a = list, *b = list;

	for (bool turn_a = true; (a || b) && d->count < SC_DIAL_ADDRESSES_MAX; turn_a = !turn_a) {
		const struct addrinfo **from = turn_a ? &a : &b;

		while (*from && ((*from)->ai_family == first) != turn_a)
			*from = (*from)->ai_next;
		if (!*from)
			continue;
		if ((*from)->ai_addrlen <= sizeof(d->addresses[0]))
			memcpy(&d->addresses[d->count++], (*from)->ai_addr, (*from)->ai_addrlen);
		*from = (*from)->ai_next;
	}
}

/* The callback may free d, and with it the error that it holds: a copy is told. */
static void finish(struct sc_dial *d, int fd, const char *address, const struct sc_err *err)
{
	struct sc_err told;

	sc_err_clear(&told);
	if (err)
		told = *err;
	d->done(d->arg, fd, address, &told);
}

static void attempts_close(struct sc_dial *d)
{
	for (size_t i = 0; i < d->started; i++) {
		sc_watch_free(d->attempts[i].watch);
		d->attempts[i].watch = NULL;
		sc_close(&d->attempts[i].fd);
	}
}

static void next_attempt(struct sc_dial *d);

static void attempt_failed(struct sc_dial *d, size_t i, int errnum)
{
	char text[ADDRESS_TEXT];

	sc_watch_free(d->attempts[i].watch);
	d->attempts[i].watch = NULL;
	sc_close(&d->attempts[i].fd);
	address_text(&d->addresses[i], text);
	sc_err_set(&d->last, SC_E_UNAVAILABLE, "cannot connect to",
		   d->count > 1 ? "%s (the last of %zu addresses)" : "%s", strerror(errnum),
		   d->count);
	sc_err_on(&d->last, "address", text);
	d->last.errnum = errnum;
	d->failed++;
}

static void attempt_won(struct sc_dial *d, size_t i)
{
	char text[ADDRESS_TEXT];
	int fd = d->attempts[i].fd;

	sc_watch_free(d->attempts[i].watch);
	d->attempts[i].watch = NULL;
	d->attempts[i].fd = -1;
	attempts_close(d);
	sc_timer_stop(d->stagger);
	address_text(&d->addresses[i], text);
	finish(d, fd, text, NULL);
}

static void attempt_ready(void *arg, int events)
{
	struct attempt *a = arg;
	struct sc_dial *d = a->dial;
	size_t i = (size_t)(a - d->attempts);
	socklen_t len = sizeof(int);
	int e = 0;

	(void)events;
	if (getsockopt(a->fd, SOL_SOCKET, SO_ERROR, &e, &len) < 0)
		e = errno;
	if (e == 0) {
		attempt_won(d, i);
		return;
	}
	attempt_failed(d, i, e);
	next_attempt(d);
}

/* 0 under way, 1 connected at once, or -errno. */
static int attempt_start(struct sc_dial *d, size_t i)
{
	struct sockaddr_storage *sa = &d->addresses[i];
	struct attempt *a = &d->attempts[i];
	socklen_t len = sa->ss_family == AF_UNIX    ? sizeof(struct sockaddr_un)
			: sa->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
						    : sizeof(struct sockaddr_in);
	int one = 1, rc;

	a->dial = d;
	a->fd = socket(sa->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (a->fd < 0)
		return -errno;
	if (sa->ss_family != AF_UNIX) { /* helpful, not needed */
		(void)setsockopt(a->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		(void)setsockopt(a->fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	}
	do
		rc = connect(a->fd, (struct sockaddr *)sa, len);
	while (rc < 0 && errno == EINTR);
	if (rc == 0)
		return 1;
	if (errno != EINPROGRESS)
		return -errno;
	rc = sc_watch_new(d->loop, a->fd, SC_WRITABLE, attempt_ready, a, &a->watch, NULL);
	return rc < 0 ? -ENOMEM : 0;
}

/* Start the next address, or say that none is left. The last thing that a caller does. */
static void next_attempt(struct sc_dial *d)
{
	sc_timer_stop(d->stagger);
	while (d->started < d->count) {
		size_t i = d->started++;
		int rc = attempt_start(d, i);

		if (rc > 0) {
			attempt_won(d, i);
			return;
		}
		if (rc == 0) {
			if (d->started < d->count)
				sc_timer_start(d->stagger, SC_DIAL_STAGGER_MS);
			return;
		}
		attempt_failed(d, i, -rc);
	}
	if (d->failed == d->count)
		finish(d, -1, NULL, &d->last);
}

static void stagger_due(void *arg)
{
	next_attempt(arg);
}

/* Those that may not be tried go. */
static void keep_allowed(struct sc_dial *d)
{
	size_t kept = 0;

	for (size_t i = 0; i < d->count; i++)
		if (d->allow(d->allow_arg, (const struct sockaddr *)&d->addresses[i]))
			d->addresses[kept++] = d->addresses[i];
	if (d->count && !kept) {
		sc_err_set(&d->last, SC_E_NOAUTH, "cannot connect to",
			   "its addresses are none that may be used here");
		sc_err_on(&d->last, "host", d->host);
	}
	d->count = kept;
}

static void start_task(void *arg)
{
	struct sc_dial *d = arg;

	if (d->allow)
		keep_allowed(d);
	if (d->count == 0)
		finish(d, -1, NULL, &d->last);
	else
		next_attempt(d);
}

static void looked_up(void *arg)
{
	struct sc_dial *d = arg;
	struct lookup *l = d->lookup;
	bool ready;

	if (!l)
		return;
	pthread_mutex_lock(&l->lock);
	ready = l->ready;
	pthread_mutex_unlock(&l->lock);
	if (!ready)
		return;
	if (l->result == 0) {
		take_list(d, l->list);
	} else {
		sc_err_set(&d->last, SC_E_UNAVAILABLE, "cannot look up", "%s",
			   l->result == EAI_SYSTEM ? strerror(l->errnum) : gai_strerror(l->result));
		sc_err_on(&d->last, "host", d->host);
		sc_err_next(&d->last, "check the name, and that this machine can look it up");
	}
	d->lookup = NULL;
	lookup_drop(l);
	start_task(d);
}

static int lookup_begin(struct sc_dial *d, struct sc_err *err)
{
	struct lookup *l = sc_calloc(1, sizeof(*l));
	pthread_t thread;
	pthread_attr_t attr;
	sigset_t all, before;
	int rc;

	if (!l)
		return sc_err_nomem(err, "cannot look up a name");
	rc = sc_wake_new(d->loop, looked_up, d, &d->wake, err);
	if (rc < 0) {
		free(l);
		return rc;
	}
	pthread_mutex_init(&l->lock, NULL);
	l->holders = 2;
	l->wake = d->wake;
	memcpy(l->host, d->host, sizeof(l->host));
	snprintf(l->port, sizeof(l->port), "%u", d->port);
	d->lookup = l;
	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the loop's */
	rc = pthread_create(&thread, &attr, lookup_thread, l);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (rc != 0) {
		l->holders = 1;
		return sc_err_sys(err, SC_E_UNAVAILABLE, rc,
				  "cannot start a thread to look up a name");
	}
	return 0;
}

/* Addresses that need no look-up. */
static bool take_literal(struct sc_dial *d, const char *socket)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC,
				  .ai_socktype = SOCK_STREAM,
				  .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV };
	struct addrinfo *list = NULL;
	char port[8];
	int n;

	if (socket) {
		struct sockaddr_un *un = (struct sockaddr_un *)&d->addresses[0];

		un->sun_family = AF_UNIX;
		snprintf(un->sun_path, sizeof(un->sun_path), "%s", socket);
		d->count = 1;
		return true;
	}
	snprintf(port, sizeof(port), "%u", d->port);
	if (getaddrinfo(d->host, port, &hints, &list) == 0) {
		take_list(d, list);
		freeaddrinfo(list);
		return true;
	}
	if (!test_resolver)
		return false;
	n = test_resolver(d->host, d->port, d->addresses, SC_DIAL_ADDRESSES_MAX);
	d->count = n > 0 ? (size_t)n : 0;
	if (n <= 0) {
		sc_err_set(&d->last, SC_E_UNAVAILABLE, "cannot look up", "it is not known");
		sc_err_on(&d->last, "host", d->host);
	}
	return true;
}

int sc_dial_new(struct sc_loop *loop, const char *host, uint16_t port, const char *socket,
		sc_dial_done *done, void *arg, struct sc_dial **ret_dial, struct sc_err *err)
{
	struct sc_dial *d;
	int rc;

	if (strlen(host) >= sizeof(d->host))
		return sc_err_set(err, SC_E_UNAVAILABLE, "cannot look up the host",
				  "its name is longer than 255 bytes");
	d = sc_calloc(1, sizeof(*d));
	if (!d)
		return sc_err_nomem(err, "cannot connect");
	d->loop = loop;
	d->done = done;
	d->arg = arg;
	d->port = port;
	d->start = (struct sc_task){ .run = start_task, .arg = d };
	memcpy(d->host, host, strlen(host) + 1);
	for (size_t i = 0; i < SC_DIAL_ADDRESSES_MAX; i++)
		d->attempts[i].fd = -1;
	rc = sc_timer_new(loop, stagger_due, d, &d->stagger, err);
	if (rc < 0)
		goto out;
	if (take_literal(d, socket))
		sc_task_queue(loop, &d->start);
	else
		rc = lookup_begin(d, err);
	if (rc < 0)
		goto out;
	*ret_dial = d;
	return 0;
out:
	sc_dial_free(d);
	return rc;
}

void sc_dial_only(struct sc_dial *d, sc_dial_allow *allow, void *arg)
{
	d->allow = allow;
	d->allow_arg = arg;
}

void sc_dial_free(struct sc_dial *d)
{
	if (!d)
		return;
	attempts_close(d);
	sc_task_cancel(&d->start);
	if (d->lookup) {
		pthread_mutex_lock(&d->lookup->lock);
		d->lookup->wake = NULL;
		pthread_mutex_unlock(&d->lookup->lock);
		lookup_drop(d->lookup);
	}
	sc_wake_free(d->wake);
	sc_timer_free(d->stagger);
	free(d);
}
