/* http_conn.c: the life of a connection. */
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "durable/http_internal.h"

#define IN_MAX (16384 + 2 * SC_DS_INPUT_BYTES)
#define OUT_MAX (1u << 20)
#define TURNS_MAX 32 /* requests of one connection, before others get their turn */

int sc_ds_conn_open(struct sc_ds_shard *shard, int fd, struct sc_ds_peer peer)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET };
	struct sc_ds_http *http = shard->http;
	struct sc_ds_conn *conn = sc_calloc(1, sizeof(*conn));
	int rc = 0;

	if (!conn)
		return SC_E_NOMEM;
	*conn = (struct sc_ds_conn){ .source = SC_DS_CONN,
				     .shard = shard,
				     .fd = fd,
				     .peer = peer,
				     .phase = SC_DS_AT_HEAD,
				     .due_us = SC_DS_NEVER,
				     .note.conn = conn };
	if (http->o.cert) {
		conn->phase = SC_DS_AT_HANDSHAKE;
		pthread_rwlock_rdlock(&http->tls_lock);
		rc = sc_tls_accept(http->tls, fd, &conn->tls, NULL);
		pthread_rwlock_unlock(&http->tls_lock);
	}
	event.data.ptr = conn;
	if (rc < 0 || epoll_ctl(shard->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
		sc_tls_free(conn->tls);
		free(conn);
		return SC_E_NOMEM;
	}
	sc_bytes_init(&conn->in, IN_MAX);
	sc_bytes_init(&conn->out, OUT_MAX);
	sc_bytes_init(&conn->text, IN_MAX);
	sc_bytes_init(&conn->scratch, IN_MAX);
	sc_bytes_init(&conn->location, IN_MAX);
	sc_bytes_init(&conn->body, http->o.body_max + 1);
	sc_ds_answer_init(&conn->call.answer);
	conn->next = &shard->conns;
	conn->prev = shard->conns.prev;
	conn->prev->next = conn->next->prev = conn;
	sc_ds_conn_due(conn, sc_mono_us() + http->o.head_ms * 1000);
	return 0;
}

static void free_conn(struct sc_ds_conn *conn)
{
	struct sc_ds_shard *shard = conn->shard;

	conn->prev->next = conn->next;
	conn->next->prev = conn->prev;
	atomic_fetch_sub(&shard->conn_count, 1);
	sc_bytes_done(&conn->in);
	sc_bytes_done(&conn->out);
	sc_bytes_done(&conn->text);
	sc_bytes_done(&conn->scratch);
	sc_bytes_done(&conn->location);
	sc_bytes_done(&conn->body);
	sc_ds_answer_done(&conn->call.answer);
	free(conn);
}

/* Of a wait: nobody wakes it, and it is counted no more. */
static void wait_is_over(struct sc_ds_conn *conn)
{
	atomic_fetch_sub(&conn->shard->http->waiting[conn->phase == SC_DS_AT_EVENTS], 1);
	conn->waiting = false;
	conn->resumed = true;
	sc_ds_conn_due(conn, SC_DS_NEVER);
}

/* Its socket goes at once, its memory when nobody can leave a note about it any more. */
static void end(struct sc_ds_conn *conn)
{
	struct sc_ds_shard *shard = conn->shard;
	bool answered = conn->phase == SC_DS_AT_SENDING && sc_ds_conn_flushed(conn);
	bool asked = conn->phase == SC_DS_AT_WRITING;

	if (conn->waiting) {
		sc_ds_conn_unwait(conn);
		wait_is_over(conn);
	}
	if (conn->phase > SC_DS_AT_HEAD)
		sc_ds_count(conn);
	sc_ds_conn_forget(conn);
	sc_tls_end(conn->tls);
	sc_tls_free(conn->tls);
	conn->tls = NULL;
	(void)epoll_ctl(shard->epoll_fd, EPOLL_CTL_DEL, conn->fd, NULL);
	/* a peer that has more to say must hear the answer first: a reset would swallow it */
	if (answered && !conn->hung_up)
		sc_ds_shard_linger(shard, conn->fd);
	else
		close(conn->fd);
	conn->fd = -1;
	atomic_fetch_sub(&shard->http->clients, 1);
	sc_ds_peers_leave(&shard->http->peers, conn->peer);
	conn->doomed = true;
	if (asked || atomic_load(&conn->noted))
		return;
	sc_ds_conn_forget_request(conn);
	free_conn(conn);
}

