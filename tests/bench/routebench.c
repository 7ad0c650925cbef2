/*
 * tests/bench/routebench.c: what a message costs the broker with N subscriptions that do not match.
 *
 *     routebench [ROUNDS [N]...]
 *
 * Method: a broker without sockets; N subscriptions of many endpoints, a third exact, a third that
 * begin with a wildcard, a third that end with one; one subscription matches. A message is
 * published, delivered and acknowledged, over and over. One line for each N: ns a message.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "msg/broker.h"
#include "msg/pack.h"

static struct sc_broker *broker;
static bool delivered;

static void on_control(void *arg, void *user, struct sc_span bytes)
{
	(void)arg;
	(void)user;
	(void)bytes;
}

static int on_deliver(void *arg, void *user, struct sc_parcel *parcel, enum sc_msg_order order)
{
	(void)arg;
	(void)user;
	(void)parcel;
	(void)order;
	delivered = true;
	return 0;
}

static void on_close(void *arg, void *user, int code, const char *reason)
{
	(void)arg;
	(void)user;
	fprintf(stderr, "routebench: closed %d %s\n", code, reason);
	exit(1);
}

static void say(struct sc_broker_node *node, const char *channel, const char *subject,
		const char *reference, struct sc_span data)
{
	struct sc_msg msg = { .uid = SC_SPAN("0123456789abcdef"),
			      .channel = sc_span_str(channel),
			      .subject = sc_span_str(subject),
			      .data = data };
	struct sc_bytes out;

	if (reference)
		msg.reference = sc_span_str(reference);
	sc_bytes_init(&out, 1 << 16);
	if (sc_msg_write(&out, &msg, SC_MSG_DOCUMENT) < 0)
		abort();
	sc_broker_input(broker, node, sc_span(out.data, out.len));
	sc_bytes_done(&out);
}

static void subscribe(struct sc_broker_node *node, const char *endpoint, const char *channel,
		      const char *subject)
{
	struct sc_bytes data;

	sc_bytes_init(&data, 4096);
	sc_pack_array(&data, 3);
	sc_pack_str(&data, sc_span_str(endpoint));
	sc_pack_str(&data, sc_span_str(channel));
	sc_pack_str(&data, sc_span_str(subject));
	say(node, "system", "subscribe.channel", NULL, sc_span(data.data, data.len));
	sc_bytes_done(&data);
}

static struct sc_broker_node *node_of(const char *endpoint)
{
	struct sc_broker_node *node;
	struct sc_ulid uid = sc_broker_uid(broker);

	if (sc_broker_join(broker, sc_span_str(endpoint), &uid, true, NULL, &node) < 0)
		abort();
	return node;
}

static void measure(unsigned subscriptions, unsigned rounds)
{
	static const struct sc_broker_hooks hooks = { .control = on_control,
						      .deliver = on_deliver,
						      .close = on_close };
	struct sc_broker_options options;
	struct sc_broker_node *publisher, *worker;
	struct sc_broker_stats stats;
	char endpoint[32], channel[64];
	int64_t start, best = INT64_MAX;

	sc_broker_options_init(&options);
	options.channels_max = 1000000;
	if (sc_broker_new(&options, &hooks, NULL, &broker, NULL) < 0)
		abort();
	sc_broker_time(broker, sc_wall_us(), sc_mono_us());
	publisher = node_of("publisher");
	worker = node_of("worker");
	subscribe(worker, "worker", "orders", "submitted");
	for (unsigned i = 1; i < subscriptions; i++) {
		static const char *const forms[] = { "orders.%u", "*.orders.%u", "orders.%u.*" };

		snprintf(endpoint, sizeof(endpoint), "e%u", i % 5000);
		snprintf(channel, sizeof(channel), forms[i % 3], i);
		subscribe(publisher, endpoint, channel, "*");
	}
	for (int part = 0; part < 5; part++) {
		start = sc_mono_us();
		for (unsigned i = 0; i < rounds; i++) {
			delivered = false;
			say(publisher, "orders", "submitted", NULL, SC_SPAN("\xa9some data"));
			if (!delivered)
				abort();
			say(worker, "system", "ack", "0123456789abcdef", SC_SPAN("\xc0"));
		}
		start = sc_mono_us() - start;
		best = start < best ? start : best;
	}
	sc_broker_stats(broker, &stats);
	printf("{\"subscriptions\":%llu,\"ns_per_message\":%.0f}\n",
	       (unsigned long long)stats.subscriptions, (double)best * 1000 / rounds);
	sc_broker_free(broker);
}

int main(int argc, char **argv)
{
	static const unsigned counts[] = { 1, 10, 1000, 10000, 100000 };
	unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 200000;

	for (int i = 2; i < argc; i++)
		measure((unsigned)atoi(argv[i]), rounds);
	for (size_t i = 0; argc < 3 && i < sizeof(counts) / sizeof(*counts); i++)
		measure(counts[i], rounds);
	return 0;
}
