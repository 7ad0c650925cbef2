/*
 * Goal    permessage-deflate is agreed on only as RFC 7692 says, and both ways carry what was sent.
 * Method  offers by hand, zlib as the client.
 */
#include <zlib.h>

#include "server_peer.h"

static struct peer peer;
static z_stream inflater, deflater;

static void dial(const char *target, const char *offer, const char *answer)
{
	char field[256];
	const char *head, *at;

	snprintf(field, sizeof(field), "Sec-WebSocket-Extensions: %s\r\n", offer);
	peer_init(&peer, peer_dial());
	head = peer_upgrade(&peer, target, field);
	at = strstr(head, "Sec-WebSocket-Extensions: ");
	CHECK(strstr(head, " 101 "));
	if (!answer)
		CHECK(!at);
	else
		CHECK_MEM(at + 26, strcspn(at + 26, "\r"), answer);
	memset(&inflater, 0, sizeof(inflater));
	memset(&deflater, 0, sizeof(deflater));
	CHECK(inflateInit2(&inflater, -15) == Z_OK);
	CHECK(deflateInit2(&deflater, 6, Z_DEFLATED, -15, 8, 0) == Z_OK);
}

static void hang_up(void)
{
	inflateEnd(&inflater);
	deflateEnd(&deflater);
	peer_close(&peer);
}

static char plain[1 << 20];

static size_t unpack(struct sc_span payload)
{
	static unsigned char in[1 << 20];

	CHECK(payload.len + 4 <= sizeof(in));
	memcpy(in, payload.data, payload.len);
	memcpy(in + payload.len, "\0\0\xff\xff", 4);
	inflater.next_in = in;
	inflater.avail_in = (uInt)payload.len + 4;
	inflater.next_out = (unsigned char *)plain;
	inflater.avail_out = sizeof(plain);
	CHECK(inflate(&inflater, Z_SYNC_FLUSH) == Z_OK);
	CHECK_INT(inflater.avail_in, 0);
	return sizeof(plain) - inflater.avail_out;
}

static void send_packed(const char *text, size_t len)
{
	static unsigned char out[1 << 20];

	deflateReset(&deflater);
	deflater.next_in = (unsigned char *)(uintptr_t)text;
	deflater.avail_in = (uInt)len;
	deflater.next_out = out;
	deflater.avail_out = sizeof(out);
	CHECK(deflate(&deflater, Z_SYNC_FLUSH) == Z_OK);
	peer_frame(&peer, 0xc1, out, sizeof(out) - deflater.avail_out - 4);
}

static void expect_packed(const char *text, size_t len)
{
	unsigned first;
	struct sc_span payload;
	size_t whole;

	CHECK(peer_look(&peer, &first, &payload, &whole));
	CHECK_INT(first, 0xc1);
	CHECK_INT(unpack(payload), len);
	CHECK(len == 0 || memcmp(plain, text, len) == 0);
	peer_drop(&peer, whole);
}

static void set_up(void)
{
	app_options();
	app.options.deflate = true;
	app_start();
}

#define BASE "permessage-deflate; client_no_context_takeover"

TEST(offers)
{
	set_up();
	dial("/", "permessage-deflate", BASE), hang_up();
	dial("/", "permessage-deflate; client_max_window_bits", BASE), hang_up();
	dial("/",
	     "x-other, permessage-deflate; server_max_window_bits=10; server_no_context_takeover",
	     BASE "; server_no_context_takeover; server_max_window_bits=10"),
		hang_up();
	dial("/", "permessage-deflate; server_max_window_bits=8, permessage-deflate", BASE),
		hang_up();
	dial("/", "permessage-deflate; server_max_window_bits=16", NULL), hang_up();
	dial("/", "permessage-deflate; server_max_window_bits", NULL), hang_up();
	dial("/", "permessage-deflate; server_no_context_takeover; server_no_context_takeover",
	     NULL),
		hang_up();
	dial("/", "permessage-deflate; unheard_of", NULL), hang_up();
	dial("/", "permessage-deflate-32", NULL), hang_up();
	app_end();
	app_options(); /* off unless asked for */
	app_start();
	dial("/", "permessage-deflate", NULL), hang_up();
	app_end();
}

