/*
 * What peers make a broker keep is counted in one number and bounded by it (wsmsg 9, 18): not only
 * messages, also who wants them. Method: as exchange_test.c.
 */
#define PEERS 120
#include "lab.h"

#define ROOM 20000

static struct peer *start_with_room(void)
{
	sc_broker_options_init(&lab_options);
	lab_options.memory_max = ROOM;
	lab_new();
	return join("p", "p");
}

/* SUBJECT with DATA, in which %d is another number each time, until it is refused: how often it was
 * done. */
static int fill(struct peer *p, const char *subject, const char *data)
{
	char text[200];

	for (int i = 0; i < ROOM; i++) {
		snprintf(text, sizeof(text), data, i);
		p->len = 0;
		command(p, "U", subject, text);
		CHECK(stats().memory_bytes <= ROOM);
		if (!strncmp(p->log, "error", 5)) {
			GOT(p, "error U limit");
			CHECK(strstr(lab_error, "--max-memory") != NULL);
			return i;
		}
	}
	return ROOM;
}

TEST(whatever_a_command_makes_counts)
{
	static const struct {
		const char *subject, *data;
		int least, most;
	} table[] = {
		{ "subscribe.channel", "['p' 'c%d' '*']", 20, 40 },
		{ "subscribe.channel", "['p' 'c%d*' '*']", 30, 70 },
		{ "subscribe.channel", "['p' '*' 's%d']", 50, 150 },
		{ "subscribe.channel", "['e%d' '*' '*']", 20, 50 },
		{ "subscribe.message", "['p' \"R%d\" nil]", 60, 150 },
		{ "subscribe.message", "['e%d' \"R\" nil]", 25, 60 },
		{ "channel.create", "'c%d'", 60, 150 },
		{ "channel.size", "['c%d' 5]", 60, 150 },
		{ "endpoint.create", "'e%d'", 40, 80 },
		{ "endpoint.size", "['e%d' 5]", 40, 80 },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		struct peer *p = start_with_room();
		int done = fill(p, table[i].subject, table[i].data);

		if (done < table[i].least || done > table[i].most)
			fprintf(stderr, "%s %s: %d\n", table[i].subject, table[i].data, done);
		CHECK(done >= table[i].least && done <= table[i].most);
	}
}

TEST(what_is_there_already_is_no_more)
{
	struct peer *p = start_with_room(), *late;
	char text[1600];

	command(p, "U", "subscribe.message", "['p' \"R\" nil]");
	fill(p, "subscribe.channel", "['p' 'c%d' '*']");
	command(p, "U", "subscribe.channel", "['p' 'c0' '*']");
	command(p, "U", "subscribe.message", "['p' \"R\" nil]");
	command(p, "U", "endpoint.size", "['p' 9]");
	command(p, "U", "channel.size", "['c0' 9]");
	GOT(p, "ack U | ack U | ack U | ack U");
	snprintf(text, sizeof(text), "'%01500d'", 1);
	send(p, "U", "c0", "s", text);
	GOT(p, "error U limit");
	/* Who comes is let in: there are limits of their own for nodes and endpoints. */
	late = join("late", "late");
	command(late, "U", "unsubscribe.channel", "['p' '*']");
	GOT(late, "ack U");
	command(late, "U", "subscribe.channel", "['late' 'c' '*']");
	send(late, "U", "c0", "s", text);
	GOT(late, "ack U | ack U = 0");
}