/* Others get their turn. Only where no other note is due: while it neither waits nor writes. */
static enum sc_ds_step yield(struct sc_ds_conn *conn)
{
	atomic_store(&conn->noted, true);
	sc_ds_shard_note(conn->shard, &conn->note);
	return SC_DS_STOP;
}

/* The answer has been sent. */
static enum sc_ds_step finish(struct sc_ds_conn *conn)
{
	struct sc_ds_http *http = conn->shard->http;

	if (conn->close_after)
		return SC_DS_END;
	sc_ds_count(conn);
	sc_ds_conn_forget_request(conn);
	conn->phase = SC_DS_AT_HEAD;
	if (atomic_load(&http->stopping) && conn->in.len == 0)
		return SC_DS_END;
	sc_ds_conn_due(conn, sc_mono_us() + http->o.idle_ms * 1000);
	return ++conn->turns < TURNS_MAX ? SC_DS_GO_ON : yield(conn);
}

static enum sc_ds_step send_events(struct sc_ds_conn *conn)
{
	enum sc_ds_step next = conn->waiting ? SC_DS_STOP : sc_ds_conn_flush(conn);

	if (next != SC_DS_GO_ON)
		return next;
	return ++conn->turns < TURNS_MAX ? sc_ds_conn_more_events(conn) : yield(conn);
}

static enum sc_ds_step step(struct sc_ds_conn *conn)
{
	enum sc_ds_step next;

	switch (conn->phase) {
	case SC_DS_AT_HANDSHAKE:
		return sc_ds_conn_handshake(conn);
	case SC_DS_AT_HEAD:
		return sc_ds_conn_read_head(conn);
	case SC_DS_AT_BODY:
		return sc_ds_conn_read_body(conn);
	case SC_DS_AT_SENDING:
		next = sc_ds_conn_flush(conn);
		return next == SC_DS_GO_ON ? finish(conn) : next;
	case SC_DS_AT_EVENTS:
		return send_events(conn);
	default:
		return SC_DS_STOP;
	}
}

static void run(struct sc_ds_conn *conn, enum sc_ds_step next)
{
	while (next == SC_DS_GO_ON)
		next = step(conn);
	if (next == SC_DS_END)
		end(conn);
}

void sc_ds_conn_event(struct sc_ds_conn *conn, uint32_t events)
{
	if (conn->doomed)
		return;
	conn->turns = 0;
	if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		conn->readable = true;
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		conn->hung_up = true;
	if (atomic_load(&conn->noted))
		return; /* it runs in this turn of the shard anyway */
	if (conn->waiting && conn->hung_up)
		end(conn); /* who waits for nobody frees the place */
	else
		run(conn, SC_DS_GO_ON);
}

void sc_ds_conn_noted(struct sc_ds_conn *conn)
{
	enum sc_ds_step next = SC_DS_GO_ON;

	atomic_store(&conn->noted, false);
	if (conn->doomed) {
		sc_ds_conn_forget_request(conn);
		free_conn(conn);
		return;
	}
	conn->turns = 0;
	if (conn->waiting) {
		sc_ds_conn_unwait(conn);
		wait_is_over(conn);
		next = sc_ds_conn_again(conn);
	} else if (conn->phase == SC_DS_AT_WRITING) {
		next = sc_ds_conn_again(conn);
	}
	run(conn, next);
}

void sc_ds_conn_timeout(struct sc_ds_conn *conn)
{
	if (!conn->waiting) {
		end(conn);
		return;
	}
	conn->over = true;
	sc_ds_conn_unwait(conn);
	if (atomic_load(&conn->noted))
		return; /* a note is on its way, and does the rest */
	wait_is_over(conn);
	conn->turns = 0;
	run(conn, sc_ds_conn_again(conn));
}

void sc_ds_conn_drain(struct sc_ds_conn *conn, bool at_once)
{
	bool idle = conn->phase <= SC_DS_AT_HEAD && conn->in.len == 0;

	if (!conn->doomed && (at_once || idle))
		end(conn);
}
