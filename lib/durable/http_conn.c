/* http_conn.c: what the library tells of connections and requests. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "durable/http_internal.h"

#define POOL_BYTES 32768 /* of the library, a connection: the head and what is being read */
#define TARGET_MAX (POOL_BYTES)
#define BODY_RATE 65536 /* bytes a second: the least a sender must give */

static struct sc_ds_conn *conn_of(struct MHD_Connection *mhd)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(
		mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

/* Notes, timers, hang-ups: what ends a wait. */

static void resume(struct sc_ds_conn *conn)
{
	if (!conn->suspended)
		return;
	conn->suspended = false;
	MHD_resume_connection(conn->mhd);
}

static bool waits(const struct sc_ds_conn *conn)
{
	return conn->suspended && (conn->phase == SC_DS_AT_POLLING || conn->phase == SC_DS_AT_EVENTS);
}

/* A wait that was counted is over. */
static void stop_waiting(struct sc_ds_conn *conn)
{
	atomic_fetch_sub(&conn->shard->http->waiting[conn->phase == SC_DS_AT_EVENTS], 1);
	sc_ds_conn_due(conn, SC_DS_NEVER);
	conn->resumed = true;
	resume(conn);
}

void sc_ds_conn_noted(struct sc_ds_conn *conn)
{
	atomic_store(&conn->noted, false);
	if (waits(conn))
		stop_waiting(conn);
	else
		resume(conn);
}

/* Nobody wakes it any more. A note that is on its way does the rest. */
static void end_wait(struct sc_ds_conn *conn)
{
	struct sc_ds_http *http = conn->shard->http;

	if (conn->route == SC_DS_ROUTE_LOG)
		sc_ds_logs_unwait(&http->logs, &conn->log_wait);
	else
		sc_ds_unwait(http->ds, &conn->waiter);
	if (!atomic_load(&conn->noted))
		stop_waiting(conn);
}

void sc_ds_conn_timeout(struct sc_ds_conn *conn)
{
	if (waits(conn)) {
		conn->over = true;
		end_wait(conn);
	} else if (!conn->suspended) {
		shutdown(conn->fd, SHUT_RDWR);
	}
}

void sc_ds_conn_hung_up(struct sc_ds_conn *conn)
{
	conn->hung_up = true;
	if (waits(conn))
		end_wait(conn);
}

/* Connections. */

static void init_conn(struct sc_ds_conn *conn, struct sc_ds_shard *shard,
		      struct MHD_Connection *mhd)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(
		mhd, MHD_CONNECTION_INFO_CONNECTION_FD);

	conn->source = SC_DS_CONN;
	conn->shard = shard;
	conn->mhd = mhd;
	conn->fd = info ? info->connect_fd : -1;
	conn->peer = shard->entering;
	conn->heap_at = SIZE_MAX;
	conn->due_us = SC_DS_NEVER;
	conn->note.conn = conn;
	sc_bytes_init(&conn->target, TARGET_MAX);
	sc_bytes_init(&conn->scratch, 2 * TARGET_MAX);
	sc_bytes_init(&conn->location, 2 * TARGET_MAX);
	sc_bytes_init(&conn->body, shard->http->o.body_max + 1);
	sc_ds_answer_init(&conn->call.answer);
	conn->next = &shard->conns;
	conn->prev = shard->conns.prev;
	conn->prev->next = conn->next->prev = conn;
	sc_ds_conn_due(conn, sc_mono_us() + shard->http->o.head_ms * 1000);
}

static void free_conn(struct sc_ds_conn *conn)
{
	struct sc_ds_shard *shard = conn->shard;

	sc_ds_conn_forget_request(conn);
	sc_ds_conn_forget(conn);
	conn->prev->next = conn->next;
	conn->next->prev = conn->prev;
	if (conn->watched)
		(void)epoll_ctl(shard->epoll_fd, EPOLL_CTL_DEL, conn->fd, NULL);
	if (conn->linger)
		sc_ds_shard_linger(shard, fcntl(conn->fd, F_DUPFD_CLOEXEC, 3));
	atomic_fetch_sub(&shard->conn_count, 1);
	atomic_fetch_sub(&shard->http->clients, 1);
	sc_ds_peers_leave(&shard->http->peers, conn->peer);
	sc_bytes_done(&conn->target);
	sc_bytes_done(&conn->scratch);
	sc_bytes_done(&conn->location);
	sc_bytes_done(&conn->body);
	sc_ds_answer_done(&conn->call.answer);
	free(conn);
}

static void on_connection(void *cls, struct MHD_Connection *mhd, void **context,
			  enum MHD_ConnectionNotificationCode what)
{
	struct sc_ds_shard *shard = cls;
	struct sc_ds_conn *conn = *context;

	if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
		if (conn)
			free_conn(conn);
		*context = NULL;
		return;
	}
	conn = sc_calloc(1, sizeof(*conn));
	if (!conn)
		return; /* its requests are refused, and sc_ds_shard_take lets it go */
	init_conn(conn, shard, mhd);
	shard->entered = true;
	*context = conn;
}

