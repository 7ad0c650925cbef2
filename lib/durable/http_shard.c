/* http_shard.c: a thread with its epoll: notes, timers, sockets. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/thread.h"
#include "durable/http_internal.h"

#define EVENTS_MAX 128
#define LINGER_US 2000000
#define LINGERERS_MAX 1000

void sc_ds_shard_wake(struct sc_ds_shard *shard)
{
	uint64_t one = 1;

	/* a full counter wakes too */
	if (write(shard->wake_fd, &one, sizeof(one)) < 0)
		return;
}

void sc_ds_shard_note(struct sc_ds_shard *shard, struct sc_ds_note *note)
{
	struct sc_ds_note *old = atomic_load_explicit(&shard->notes, memory_order_relaxed);

	atomic_fetch_add(&shard->noting, 1);
	do
		note->next = old;
	while (!atomic_compare_exchange_weak_explicit(&shard->notes, &old, note,
						      memory_order_release, memory_order_relaxed));
	if (!old)
		sc_ds_shard_wake(shard);
	atomic_fetch_sub(&shard->noting, 1);
}

/* In the order in which they were left. */
static void take_notes(struct sc_ds_shard *shard)
{
	struct sc_ds_note *note = atomic_exchange_explicit(&shard->notes, NULL,
							   memory_order_acquire);
	struct sc_ds_note *first = NULL;

	while (note) {
		struct sc_ds_note *next = note->next;

		note->next = first;
		first = note;
		note = next;
	}
	while (first) {
		struct sc_ds_note *next = first->next;

		if (first->conn) {
			sc_ds_conn_noted(first->conn);
		} else {
			sc_ds_shard_take(shard, first->fd, first->peer);
			free(first);
		}
		first = next;
	}
}

