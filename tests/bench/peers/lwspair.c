/*
 * tests/bench/peers/lwspair.c: the bare ping-pong over libwebsockets that sc-broker is compared
 * with.
 *
 *     lwspair PORT
 *
 * The frames of a wsmsg broker and nothing of its work: no parsing, no queues, no routing.
 * /from and /to: a message from /from is answered with an ack, and goes to /to; what /to sends is
 * its ack, and ends there. /one: the first message comes back, and again for each message after it.
 * Built by setup.sh, where libwebsockets is to be had. Whatever is not as it should be ends it.
 */
#include <libwebsockets.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UID_AT 3 /* behind the heads of the array and of the bin */
#define UID_BYTES 16

enum role { FROM, TO, ONE };

struct client {
	struct lws *wsi;
	enum role role;
	size_t in, out; /* bytes gathered; bytes to be sent, 0: none */
	unsigned char input[LWS_PRE + 65536], output[LWS_PRE + 65536];
};

static struct client *to; /* who gets what /from sends */

static int fail(const char *why)
{
	fprintf(stderr, "lwspair: %s\n", why);
	exit(1);
}

static enum role role_of(struct lws *wsi)
{
	char path[64] = "";

	lws_hdr_copy(wsi, path, sizeof(path), WSI_TOKEN_GET_URI);
	return strcmp(path, "/to") == 0 ? TO : strcmp(path, "/one") == 0 ? ONE : FROM;
}

static void send_to(struct client *c, const void *data, size_t len)
{
	if (c->out)
		fail("the peer does not keep to a window of one");
	memcpy(c->output + LWS_PRE, data, len);
	c->out = len;
	lws_callback_on_writable(c->wsi);
}

/* [uid, "system", "ack", the message's uid, 1], as the broker has it */
static void send_ack(struct client *c, const unsigned char *message, size_t len)
{
	static unsigned char ack[] = "\x95\xc4\x10................\xa6system\xa3"
				     "ack\xc4\x10................\x01";

	if (len < UID_AT + UID_BYTES)
		fail("a message is too short");
	memcpy(ack + sizeof(ack) - 2 - UID_BYTES, message + UID_AT, UID_BYTES);
	send_to(c, ack, sizeof(ack) - 1);
}

static void message(struct client *c)
{
	unsigned char *data = c->input + LWS_PRE;

	if (c->role == FROM) {
		if (!to)
			fail("nobody is at /to");
		send_ack(c, data, c->in);
		send_to(to, data, c->in);
	} else if (c->role == ONE) {
		static unsigned char kept[65536];
		static size_t len;

		if (len == 0) {
			memcpy(kept, data, c->in);
			len = c->in;
		}
		send_to(c, kept, len);
	}
}

static int callback(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in,
		    size_t len)
{
	struct client *c = user;

	switch (reason) {
	case LWS_CALLBACK_ESTABLISHED:
		c->wsi = wsi;
		c->role = role_of(wsi);
		if (c->role == TO)
			to = c;
		break;
	case LWS_CALLBACK_CLOSED:
		if (to == c)
			to = NULL;
		break;
	case LWS_CALLBACK_RECEIVE:
		if (len > sizeof(c->input) - LWS_PRE - c->in)
			fail("a message is too large");
		memcpy(c->input + LWS_PRE + c->in, in, len);
		c->in += len;
		if (lws_is_final_fragment(wsi)) {
			message(c);
			c->in = 0;
		}
		break;
	case LWS_CALLBACK_SERVER_WRITEABLE:
		if (c->out &&
		    lws_write(wsi, c->output + LWS_PRE, c->out, LWS_WRITE_BINARY) < (int)c->out)
			return -1;
		c->out = 0;
		break;
	default:
		break;
	}
	return 0;
}

int main(int argc, char **argv)
{
	static const struct lws_protocols protocols[] = { { .name = "wsmsg",
							    .callback = callback,
							    .per_session_data_size = sizeof(
								    struct client),
							    .rx_buffer_size = 65536 },
							  { .name = NULL } };
	struct lws_context_creation_info info = { .iface = "127.0.0.1",
						  .protocols = protocols,
						  .gid = -1,
						  .uid = -1,
						  .pt_serv_buf_size = 65536,
						  .options = LWS_SERVER_OPTION_DISABLE_IPV6 };
	struct lws_context *context;

	if (argc != 2 || (info.port = atoi(argv[1])) <= 0)
		return fail("give a port");
	lws_set_log_level(LLL_ERR, NULL);
	context = lws_create_context(&info);
	if (!context)
		return fail("cannot listen");
	while (lws_service(context, 0) >= 0)
		;
	lws_context_destroy(context);
	return 0;
}
