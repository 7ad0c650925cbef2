/*
 * tests/bench/barefan.c: what the kernel takes for fan-out in which each delivery is acknowledged
 * before the next.
 *
 *     barefan PORT
 *
 * A server for `msgbench fan`: plain epoll, one thread, the frames of a wsmsg broker and nothing of
 * its work. What /from sends goes to everybody else as it is, one message at a time: the next when
 * anything came. It reads no frame, only counts the bytes of those from /from, which are all of one
 * size. So what is left is one send and one receive a delivery.
 */
#include <sys/epoll.h>

#include "bench.h"

enum { CLIENTS = 1024, KEPT = 4096, FRAME_MAX = 4096, UID_AT = 3, UID_BYTES = 16 };

struct client {
	int fd;
	bool up, from, subscribed, waits; /* waits: for a message */
	uint64_t next;
};

static struct client clients[CLIENTS];
static int count, ep;
static unsigned char frames[KEPT][FRAME_MAX]; /* of messages, ready to be sent */
static size_t frame_len, message_at;
static uint64_t messages;

/* [uid, "system", "ack", the message's uid, 1], as the broker has it, in a frame */
static void put_ack(struct buf *out, const unsigned char *message)
{
	static const char head[] = "\x95\xc4\x10................\xa6system\xa3"
				   "ack\xc4\x10";
	unsigned char frame[16];

	buf_put(out, frame, ws_header(frame, 2, sizeof(head) - 1 + UID_BYTES + 1, false));
	buf_put(out, head, sizeof(head) - 1);
	buf_put(out, message + UID_AT, UID_BYTES);
	buf_put(out, "\1", 1);
}

static void transmit(struct client *c, const void *data, size_t len)
{
	if (send(c->fd, data, len, MSG_NOSIGNAL) != (ssize_t)len)
		die("a client takes nothing");
}

static void deliver(struct client *c)
{
	if (!c->subscribed || c->from || !c->waits || c->next == messages)
		return;
	transmit(c, frames[c->next++ % KEPT], frame_len);
	c->waits = false;
}

/* The key of a client's frames is zero. */
static void take_messages(struct client *c, const unsigned char *data, size_t len)
{
	struct buf acks = { 0 };
	unsigned char head[16];
	size_t payload, masked;

	payload = data[1] & 127;
	if (payload == 126)
		payload = (size_t)data[2] << 8 | data[3];
	message_at = ws_header(head, 2, payload, false);
	masked = ws_header(head, 2, payload, true);
	frame_len = message_at + payload;
	if (frame_len > FRAME_MAX || len % (masked + payload))
		die("messages came in pieces, or are too large");
	(void)ws_header(head, 2, payload, false);
	for (size_t at = 0; at < len; at += masked + payload) {
		unsigned char *frame = frames[messages++ % KEPT];

		memcpy(frame, head, message_at);
		memcpy(frame + message_at, data + at + masked, payload);
		put_ack(&acks, frame + message_at);
	}
	transmit(c, acks.p, acks.n);
	free(acks.p);
	for (int i = 0; i < count; i++)
		deliver(&clients[i]);
}

static void upgrade(struct client *c, const char *request)
{
	char accept_key[40], answer[256];
	int n;

	if (ws_accept(request, accept_key) < 0)
		die("this is no WebSocket");
	n = snprintf(
		answer, sizeof(answer),
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
		"Sec-WebSocket-Accept: %s\r\n\r\n",
		accept_key);
	c->up = true;
	c->from = strncmp(request, "GET /from ", 10) == 0;
	transmit(c, answer, (size_t)n);
}

static void readable(struct client *c)
{
	static unsigned char data[1 << 20];
	ssize_t n = recv(c->fd, data, sizeof(data) - 1, 0);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		close(c->fd);
		c->subscribed = false;
		return;
	}
	data[n] = 0;
	if (!c->up) {
		upgrade(c, (char *)data);
	} else if (c->from) {
		take_messages(c, data, (size_t)n);
	} else if (!c->subscribed) {
		struct buf ack = { 0 };

		c->subscribed = c->waits = true;
		put_ack(&ack, data + 2 + 4); /* whatever it names */
		transmit(c, ack.p, ack.n);
		free(ack.p);
	} else {
		c->waits = true;
		deliver(c);
	}
}

static void accept_one(int listener)
{
	struct client *c = &clients[count];
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET, .data.ptr = c };
	int one = 1;

	if (count == CLIENTS)
		die("there are too many clients");
	c->fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (c->fd < 0)
		return;
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &ev))
		die("epoll_ctl: %s", strerror(errno));
	count++;
}

static int listen_on(int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	struct epoll_event ev = { .events = EPOLLIN };
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 1024) ||
	    epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev))
		die("cannot listen on port %d: %s", port, strerror(errno));
	return fd;
}

int main(int argc, char **argv)
{
	struct epoll_event events[256];
	int listener;

	if (argc != 2 || !strcmp(argv[1], "--help")) {
		puts("usage: barefan PORT\nA server for `msgbench fan` that does nothing but send "
		     "and receive.");
		return argc != 2 ? 2 : 0;
	}
	raise_nofile();
	ep = epoll_create1(EPOLL_CLOEXEC);
	listener = listen_on((int)num_arg("PORT", argv[1]));
	for (;;) {
		int n = epoll_wait(ep, events, 256, -1);

		for (int i = 0; i < n; i++) {
			if (events[i].data.ptr)
				readable(events[i].data.ptr);
			else
				accept_one(listener);
		}
	}
}
