/*
 * ringbench: what the ring costs without sockets: publish 100-byte messages, hand them to N
 * cursors.
 *
 * Each of N subscribers takes runs (SC_SUBSCRIBER_RUN) in turn while the messages are made; the
 * bytes are not read, as a kernel would copy them. One JSON line for each N: messages published and
 * delivered a second, and of those two costs apart.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cast/stream.h"

#define PAYLOAD 93 /* [null,...] makes it 100 */

static uint64_t taken;

static void take(struct sc_subscriber *sub)
{
	struct sc_span frames;
	struct sc_err err;

	if (sc_subscriber_next(sub, SC_SUBSCRIBER_RUN, &frames, &err) == SC_NEXT_DATA) {
		taken += frames.len;
		sc_subscriber_sent(sub);
	}
}

static int bench(size_t subscribers, uint64_t deliveries)
{
	struct sc_stream_settings settings = { .name = "bench", .ring_bytes = 16 << 20 };
	struct sc_subscriber **subs = calloc(subscribers, sizeof(struct sc_subscriber *));
	uint64_t messages = deliveries / subscribers, batch = 500; /* less than a run */
	struct sc_target target = { 0 };
	struct sc_refusal refusal;
	struct sc_stream_stats stats;
	struct sc_stream *stream;
	char message[PAYLOAD];
	struct sc_err err;
	int64_t began, made_us = 0, all_us;

	memset(message, '7', sizeof(message));
	if (!subs || sc_stream_open(&settings, NULL, &stream, &err) < 0)
		return 1;
	for (size_t i = 0; i < subscribers; i++) {
		if (sc_stream_attach(stream, &target, NULL, &subs[i], &refusal, &err) != 0)
			return 1;
		take(subs[i]);
	}
	taken = 0;
	began = sc_mono_us();
	for (uint64_t done = 0; done < messages; done += batch) {
		int64_t at = sc_mono_us();

		for (uint64_t i = 0; i < batch; i++)
			if (sc_stream_add(stream, sc_span(message, sizeof(message)), &err) < 0)
				return 1;
		made_us += sc_mono_us() - at;
		for (size_t i = 0; i < subscribers; i++)
			take(subs[i]);
	}
	for (size_t i = 0; i < subscribers; i++)
		take(subs[i]);
	all_us = sc_mono_us() - began;
	if (sc_stream_stats(stream, &stats, &err) < 0)
		return 1;
	if (stats.messages_out != stats.messages_in * subscribers) {
		fprintf(stderr, "ringbench: a subscriber was left behind\n");
		return 1;
	}
	printf("{\"bench\":\"ring\",\"subscribers\":%zu,\"messages\":%" PRIu64
	       ",\"deliveries\":%" PRIu64
	       ",\"publish_per_s\":%.0f,\"deliveries_per_s\":%.0f,\"gigabytes_per_s\":%.1f}\n",
	       subscribers, stats.messages_in, stats.messages_out,
	       (double)stats.messages_in * 1e6 / (double)made_us,
	       (double)stats.messages_out * 1e6 / (double)all_us,
	       (double)taken / 1e3 / (double)all_us);
	for (size_t i = 0; i < subscribers; i++)
		sc_subscriber_free(subs[i]);
	sc_stream_close(stream);
	free(subs);
	return 0;
}

int main(void)
{
	return bench(1, 5000000) || bench(50, 200000000) || bench(1000, 1000000000);
}
