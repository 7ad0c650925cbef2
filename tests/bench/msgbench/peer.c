/* tests/bench/msgbench/peer.c: one connection: bytes in and out. */
#include "../bench.h"
#include "wire.h"

void peer_put(struct sc_bytes *out, const void *data, size_t len)
{
	if (sc_bytes_put(out, data, len) < 0)
		die("out of memory");
}

struct sc_span peer_text(struct peer *p, uint64_t number)
{
	for (int i = 0; i < NUMBER_DIGITS; i++)
		p->text[i] = "0123456789abcdef"[number >> 4 * (NUMBER_DIGITS - 1 - i) & 15];
	return sc_span(p->text, p->size);
}

uint64_t peer_number(struct sc_span text)
{
	uint64_t number = 0;

	if (text.len < NUMBER_DIGITS)
		die("a message came that nobody sent");
	for (int i = 0; i < NUMBER_DIGITS; i++) {
		char c = text.data[i];

		number = number << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
	return number;
}

void peer_open(struct peer *p, const struct wire *wire, const char *name, size_t size, int port)
{
	memset(p, 0, sizeof(*p));
	p->wire = wire;
	p->size = size;
	snprintf(p->name, sizeof(p->name), "%s", name);
	sc_bytes_init(&p->in, (size_t)1 << 30);
	sc_bytes_init(&p->out, (size_t)1 << 30);
	sc_bytes_init(&p->data, (size_t)1 << 30);
	p->text = xrealloc(NULL, size);
	memset(p->text, 'x', size);
	p->fd = tcp_connect("127.0.0.1", port);
	if (p->fd < 0)
		die("cannot connect to port %d: %s", port, strerror(errno));
	wire->hello(p, port);
}

void peer_close(struct peer *p)
{
	close(p->fd);
	sc_bytes_done(&p->in);
	sc_bytes_done(&p->out);
	sc_bytes_done(&p->data);
	free(p->text);
}

void peer_send(struct peer *p)
{
	if (write_all(p->fd, p->out.data, p->out.len))
		die("%s: cannot write: %s", p->name, strerror(errno));
	sc_bytes_clear(&p->out);
}

bool peer_hear(struct peer *p, struct heard *ret_heard)
{
	struct sc_span rest = sc_span(p->in.data + p->at, p->in.len - p->at);
	size_t len = rest.len ? p->wire->hear(p, rest, ret_heard) : 0;

	p->at += len;
	return len > 0;
}

bool peer_read(struct peer *p, bool wait)
{
	ssize_t n;

	sc_bytes_drop(&p->in, p->at);
	p->at = 0;
	if (sc_bytes_reserve(&p->in, 65536) < 0)
		die("out of memory");
	do
		n = recv(p->fd, p->in.data + p->in.len, p->in.cap - p->in.len,
			 wait ? 0 : MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN && !wait)
		return false;
	if (n <= 0)
		die("%s: the server is gone: %s", p->name, n ? strerror(errno) : "it closed");
	p->in.len += (size_t)n;
	return true;
}

void peer_await(struct peer *p, enum heard_kind kind, struct heard *ret_heard)
{
	for (;;) {
		while (peer_hear(p, ret_heard))
			if (ret_heard->kind == kind)
				return;
		(void)peer_read(p, true);
	}
}