static int add(struct sc_ds_shard *shard, int fd, uint32_t events, void *source, struct sc_err *err)
{
	struct epoll_event event = { .events = events, .data.ptr = source };

	if (epoll_ctl(shard->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		return sc_err_sys(err, SC_E_IO, errno, "cannot serve");
	return 0;
}

/* Lingering. */

void sc_ds_shard_linger(struct sc_ds_shard *shard, int fd)
{
	struct sc_ds_lingerer *l;

	if (fd < 0)
		return;
	l = shard->lingerer_count < LINGERERS_MAX ? sc_calloc(1, sizeof(*l)) : NULL;
	if (!l) {
		close(fd);
		return;
	}
	shutdown(fd, SHUT_WR);
	*l = (struct sc_ds_lingerer){ .source = SC_DS_LINGERER,
				      .fd = fd,
				      .until_us = sc_mono_us() + LINGER_US,
				      .next = shard->lingerers };
	if (add(shard, fd, EPOLLIN, l, NULL) < 0) {
		close(fd);
		free(l);
		return;
	}
	shard->lingerers = l;
	shard->lingerer_count++;
}

/* What came is thrown away; at its end so is the descriptor, with the others that are done. */
static void linger_on(struct sc_ds_lingerer *l)
{
	char waste[16384];
	ssize_t n = recv(l->fd, waste, sizeof(waste), MSG_DONTWAIT);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		l->until_us = 0;
}

/* ms until the next has waited long enough, -1: there is none. */
static int sweep_lingerers(struct sc_ds_shard *shard, int64_t now_us)
{
	struct sc_ds_lingerer **at = &shard->lingerers;
	int64_t soonest_us = SC_DS_NEVER;

	while (*at) {
		struct sc_ds_lingerer *l = *at;

		if (l->until_us > now_us && !atomic_load(&shard->http->at_once)) {
			if (l->until_us < soonest_us)
				soonest_us = l->until_us;
			at = &l->next;
			continue;
		}
		*at = l->next;
		close(l->fd);
		free(l);
		shard->lingerer_count--;
	}
	return soonest_us == SC_DS_NEVER ? -1 : (int)((soonest_us - now_us) / 1000) + 1;
}

/* The loop. */

static void handle(struct sc_ds_shard *shard, enum sc_ds_source *source, uint32_t events)
{
	uint64_t count;

	switch (*source) {
	case SC_DS_WAKE:
		if (read(shard->wake_fd, &count, sizeof(count)) < 0)
			break;
		break;
	case SC_DS_LISTENER:
		sc_ds_shard_accept(shard, (struct sc_ds_listener *)source);
		break;
	case SC_DS_CONN:
		sc_ds_conn_event((struct sc_ds_conn *)source, events);
		break;
	case SC_DS_LINGERER:
		linger_on((struct sc_ds_lingerer *)source);
		break;
	}
}

static int sooner(int a, int b)
{
	return a < 0 ? b : b < 0 || a < b ? a : b;
}

static int timeout_of(struct sc_ds_shard *shard)
{
	int ms = sc_ds_shard_timeout(shard);

	if (shard->lingerers)
		ms = sooner(ms, sweep_lingerers(shard, sc_mono_us()));
	if (shard->starved_us)
		ms = sooner(ms, 100);
	return ms;
}

/* Stopping: nobody new, and who asks for nothing goes. */
static void drain(struct sc_ds_shard *shard)
{
	struct sc_ds_conn *head = &shard->conns, *next;
	bool at_once = atomic_load(&shard->http->at_once);

	if (!shard->draining) {
		shard->draining = true;
		shard->starved_us = 0;
		(void)sc_ds_shard_listen(shard, false);
	}
	for (struct sc_ds_conn *c = head->next; c != head; c = next) {
		next = c->next;
		sc_ds_conn_drain(c, at_once);
	}
	/* those that are done: nothing would wake a shard that has nobody any more */
	(void)sweep_lingerers(shard, shard->now_us);
}

/* Those that have ended may still be waited for: the engine has their calls. */
static bool finished(struct sc_ds_shard *shard)
{
	return shard->draining && shard->conns.next == &shard->conns &&
	       (!shard->lingerers || atomic_load(&shard->http->at_once));
}

static void turn(struct sc_ds_shard *shard)
{
	struct epoll_event events[EVENTS_MAX];
	struct sc_ds_conn *conn;
	int n = epoll_wait(shard->epoll_fd, events, EVENTS_MAX, timeout_of(shard));

	shard->now_us = sc_mono_us();
	for (int i = 0; i < n; i++)
		handle(shard, events[i].data.ptr, events[i].events);
	take_notes(shard);
	while ((conn = sc_ds_shard_due(shard)))
		sc_ds_conn_timeout(conn);
	if (shard->starved_us && shard->now_us >= shard->starved_us) {
		shard->starved_us = 0;
		(void)sc_ds_shard_listen(shard, true);
	}
	if (atomic_load(&shard->http->stopping))
		drain(shard);
}

static void *run(void *arg)
{
	struct sc_ds_shard *shard = arg;

	pthread_setname_np(pthread_self(), "sc-http");
	while (!finished(shard))
		turn(shard);
	return NULL;
}

/* Opening and closing. */

int sc_ds_shard_open(struct sc_ds_http *http, struct sc_ds_shard *shard, struct sc_err *err)
{
	shard->http = http;
	shard->conns.prev = shard->conns.next = &shard->conns;
	shard->wake_source = SC_DS_WAKE;
	shard->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	shard->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (shard->wake_fd < 0 || shard->epoll_fd < 0)
		return sc_err_sys(err, SC_E_IO, errno, "cannot serve");
	shard->input = sc_malloc(SC_DS_INPUT_BYTES);
	if (!shard->input)
		return sc_err_nomem(err, "cannot serve");
	return add(shard, shard->wake_fd, EPOLLIN, &shard->wake_source, err);
}

int sc_ds_shard_start(struct sc_ds_shard *shard, struct sc_err *err)
{
	int e = sc_thread_start(&shard->thread, run, shard);

	if (e)
		return sc_err_sys(err, SC_E_NOMEM, e, "cannot start a thread");
	shard->started = true;
	return 0;
}

void sc_ds_shard_join(struct sc_ds_shard *shard)
{
	if (shard->started)
		pthread_join(shard->thread, NULL);
	shard->started = false;
}

void sc_ds_shard_close(struct sc_ds_shard *shard)
{
	if (!shard->http)
		return;
	/* the engine's writer goes on when we have gone */
	while (atomic_load(&shard->noting))
		sched_yield();
	take_notes(shard); /* sockets that nobody took */
	while (shard->conns.next && shard->conns.next != &shard->conns)
		sc_ds_conn_drain(shard->conns.next, true);
	while (shard->lingerers) {
		struct sc_ds_lingerer *l = shard->lingerers;

		shard->lingerers = l->next;
		close(l->fd);
		free(l);
	}
	if (shard->epoll_fd >= 0)
		close(shard->epoll_fd);
	if (shard->wake_fd >= 0)
		close(shard->wake_fd);
	for (size_t i = 0; shard->logs && i < shard->http->logs.count; i++)
		sc_log_close(shard->logs[i]);
	free(shard->logs);
	free(shard->listeners);
	sc_heap_done(&shard->timers);
	free(shard->input);
}