/* Requests. */

static void *on_target(void *cls, const char *target, struct MHD_Connection *mhd)
{
	struct sc_ds_shard *shard = cls;
	struct sc_ds_conn *conn = conn_of(mhd);

	if (!conn)
		return NULL;
	conn->phase = SC_DS_AT_HEAD;
	conn->started_us = sc_mono_us();
	sc_ds_conn_due(conn, conn->started_us + shard->http->o.head_ms * 1000);
	sc_ds_conn_target(conn, target);
	return conn;
}

/* How long LEN bytes may take, at the least rate that is borne. */
static int64_t patience_us(const struct sc_ds_conn *conn, uint64_t len)
{
	return conn->shard->http->o.idle_ms * 1000 + (int64_t)(len / BODY_RATE) * 1000000;
}

static enum MHD_Result begin(struct sc_ds_conn *conn, const char *url, const char *method,
			     const char *version)
{
	uint64_t len = conn->declared;
	bool body;

	sc_ds_conn_head(conn, url, method, version);
	len = conn->chunked ? conn->shard->http->o.body_max : conn->declared;
	body = conn->chunked || conn->declared > 0;
	conn->phase = SC_DS_AT_BODY;
	sc_ds_conn_due(conn, conn->started_us + patience_us(conn, len));
	/* An answer at this point ends the connection: only where the body is not worth reading. */
	return body && !sc_ds_conn_body_fits(conn) ? sc_ds_conn_reply(conn) : MHD_YES;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *mhd, const char *url,
				  const char *method, const char *version, const char *data,
				  size_t *len, void **context)
{
	struct sc_ds_conn *conn = *context;

	(void)cls;
	(void)mhd;
	if (!conn)
		return MHD_NO;
	conn->shard->now_us = sc_mono_us();
	if (conn->phase == SC_DS_AT_HEAD)
		return begin(conn, url, method, version);
	if (conn->phase == SC_DS_AT_BODY && *len > 0) {
		if (!sc_ds_conn_body(conn, data, *len))
			return MHD_NO;
		*len = 0;
		return MHD_YES;
	}
	return conn->phase == SC_DS_AT_BODY ? sc_ds_conn_work(conn) : sc_ds_conn_again(conn);
}

static void on_completed(void *cls, struct MHD_Connection *mhd, void **context,
			 enum MHD_RequestTerminationCode how)
{
	struct sc_ds_conn *conn = conn_of(mhd);

	(void)cls;
	(void)context;
	(void)how;
	if (!conn)
		return;
	if (conn->phase != SC_DS_AT_IDLE && conn->phase != SC_DS_AT_HEAD)
		sc_ds_count(conn);
	sc_ds_conn_forget_request(conn);
	conn->phase = SC_DS_AT_IDLE;
	sc_ds_conn_due(conn, sc_mono_us() + conn->shard->http->o.idle_ms * 1000);
}

static size_t as_it_is(void *cls, struct MHD_Connection *mhd, char *text)
{
	(void)cls;
	(void)mhd;
	return strlen(text);
}

int sc_ds_daemon_start(struct sc_ds_shard *shard, struct sc_err *err)
{
	const struct sc_ds_http *http = shard->http;
	/* Without the library's own wake-up: all that resumes runs in the daemon's thread. */
	unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET |
			 ((unsigned)MHD_ALLOW_SUSPEND_RESUME & ~(unsigned)MHD_USE_ITC);
	struct MHD_OptionItem tls[] = {
		{ MHD_OPTION_HTTPS_MEM_CERT, 0, http->cert },
		{ MHD_OPTION_HTTPS_MEM_KEY, 0, http->key },
		{ MHD_OPTION_HTTPS_PRIORITIES, 0,
		  (char *)(uintptr_t) "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2" },
		{ MHD_OPTION_END, 0, NULL },
	};

	if (http->cert)
		flags |= MHD_USE_TLS;
	shard->daemon = MHD_start_daemon(
		flags, 0, NULL, NULL, on_request, shard, MHD_OPTION_NOTIFY_CONNECTION,
		on_connection, shard, MHD_OPTION_NOTIFY_COMPLETED, on_completed, shard,
		MHD_OPTION_URI_LOG_CALLBACK, on_target, shard, MHD_OPTION_UNESCAPE_CALLBACK,
		as_it_is, NULL, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES,
		MHD_OPTION_CONNECTION_LIMIT, 1000000u, MHD_OPTION_CONNECTION_TIMEOUT, 0u,
		http->cert ? MHD_OPTION_ARRAY : MHD_OPTION_END, tls, MHD_OPTION_END);
	if (shard->daemon)
		return 0;
	if (http->cert) {
		sc_err_set(err, SC_E_CONFIG, "cannot speak TLS",
			   "the certificate or its key cannot be used");
		return sc_err_next(err, "give PEM files that belong together");
	}
	return sc_err_set(err, SC_E_NOMEM, "cannot serve", "the HTTP library does not start");
}
