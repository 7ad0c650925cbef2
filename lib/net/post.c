/* net/post.c: see net/post.h. */
#include "net/post.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "net/chunks.h"
#include "net/httphead.h"
#include "net/loop_internal.h"

#define READ_BYTES 16384
#define READS_A_TURN 16 /* then others have theirs, and the limit of time */
#define OUT_MAX (1u << 30)

enum framing { BY_END, BY_LENGTH, BY_CHUNKS };

struct sc_post {
	struct sc_loop *loop;
	sc_post_done *done;
	void *arg;
	struct sc_dial *dial;
	struct sc_timer *timer;
	struct sc_task again; /* what is there is read on */
	struct sc_watch *watch;
	struct sc_tls_context *context;
	struct sc_tls *tls;
	int fd;
	char *host;
	bool secure, shaken, told;
	struct sc_bytes out; /* head and body of the request */
	size_t sent;
	struct sc_bytes in; /* the answer's head, until it is whole */
	bool has_head;
	int status;
	enum framing framing;
	uint64_t left; /* BY_LENGTH */
	struct sc_chunks chunks;
	struct sc_bytes body;
	size_t body_max;
	bool cut;
};

/* The last thing that a caller does: the post may be gone then. */
static void finish(struct sc_post *p, const struct sc_err *err)
{
	struct sc_post_answer answer = { .status = p->status,
					 .body = sc_span(p->body.data, p->body.len),
					 .cut = p->cut };
	struct sc_err told;

	if (p->told)
		return;
	p->told = true;
	sc_err_clear(&told);
	if (err)
		told = *err;
	sc_timer_stop(p->timer);
	sc_task_cancel(&p->again);
	sc_watch_free(p->watch);
	p->watch = NULL;
	if (p->tls && !err)
		sc_tls_end(p->tls);
	p->done(p->arg, err ? NULL : &answer, &told);
}

static void fail(struct sc_post *p, const char *why)
{
	struct sc_err err;

	sc_err_set(&err, SC_E_PROTOCOL, "cannot read the answer of", "%s", why);
	sc_err_on(&err, "host", p->host);
	finish(p, &err);
}

static void is_late(void *arg)
{
	struct sc_post *p = arg;
	struct sc_err err;

	sc_err_set(&err, SC_E_TIMEOUT, "cannot reach", "there was no whole answer in time");
	sc_err_on(&err, "host", p->host);
	finish(p, &err);
}

/* Bytes, 0 at the end, SC_TLS_READ or SC_TLS_WRITE, or a failure. */
static ssize_t receive(struct sc_post *p, char *data, size_t size, struct sc_err *err)
{
	ssize_t n;

	if (p->tls)
		return sc_tls_read(p->tls, data, size, err);
	n = recv(p->fd, data, size, 0);
	if (n >= 0)
		return n;
	if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
		return SC_TLS_READ;
	return sc_err_sys(err, SC_E_UNAVAILABLE, errno, "cannot read the answer");
}

static ssize_t transmit(struct sc_post *p, struct sc_err *err)
{
	const char *data = p->out.data + p->sent;
	size_t len = p->out.len - p->sent;
	ssize_t n;

	if (p->tls)
		return sc_tls_write(p->tls, data, len, err);
	n = send(p->fd, data, len, MSG_NOSIGNAL);
	if (n >= 0)
		return n;
	if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
		return SC_TLS_WRITE;
	return sc_err_sys(err, SC_E_UNAVAILABLE, errno, "cannot send the request");
}

/* How the body ends. false: it cannot be told. */
static bool take_framing(struct sc_post *p, const struct sc_httphead *head)
{
	struct sc_span value, other;

	if (sc_httphead_find(head, "Transfer-Encoding", 0, &value)) {
		p->framing = BY_CHUNKS;
		return value.len == 7 && sc_httphead_has(head, "Transfer-Encoding", "chunked");
	}
	if (p->status == 204 || p->status == 304) {
		p->framing = BY_LENGTH;
		return true;
	}
	if (!sc_httphead_find(head, "Content-Length", 0, &value))
		return true;
	p->framing = BY_LENGTH;
	return !sc_httphead_find(head, "Content-Length", 1, &other) &&
	       sc_u64_parse(value, &p->left);
}