TEST(both_ways_carry_what_was_sent)
{
	static const char *const all[] = { "permessage-deflate",
					   "permessage-deflate; server_no_context_takeover",
					   "permessage-deflate; server_max_window_bits=9" };
	static char big[1000000];

	for (size_t i = 0; i < sizeof(big); i++)
		big[i] = "the quick brown fox"[i * i / 7 % 19];
	set_up();
	for (int i = 0; i < 3; i++) {
		unsigned first;
		struct sc_span payload;
		size_t whole, size_one;

		peer_init(&peer, peer_dial());
		{
			char field[128];

			snprintf(field, sizeof(field), "Sec-WebSocket-Extensions: %s\r\n", all[i]);
			CHECK(strstr(peer_upgrade(&peer, "/echo", field), "permessage-deflate"));
		}
		memset(&inflater, 0, sizeof(inflater));
		memset(&deflater, 0, sizeof(deflater));
		CHECK(inflateInit2(&inflater, i == 2 ? -9 : -15) == Z_OK);
		CHECK(deflateInit2(&deflater, 6, Z_DEFLATED, -15, 8, 0) == Z_OK);
		send_packed("", 0);
		expect_packed("", 0);
		send_packed("", 0);
		expect_packed("", 0);
		send_packed("[1,{\"price\":101.5}]", 19);
		CHECK(peer_look(&peer, &first, &payload, &whole));
		size_one = payload.len;
		expect_packed("[1,{\"price\":101.5}]", 19);
		send_packed("[1,{\"price\":101.5}]", 19);
		CHECK(peer_look(&peer, &first, &payload, &whole));
		CHECK(i == 1 ? payload.len == size_one
			     : payload.len < size_one); /* it remembers, or does not */
		expect_packed("[1,{\"price\":101.5}]", 19);
		send_packed(big, sizeof(big));
		expect_packed(big, sizeof(big));
		peer_frame(&peer, 0x81, "not packed", 10); /* is allowed */
		expect_packed("not packed", 10);
		hang_up();
	}
	app_end();
}

TEST(many_messages_to_one_that_reads)
{
	set_up();
	dial("/messages?20000", "permessage-deflate", BASE);
	for (uint64_t i = 0; i < 20000; i++) {
		char text[FRAME_TEXT_MAX];
		size_t len = frame_text(i, text);

		expect_packed(text, len);
	}
	peer_expect_close(&peer, 1000);
	hang_up();
	app_end();
}

TEST(a_bad_message_ends_its_own_connection_only)
{
	static char zeros[1 << 19];

	set_up();
	for (int i = 0; i < 2; i++) {
		dial("/echo", "permessage-deflate", BASE);
		peer_frame(&peer, 0xc1, "\xff\xff\xff\xff", 4);
		peer_expect_close(&peer, 1007);
		hang_up();
		dial("/echo", "permessage-deflate", BASE);
		send_packed("a\xff", 2);
		peer_expect_close(&peer, 1007);
		hang_up();
		/* A bomb: 64 KiB that would be 2 MiB. */
		dial("/echo", "permessage-deflate", BASE);
		{
			static unsigned char out[1 << 16];

			deflater.next_out = out;
			deflater.avail_out = sizeof(out);
			for (int k = 0; k < 4; k++) {
				deflater.next_in = (unsigned char *)zeros;
				deflater.avail_in = sizeof(zeros);
				CHECK(deflate(&deflater, k == 3 ? Z_SYNC_FLUSH : Z_NO_FLUSH) ==
				      Z_OK);
			}
			peer_frame(&peer, 0xc2, out, sizeof(out) - deflater.avail_out - 4);
		}
		peer_expect_close(&peer, 1009);
		hang_up();
		dial("/echo", "permessage-deflate", BASE);
		send_packed("fine", 4);
		expect_packed("fine", 4);
		hang_up();
	}
	app_end();
}
