/* http_output.c: what goes out, as much as the socket takes. */
#include <errno.h>
#include <sys/uio.h>

#include "durable/http_internal.h"

bool sc_ds_conn_flushed(const struct sc_ds_conn *conn)
{
	return conn->sent == conn->out.len + conn->out_body.len + conn->out_tail.len;
}

/* The parts that are left, each from where it goes on: how many. */
static size_t parts_left(const struct sc_ds_conn *conn, struct iovec ret_parts[3])
{
	const struct sc_span parts[3] = { sc_span(conn->out.data, conn->out.len), conn->out_body,
					  conn->out_tail };
	size_t skip = conn->sent, n = 0;

	for (size_t i = 0; i < 3; i++) {
		if (skip >= parts[i].len) {
			skip -= parts[i].len;
			continue;
		}
		ret_parts[n].iov_base = (char *)(uintptr_t)parts[i].data + skip;
		ret_parts[n++].iov_len = parts[i].len - skip;
		skip = 0;
	}
	return n;
}

static ssize_t send_parts(struct sc_ds_conn *conn)
{
	struct iovec parts[3];
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = parts_left(conn, parts) };

	if (conn->tls)
		return sc_tls_write(conn->tls, parts[0].iov_base, parts[0].iov_len, NULL);
	return sendmsg(conn->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

enum sc_ds_step sc_ds_conn_flush(struct sc_ds_conn *conn)
{
	while (!sc_ds_conn_flushed(conn)) {
		ssize_t n = send_parts(conn);

		if (n > 0) {
			conn->sent += (size_t)n;
			continue;
		}
		if (conn->tls)
			return n == SC_TLS_READ || n == SC_TLS_WRITE ? SC_DS_STOP : SC_DS_END;
		if (n < 0 && errno == EINTR)
			continue;
		return n < 0 && errno == EAGAIN ? SC_DS_STOP : SC_DS_END;
	}
	sc_bytes_clear(&conn->out);
	conn->out_body = conn->out_tail = (struct sc_span){ NULL, 0 };
	conn->sent = 0;
	return SC_DS_GO_ON;
}