/* 1: the head is there, and what is behind it is at the front of `in`; 0: not yet; -1: told. */
static int take_head(struct sc_post *p)
{
	struct sc_httphead head;
	struct sc_err err;
	int64_t len;

	for (;;) {
		len = sc_httphead_parse(p->in.data, p->in.len, SC_POST_HEAD_MAX, &head, &err);
		if (len < 0) {
			sc_err_on(&err, "host", p->host);
			finish(p, &err);
			return -1;
		}
		if (len == 0)
			return 0;
		p->status = head.status;
		if (head.status >= 200)
			break;
		if (head.status == 101) {
			fail(p, "it speaks another protocol");
			return -1;
		}
		sc_bytes_drop(&p->in, (size_t)len); /* an interim answer */
	}
	p->has_head = true;
	if (!take_framing(p, &head)) {
		fail(p, "where its body ends cannot be told");
		return -1;
	}
	sc_bytes_drop(&p->in, (size_t)len);
	return 1;
}

/* What fits. false: the answer is at its limit. */
static bool keep(struct sc_post *p, struct sc_span data)
{
	size_t room = p->body_max - p->body.len, len = data.len < room ? data.len : room;
	int rc = sc_bytes_put(&p->body, data.data, len);

	p->cut = rc < 0 || len < data.len;
	return !p->cut;
}

/* 1: the answer is whole (or cut); 0: more; -1: its chunks are broken. */
static int take_body(struct sc_post *p, struct sc_span input)
{
	struct sc_span data;
	int rc;

	if (p->framing == BY_LENGTH) {
		if (input.len > p->left)
			input.len = (size_t)p->left;
		p->left -= input.len;
		return !keep(p, input) || p->left == 0;
	}
	if (p->framing == BY_END)
		return !keep(p, input);
	while ((rc = sc_chunks_next(&p->chunks, &input, &data)) == 1)
		if (!keep(p, data))
			return 1;
	return rc < 0 ? -1 : p->chunks.done;
}

/* false: it was told. */
static bool take_input(struct sc_post *p, const char *data, size_t len)
{
	int rc;

	if (!p->has_head) {
		if (sc_bytes_put(&p->in, data, len) < 0) {
			fail(p, "there is no memory for it");
			return false;
		}
		rc = take_head(p);
		if (rc <= 0)
			return rc == 0;
		rc = take_body(p, sc_span(p->in.data, p->in.len));
		sc_bytes_clear(&p->in);
	} else {
		rc = take_body(p, sc_span(data, len));
	}
	if (rc == 1)
		finish(p, NULL);
	else if (rc < 0)
		fail(p, "its chunks are broken");
	return rc == 0;
}

static void at_end(struct sc_post *p)
{
	if (p->has_head && p->framing == BY_END)
		finish(p, NULL);
	else
		fail(p, p->has_head ? "it ends in its midst" : "the connection ends before it");
}

/* false: it was told; *ret_wants: what it waits for. */
static bool read_some(struct sc_post *p, int *ret_wants)
{
	char data[READ_BYTES];
	struct sc_err err;
	ssize_t n;
	int reads = 0;

	do {
		n = receive(p, data, sizeof(data), &err);
		if (n == 0)
			at_end(p);
		else if (n < 0 && n != SC_TLS_READ && n != SC_TLS_WRITE)
			finish(p, &err);
		else if (n > 0 && !take_input(p, data, (size_t)n))
			return false;
	} while (n > 0 && ++reads < READS_A_TURN);
	if (n > 0) /* TLS may hold bytes that the socket knows nothing of */
		sc_task_queue(p->loop, &p->again);
	*ret_wants |= n == SC_TLS_WRITE ? SC_WRITABLE : SC_READABLE;
	return n > 0 || n == SC_TLS_READ || n == SC_TLS_WRITE;
}

static bool write_some(struct sc_post *p, int *ret_wants)
{
	struct sc_err err;
	ssize_t n;

	while (p->sent < p->out.len) {
		n = transmit(p, &err);
		if (n == SC_TLS_READ || n == SC_TLS_WRITE) {
			*ret_wants |= n == SC_TLS_READ ? SC_READABLE : SC_WRITABLE;
			return true;
		}
		if (n < 0) {
			/* it may have answered, and ended, before it took all: that is seen by
			 * reading */
			p->sent = p->out.len;
			return true;
		}
		p->sent += (size_t)n;
	}
	return true;
}

