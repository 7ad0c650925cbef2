/*
 * A broker that runs out of memory answers, closes or drops; it neither breaks nor leaks.
 * Method: this program as its own child, with every allocation from the Nth on failed, or the Nth
 * alone (SC_FAULT), for each N of a run in which everything happens.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "../check.h"
#include "base/file.h"
#include "msg/broker.h"
#include "msg/pack.h"

#define NODES 4

static struct sc_broker *broker;
static struct peer {
	struct sc_broker_node *node;
	char held[SC_MSG_UID_MAX];
	size_t held_len;
	bool closed;
} peers[NODES];

static void on_control(void *arg, void *user, struct sc_span bytes)
{
	(void)arg;
	(void)user;
	(void)bytes;
}

static int on_deliver(void *arg, void *user, struct sc_parcel *parcel, enum sc_msg_order order)
{
	struct peer *p = user;

	(void)arg;
	if (!sc_parcel_form(parcel, order).data)
		return -1;
	memcpy(p->held, parcel->msg.uid.data, parcel->msg.uid.len);
	p->held_len = parcel->msg.uid.len;
	return 0;
}

static void on_close(void *arg, void *user, int code, const char *reason)
{
	(void)arg;
	(void)code;
	(void)reason;
	((struct peer *)user)->closed = true;
}

/* A message without any allocation: [uid, channel, subject, reference, data], data packed. */
static void say(struct peer *p, const char *channel, const char *subject, struct sc_span reference,
		struct sc_span data, bool reversed)
{
	static unsigned char serial;
	char text[600];
	size_t n = 0, lens[2] = { strlen(channel), strlen(subject) };
	const char *names[2] = { channel, subject };

	if (!p->node)
		return;
	text[n++] = (char)0x95;
	text[n++] = (char)0xc4;
	text[n++] = 2;
	text[n++] = 'U';
	text[n++] = (char)serial++;
	for (int i = reversed ? -1 : 0; i < (reversed ? 2 : 3); i++) {
		if (i == 0 || i == 1) {
			text[n++] = (char)(0xa0 | lens[i]);
			memcpy(text + n, names[i], lens[i]);
			n += lens[i];
		} else if (reference.data) {
			text[n++] = (char)0xc4;
			text[n++] = (char)reference.len;
			memcpy(text + n, reference.data, reference.len);
			n += reference.len;
		} else {
			text[n++] = (char)0xc0;
		}
	}
	memcpy(text + n, data.data, data.len);
	sc_broker_input(broker, p->node, sc_span(text, n + data.len));
}

#define NONE ((struct sc_span){ NULL, 0 })
#define DO(P, SUBJECT, DATA) say(P, "system", SUBJECT, NONE, SC_SPAN(DATA), false)

static void ack(struct peer *p)
{
	char uid[SC_MSG_UID_MAX];
	size_t len = p->held_len;

	memcpy(uid, p->held, len);
	p->held_len = 0;
	if (len)
		say(p, "system", "ack", sc_span(uid, len), SC_SPAN("\xc0"), false);
}

static void come_all(void)
{
	static const char *const endpoints[NODES] = { "a", "a", "b", "w" };

	for (int i = 0; i < NODES; i++) {
		struct sc_ulid uid = sc_broker_uid(broker);

		if (!peers[i].node && sc_broker_join(broker, sc_span_str(endpoints[i]), &uid, true,
						     &peers[i], &peers[i].node) < 0)
			peers[i].node = NULL;
	}
}

static void everything(void)
{
	DO(&peers[3], "subscribe.channel", "\x93\xa1w\xa6system\xa1*");
	DO(&peers[0], "subscribe.channel",
	   "\x93\xa1"
	   "a\xa2o*\xa1*");
	DO(&peers[2], "subscribe.channel",
	   "\x93\xa1"
	   "b\xa3ord\xa1s");
	DO(&peers[2], "subscribe.message",
	   "\x92\xa1"
	   "b\xc4\x01R");
	DO(&peers[2], "channel.priority", "\x92\xa3ord\x05");
	DO(&peers[2], "endpoint.size",
	   "\x92\xa1"
	   "b\x03");
	for (int i = 0; i < 12; i++) {
		say(&peers[i % 3], i % 2 ? "ord" : "oth", "s", i % 4 ? NONE : SC_SPAN("R"),
		    SC_SPAN("\xa9some data"), i % 5 == 0);
		ack(&peers[i % NODES]);
	}
	DO(&peers[0], "pause", "\xc0");
	for (int i = 0; i < 9; i++)
		say(&peers[1], i % 2 ? "ord" : "oth", "s", NONE, SC_SPAN("\x01"), false);
	DO(&peers[0], "resume", "\xc0");
	DO(&peers[0], "stats", "\xc0");
	for (int i = 0; i < 20; i++)
		ack(&peers[i % NODES]);
	while (sc_broker_busy(broker))
		sc_broker_work(broker);
	DO(&peers[2], "unsubscribe.channel",
	   "\x92\xa1"
	   "b\xa1*");
	DO(&peers[2], "nonsense", "\xc0");
}

TEST(the_child_only)
{
	static const struct sc_broker_hooks hooks = { .control = on_control,
						      .deliver = on_deliver,
						      .close = on_close };
	struct sc_broker_options options;
	struct sc_broker_stats stats;
	void *last;
	int rc;

	if (!getenv("SC_MEMORY_CHILD"))
		return;
	sc_broker_options_init(&options);
	if (sc_broker_new(&options, &hooks, NULL, &broker, NULL) < 0)
		exit(0);
	sc_broker_time(broker, 1764435591680000, 1000000);
	for (int round = 0; round < 2; round++) {
		come_all();
		everything();
		for (int i = 0; i < NODES; i++) {
			if (peers[i].node)
				sc_broker_leave(broker, peers[i].node);
			memset(&peers[i], 0, sizeof(peers[i]));
		}
		sc_broker_time(broker, 1764439999680000 + round, 5000000000 + round);
		sc_broker_tick(broker);
	}
	sc_broker_stats(broker, &stats);
	if (stats.nodes != 0)
		exit(2);
	sc_broker_free(broker);
	last = sc_malloc(1);
	rc = last ? 0 : 3; /* 3: memory did run out */
	free(last);
	exit(rc);
}

static int child(const char *format, int n)
{
	char fault[40];
	int status;
	pid_t pid;

	snprintf(fault, sizeof(fault), format, n);
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		setenv("SC_FAULT", fault, 1);
		setenv("SC_MEMORY_CHILD", "1", 1);
		execl("/proc/self/exe", "memory_test", "the_child_only", (char *)NULL);
		_exit(99);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	if (!WIFEXITED(status))
		FAIL("%s: signal %d", fault, WTERMSIG(status));
	return WEXITSTATUS(status);
}

TEST(each_allocation_fails)
{
	int n = 1, rc;

	if (getenv("SC_MEMORY_CHILD"))
		return;
	for (; (rc = child("malloc:%d+:ENOMEM", n)) != 0 || n < 20; n++) {
		if (n > 1 && rc != 0 && rc != 3)
			FAIL("from allocation %d on: status %d", n, rc);
	}
	CHECK(n > 100);
	for (int i = 1; i < n - 1; i++) { /* the last was only to see */
		rc = child("malloc:%d:ENOMEM", i);
		if (rc != 0)
			FAIL("without allocation %d: status %d", i, rc);
	}
}