TEST(all_of_it_is_given_back)
{
	struct peer *p = start_with_room(), *other;
	uint64_t before = stats().memory_bytes;

	for (int i = 0; i < 3; i++) {
		fill(p, "subscribe.channel", "['p' 'c%d' '*']");
		command(p, "U", "unsubscribe.channel", "['p' '*']");
		lab_wait((int64_t)3601 * 1000000); /* the channels are forgotten */
		CHECK_INT(stats().memory_bytes, before);
		fill(p, "subscribe.channel", "['e%d' '*' 's*']");
		for (int n = 0; n < 100; n++) {
			char text[60];

			snprintf(text, sizeof(text), "['e%d' '*']", n);
			command(p, "U", "unsubscribe.channel", text);
			p->len = 0;
		}
		CHECK_INT(stats().memory_bytes, before);
		fill(p, "subscribe.message", "['p' \"R%d\" nil]");
		lab_wait((int64_t)301 * 1000000);
		CHECK_INT(stats().memory_bytes, before);
		other = join("other", "other");
		command(other, "U", "subscribe.channel", "['other' 'c' '*']");
		CHECK(stats().memory_bytes > before);
		command(other, "U", "unsubscribe.channel", "['other' 'c']");
		leave(other);
		other->len = 0;
		p->len = 0;
		lab_wait((int64_t)3601 * 1000000);
		CHECK_INT(stats().memory_bytes, before);
	}
}

/* Messages of many priorities, in one queue and out of it. */
TEST(the_lanes_of_a_queue_count)
{
	struct peer *p = start_with_room(), *e;
	uint64_t before;
	char text[60], name[16];

	command(p, "U", "subscribe.channel", "['e' 'c*' '*']");
	for (int i = 0; i < 20; i++) {
		snprintf(text, sizeof(text), "['c%d' %d]", i, i);
		command(p, "U", "channel.priority", text);
	}
	before = stats().queued_bytes;
	p->len = 0;
	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "c%d", i);
		send(p, "M", name, "s", "1");
		p->len = 0;
	}
	CHECK(stats().queued_bytes > before + 20 * (sizeof(struct sc_parcel) + 32 + 24));
	e = join("e", "e");
	for (int i = 0; i < 20; i++) {
		ack(e, "M");
		e->len = 0;
	}
	CHECK_INT(stats().queued, 0);
	CHECK(stats().queued_bytes < 400);
}

static bool no_room_for_long(void *arg, void *user, size_t bytes)
{
	(void)arg;
	(void)user;
	return bytes < 10;
}

TEST(a_long_answer_needs_room_as_well)
{
	static const struct sc_broker_hooks hooks = { .control = lab_control,
						      .deliver = lab_deliver,
						      .close = lab_close,
						      .has_room = no_room_for_long };
	struct peer *p;

	lab_start();
	sc_broker_free(lab);
	CHECK(sc_broker_new(&lab_options, &hooks, NULL, &lab, NULL) == 0);
	sc_broker_time(lab, LAB_WALL + lab_us, lab_us);
	p = join("p", "p");
	command(p, "U", "stats", "nil");
	GOT(p, "error U limit");
}

/* Most nodes of an endpoint leave, some of those that stay hold a message: the turn of the
 * others is what it was. */
TEST(turns_stay_when_most_nodes_leave)
{
	struct peer *nodes[100], *p;
	uint64_t before, full;
	char name[16];

	lab_start();
	p = join("p", "p");
	command(p, "U", "subscribe.channel", "['w' 'c' '*']");
	before = stats().memory_bytes;
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		nodes[i] = join(name, "w");
	}
	full = stats().memory_bytes;
	for (int i = 0; i < 50; i++) {
		send(p, "M", "c", "s", "1");
		CHECK(nodes[i]->len > 0);
		nodes[i]->len = p->len = 0;
	}
	ack(nodes[0], "M"); /* ready, and its turn is long over */
	for (int i = 0; i < 100; i++) {
		if (i % 5)
			leave(nodes[i]);
		nodes[i]->len = 0;
	}
	CHECK(stats().memory_bytes - before < (full - before) / 4);
	for (int i = 50; i < 100; i += 5) {
		send(p, "M", "c", "s", "1");
		GOT(nodes[i], "M c/s 1");
		p->len = 0;
	}
	ack(nodes[45], "M");
	send(p, "M", "c", "s", "2");
	GOT(nodes[0], "M c/s 2"); /* after the last comes the first that is ready */
	send(p, "M", "c", "s", "3");
	GOT(nodes[45], "M c/s 3");
}
