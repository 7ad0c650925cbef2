/* tests/bench/msgbench/flow.c: as fast as it goes: what counts is how much. */
#include <sys/epoll.h>

#include "../bench.h"
#include "modes.h"

struct flow {
	struct task *task;
	struct peer from, *nodes;
	uint64_t *got;     /* by each node */
	unsigned *arrived; /* at so many nodes, each message under way */
	uint64_t published, acked, completed, delivered;
};

/* The sender is never so far ahead of the slowest that a queue could fill and drop. */
static void publish_more(struct flow *f)
{
	struct task *t = f->task;

	if (f->published - f->completed > t->window / 2)
		return;
	while (f->published - f->completed < t->window)
		t->wire->publish(&f->from, "orders", "submitted", f->published++, NULL);
	peer_send(&f->from);
}

static void hear_acks(struct flow *f)
{
	struct heard h;

	if (!peer_read(&f->from, false))
		return;
	while (peer_hear(&f->from, &h))
		f->acked += h.kind == HEARD_ACK;
	if (f->acked > f->published)
		die("%" PRIu64 " acks of %" PRIu64 " messages", f->acked, f->published);
}

static void arrived(struct flow *f, unsigned node, const struct heard *h)
{
	unsigned window = f->task->window;

	if (h->number != f->got[node])
		die("%s: message %" PRIu64 " came in place of %" PRIu64, f->nodes[node].name,
		    h->number, f->got[node]);
	f->got[node]++;
	f->delivered++;
	f->arrived[h->number % window]++;
	while (f->completed < f->published && f->arrived[f->completed % window] == f->task->nodes)
		f->arrived[f->completed++ % window] = 0;
}

static void hear_node(struct flow *f, unsigned node)
{
	struct peer *p = &f->nodes[node];
	struct heard h;

	if (!peer_read(p, false))
		return;
	while (peer_hear(p, &h)) {
		if (h.kind != HEARD_MESSAGE)
			continue;
		arrived(f, node, &h);
		p->wire->ack(p, &h);
	}
	if (p->out.len)
		peer_send(p);
}

static int watch_all(struct flow *f)
{
	int fd = epoll_create1(EPOLL_CLOEXEC);

	for (unsigned i = 0; i <= f->task->nodes; i++) {
		struct epoll_event ev = { .events = EPOLLIN, .data.u32 = i };

		if (fd < 0 || epoll_ctl(fd, EPOLL_CTL_ADD,
					i < f->task->nodes ? f->nodes[i].fd : f->from.fd, &ev))
			die("epoll: %s", strerror(errno));
	}
	return fd;
}

static void run(struct flow *f)
{
	struct task *t = f->task;
	struct epoll_event events[256];
	int fd = watch_all(f);

	task_begin(t);
	while (task_goes_on(t, now_ns())) {
		uint64_t before = f->delivered;
		int n;

		publish_more(f);
		n = epoll_wait(fd, events, 256, 1000);
		if (n == 0)
			die("nothing came for a second: %" PRIu64 " sent, %" PRIu64 " at all nodes",
			    f->published, f->completed);
		for (int i = 0; i < n; i++) {
			if (events[i].data.u32 < t->nodes)
				hear_node(f, events[i].data.u32);
			else
				hear_acks(f);
		}
		task_count(t, f->delivered - before);
	}
	task_end(t);
	close(fd);
}

/* One node needs no epoll, whose cost would be measured. */
static void run_one(struct flow *f)
{
	struct task *t = f->task;
	struct peer *p = &f->nodes[0];

	task_begin(t);
	while (task_goes_on(t, now_ns())) {
		struct heard h;

		publish_more(f);
		peer_await(p, HEARD_MESSAGE, &h);
		arrived(f, 0, &h);
		p->wire->ack(p, &h);
		peer_send(p);
		if (f->published - f->completed == t->window / 2)
			hear_acks(f);
		task_count(t, 1);
	}
	task_end(t);
}

void mode_fan(struct task *t)
{
	struct flow f = { .task = t };
	char name[32];
	struct heard h;

	f.nodes = xrealloc(NULL, t->nodes * sizeof(*f.nodes));
	f.got = xrealloc(NULL, t->nodes * sizeof(*f.got));
	f.arrived = xrealloc(NULL, t->window * sizeof(*f.arrived));
	memset(f.got, 0, t->nodes * sizeof(*f.got));
	memset(f.arrived, 0, t->window * sizeof(*f.arrived));
	for (unsigned i = 0; i < t->nodes; i++) {
		snprintf(name, sizeof(name), "n%u", i);
		peer_open(&f.nodes[i], t->wire, name, t->size, t->port);
		t->wire->subscribe(&f.nodes[i], "orders", "submitted");
		peer_send(&f.nodes[i]);
		peer_await(&f.nodes[i], HEARD_ACK, &h);
	}
	peer_open(&f.from, t->wire, "from", t->size, t->port);
	if (t->nodes == 1)
		run_one(&f);
	else
		run(&f);
	peer_close(&f.from);
	for (unsigned i = 0; i < t->nodes; i++)
		peer_close(&f.nodes[i]);
	free(f.nodes);
	free(f.got);
	free(f.arrived);
}

void mode_deliver(struct task *t)
{
	t->nodes = 1;
	mode_fan(t);
}