static bool shake(struct sc_post *p, int *ret_wants)
{
	struct sc_err err;
	int rc;

	if (p->shaken || !p->tls)
		return true;
	rc = sc_tls_handshake(p->tls, &err);
	if (rc == SC_TLS_READ || rc == SC_TLS_WRITE) {
		*ret_wants = rc == SC_TLS_READ ? SC_READABLE : SC_WRITABLE;
		return false;
	}
	p->shaken = rc == 0;
	if (rc < 0) {
		sc_err_on(&err, "host", p->host);
		finish(p, &err);
	}
	return rc == 0;
}

static void go_on(void *arg, int events)
{
	struct sc_post *p = arg;
	int wants = 0;

	(void)events;
	if (!shake(p, &wants)) {
		if (wants)
			sc_watch_set(p->watch, wants);
		return;
	}
	if (write_some(p, &wants) && read_some(p, &wants))
		sc_watch_set(p->watch, wants);
}

static void again(void *arg)
{
	go_on(arg, 0);
}

static void connected(void *arg, int fd, const char *address, const struct sc_err *err)
{
	struct sc_post *p = arg;
	struct sc_err failed;
	int rc;

	(void)address;
	if (fd < 0) {
		finish(p, err);
		return;
	}
	p->fd = fd;
	rc = p->secure ? sc_tls_new(p->context, p->host, fd, NULL, &p->tls, &failed) : 0;
	if (rc == 0)
		rc = sc_watch_new(p->loop, fd, SC_WRITABLE, go_on, p, &p->watch, &failed);
	if (rc < 0)
		finish(p, &failed);
}

static int put_request(struct sc_post *p, const struct sc_post_request *r)
{
	int rc = sc_bytes_putf(&p->out, "POST %s HTTP/1.1\r\nHost: ", r->url->target);

	if (rc == 0)
		rc = sc_url_put_host(r->url, &p->out);
	if (rc == 0)
		rc = sc_bytes_putf(&p->out,
				   "\r\nUser-Agent: sc/%s\r\nAccept: */*\r\nConnection: close\r\n"
				   "Content-Length: %zu\r\n",
				   SC_VERSION, r->body.len);
	if (rc == 0)
		rc = sc_bytes_puts(&p->out, r->fields);
	if (rc == 0)
		rc = sc_bytes_puts(&p->out, "\r\n");
	return rc < 0 ? rc : sc_bytes_put(&p->out, r->body.data, r->body.len);
}

int sc_post_new(struct sc_loop *loop, const struct sc_post_request *r, sc_post_done *done,
		void *arg, struct sc_post **ret_post, struct sc_err *err)
{
	static const char tried[] = "cannot make a request";
	struct sc_post *p = sc_calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return sc_err_nomem(err, tried);
	p->loop = loop;
	p->done = done;
	p->arg = arg;
	p->fd = -1;
	p->secure = r->url->tls;
	p->context = r->tls;
	p->body_max = r->answer_max;
	p->again = (struct sc_task){ .run = again, .arg = p };
	sc_bytes_init(&p->out, OUT_MAX);
	sc_bytes_init(&p->in, SC_POST_HEAD_MAX + READ_BYTES);
	sc_bytes_init(&p->body, r->answer_max);
	p->host = strdup(r->url->host);
	rc = p->host ? put_request(p, r) : SC_E_NOMEM;
	if (rc < 0)
		rc = sc_err_nomem(err, tried);
	if (rc == 0)
		rc = sc_timer_new(loop, is_late, p, &p->timer, err);
	if (rc == 0)
		rc = sc_dial_new(loop, r->url->host, r->url->port, r->url->socket, connected, p,
				 &p->dial, err);
	if (rc < 0) {
		sc_post_free(p);
		return rc;
	}
	if (r->allow)
		sc_dial_only(p->dial, r->allow, r->allow_arg);
	sc_timer_start(p->timer, r->limit_ms);
	*ret_post = p;
	return 0;
}

void sc_post_free(struct sc_post *p)
{
	if (!p)
		return;
	sc_dial_free(p->dial);
	sc_timer_free(p->timer);
	sc_task_cancel(&p->again);
	sc_watch_free(p->watch);
	sc_tls_free(p->tls);
	sc_close(&p->fd);
	sc_bytes_done(&p->out);
	sc_bytes_done(&p->in);
	sc_bytes_done(&p->body);
	free(p->host);
	free(p);
}
