/* http_output.c: what goes out, as much as the socket takes. */
#include <errno.h>
#include <sys/uio.h>

#include "durable/http_internal.h"

#define LENT_SENDS_MAX 16 /* of one answer, before others get their turn */

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

static ssize_t send_lent(struct sc_ds_conn *conn, const struct sc_ds_loan *loan)
{
	struct iovec parts[1 + SC_DS_LOAN_PARTS];
	struct msghdr message = { .msg_iov = parts };
	size_t skip = conn->sent;

	for (size_t i = 0; i <= loan->count; i++) {
		struct iovec part = i ? loan->parts[i - 1]
				      : (struct iovec){ conn->out.data, conn->out.len };

		if (skip >= part.iov_len) {
			skip -= part.iov_len;
			continue;
		}
		parts[message.msg_iovlen].iov_base = (char *)part.iov_base + skip;
		parts[message.msg_iovlen++].iov_len = part.iov_len - skip;
		skip = 0;
	}
	return sendmsg(conn->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* What the socket does not take now is copied: a slow reader holds nothing of the store. */
enum sc_ds_step sc_ds_conn_send_loan(struct sc_ds_conn *conn)
{
	struct sc_ds_answer *answer = &conn->call.answer;
	struct sc_ds_loan *loan = &conn->shard->loan;
	size_t whole = conn->out.len + loan->bytes, body;
	int rc = 0;

	for (int turns = 0; rc == 0 && turns < LENT_SENDS_MAX && conn->sent < whole; turns++) {
		ssize_t n = send_lent(conn, loan);

		if (n > 0)
			conn->sent += (size_t)n;
		else if (n == 0 || errno != EINTR)
			rc = n < 0 && errno == EAGAIN ? 1 : -1;
	}
	body = conn->sent > conn->out.len ? conn->sent - conn->out.len : 0;
	/* of one that has left, or whose pages cannot be read, nothing is copied */
	if (sc_ds_loan_end(loan, rc < 0 ? loan->bytes : body, answer) < 0 || rc < 0)
		return SC_DS_END;
	sc_ds_conn_charge(conn);
	conn->out_body = sc_span(answer->body.data, answer->body.len);
	if (conn->sent < conn->out.len)
		return SC_DS_GO_ON;
	sc_bytes_clear(&conn->out);
	conn->sent = 0;
	return SC_DS_GO_ON;
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
