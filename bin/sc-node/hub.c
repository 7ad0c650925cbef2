/* hub.c: one node between a broker, standard input and output, timers and signals. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "client/output.h"
#include "msg/pack.h"
#include "msg/pattern.h"
#include "msg/ulid.h"
#include "sc-node.h"

#define LAST_MS 100 /* at the end: how long the reader of our output is waited for */
#define RECEIVE_MAX \
	(257ull << 20) /* the largest that a broker may be told to take, and its frame */

static void leave_broker(struct hub *h);

static void note(struct hub *h, const struct sc_err *err)
{
	if (h->rc == 0) {
		h->rc = err->code;
		h->err = *err;
	}
}

void hub_end(struct hub *h)
{
	if (h->ending)
		return;
	h->ending = true;
	sc_timer_stop(h->limit);
	sc_timer_stop(h->quiet);
	if (h->input)
		input_set(h->input, false);
	leave_broker(h);
	sc_node_link_close(h->link);
}

void hub_fail(struct hub *h, const struct sc_err *err)
{
	note(h, err);
	hub_end(h);
}

void hub_partial(struct hub *h, const struct sc_err *err)
{
	h->partial = true;
	sc_say_err(SC_ERROR, err);
}

/* Output */

static void output_failed(struct hub *h, const struct sc_err *err)
{
	/* the reader has left: that is an end, and the line at hand stays unacknowledged */
	if (err->errnum != EPIPE)
		note(h, err);
	hub_end(h);
}

static int flush(struct hub *h)
{
	struct sc_err err;
	int rc = sc_output_flush(h->output, &err);

	if (rc < 0) {
		output_failed(h, &err);
		return rc;
	}
	h->output_waits = rc == 0;
	if (h->output_watch)
		sc_watch_set(h->output_watch, rc == 0 ? SC_WRITABLE : 0);
	return rc;
}

static void on_output(void *arg, int events)
{
	struct hub *h = arg;
	struct sc_err err;

	if (h->output_waits && !(events & SC_HANGUP)) {
		if (flush(h) == 1 && h->verb->printed && !h->ending)
			h->verb->printed(h);
		return;
	}
	if (events & SC_HANGUP) {
		sc_watch_free(h->output_watch);
		h->output_watch = NULL;
		sc_err_sys(&err, SC_E_IO, EPIPE, "cannot write to");
		output_failed(h, &err);
	}
}

int hub_print_text(struct hub *h, struct sc_span text)
{
	struct sc_err err;
	int rc = sc_output_put(h->output, text, 0, &err);

	if (rc < 0) {
		hub_fail(h, &err);
		return rc;
	}
	return flush(h);
}

int hub_print(struct hub *h, const struct sc_msg *msg, enum sc_msg_form form)
{
	struct sc_err err;
	int rc;

	sc_bytes_clear(&h->text);
	rc = sc_msg_line_print(msg, form, &h->text, &err);
	if (rc < 0) {
		hub_fail(h, &err);
		return rc;
	}
	return hub_print_text(h, sc_span(h->text.data, h->text.len));
}

/* The broker */

int check_size(const struct node_opts *o, const struct sc_msg *msg, struct sc_err *err)
{
	size_t size = sc_msg_size(msg) + (msg->uid.len ? 0 : SC_ULID_BYTES);

	if (size <= o->message_max)
		return 0;
	sc_err_set(err, SC_E_DATA, "cannot send a message",
		   "it has %zu bytes, and the limit is %llu", size,
		   (unsigned long long)o->message_max);
	return sc_err_next(err, "raise --max-message if the broker's is larger");
}

/* Of a line of input, in JSON. */
static size_t line_max(const struct node_opts *o)
{
	return o->message_max * LINE_FACTOR + 1024;
}

int hub_command(struct hub *h, const char *subject, struct sc_span data, bool kept, uint64_t tag,
		struct sc_err *err)
{
	struct sc_msg msg = {
		.channel = SC_SPAN(SC_MSG_SYSTEM),
		.subject = sc_span_str(subject),
		.data = data,
	};

	return kept ? sc_node_link_keep(h->link, &msg, tag, err)
		    : sc_node_link_put(h->link, &msg, tag, err);
}

static int check_name(const char *what, const char *name, size_t least, struct sc_err *err)
{
	size_t len = strlen(name);

	if (len >= least && len <= SC_MSG_NAME_MAX && sc_utf8_valid(sc_span_str(name)))
		return 0;
	sc_err_set(err, SC_E_USAGE, "cannot start", "%s has %zu to %d bytes of UTF-8", what, least,
		   SC_MSG_NAME_MAX);
	return err->code;
}

int hub_subscribe(struct hub *h, const char *channel, const char *subject, struct sc_err *err)
{
	struct pair *grown = sc_realloc(h->pairs, (h->pair_count + 1) * sizeof(*grown));
	struct sc_bytes data;
	int rc = check_name("a channel pattern", channel, 1, err);

	if (grown)
		h->pairs = grown;
	if (rc == 0)
		rc = check_name("a subject pattern", subject, 0, err);
	if (rc < 0)
		return rc;
	sc_bytes_init(&data, 1 << 16);
	if (!grown || sc_pack_array(&data, 3) < 0 ||
	    sc_pack_str(&data, sc_span_str(h->endpoint)) < 0 ||
	    sc_pack_str(&data, sc_span_str(channel)) < 0 ||
	    sc_pack_str(&data, sc_span_str(subject)) < 0 ||
	    !(h->pairs[h->pair_count].channel = strdup(channel)))
		rc = sc_err_nomem(err, "cannot subscribe");
	else if (!(h->pairs[h->pair_count++].subject = strdup(subject)))
		rc = sc_err_nomem(err, "cannot subscribe");
	if (rc == 0) {
		rc = hub_command(h, "subscribe.channel", sc_span(data.data, data.len), true, 0,
				 err);
	}
	sc_bytes_done(&data);
	return rc;
}

/* A subscription outlives the connection: those of an endpoint that nobody will use again are taken
 * back. The broker gets them before the close. */
static void leave_broker(struct hub *h)
{
	struct sc_bytes data;
	struct sc_err err;

	if (!h->own_endpoint || h->o->keep)
		return;
	sc_bytes_init(&data, 1 << 16);
	for (size_t i = 0; i < h->pair_count; i++) {
		struct sc_msg msg = {
			.channel = SC_SPAN(SC_MSG_SYSTEM),
			.subject = SC_SPAN("unsubscribe.channel"),
		};

		sc_bytes_clear(&data);
		if (sc_pack_array(&data, 2) < 0 ||
		    sc_pack_str(&data, sc_span_str(h->endpoint)) < 0 ||
		    sc_pack_str(&data, sc_span_str(h->pairs[i].channel)) < 0)
			break;
		msg.data = sc_span(data.data, data.len);
		if (sc_node_link_say(h->link, &msg, &err) < 0)
			break;
	}
	sc_bytes_done(&data);
}

static void say_ready(struct hub *h)
{
	struct sc_bytes text;
	struct sc_err err;

	sc_say(SC_INFO, "ready as endpoint '%s'", h->endpoint);
	if (!h->verb->stays || h->o->ready_fd < 0)
		return;
	sc_bytes_init(&text, 1 << 16);
	if (sc_bytes_puts(&text, "{\"event\":\"ready\",\"endpoint\":") < 0 ||
	    sc_bytes_put_json(&text, sc_span_str(h->endpoint)) < 0 ||
	    sc_bytes_putf(&text, ",\"pid\":%ld}\n", (long)getpid()) < 0)
		sc_err_nomem(&err, "cannot tell that the node is ready");
	else if (sc_write_all(h->o->ready_fd, text.data, text.len, "--ready-fd", &err) == 0)
		sc_err_clear(&err);
	sc_bytes_done(&text);
	if (h->o->ready_fd > STDERR_FILENO) /* no command shall have it */
		close(h->o->ready_fd);
	if (err.code)
		hub_fail(h, &err);
}

static void check_ready(struct hub *h)
{
	if (h->ready || h->ending || !sc_node_ready(sc_node_link_node(h->link)))
		return;
	h->ready = true;
	say_ready(h);
	if (h->verb->stays && h->o->idle_ms >= 0 && !h->ending)
		sc_timer_start(h->quiet, h->o->idle_ms);
	if (h->verb->ready && !h->ending)
		h->verb->ready(h);
}

static void on_opened(void *arg, const struct sc_client_opened *opened)
{
	struct hub *h = arg;

	sc_say(SC_INFO, "connected to %s", opened->where);
	/* what is subscribed to is not acknowledged on this connection yet, unless there is
	 * nothing */
	check_ready(h);
}

static int refusal(const struct sc_node_news *news, struct sc_err *err)
{
	bool denied = sc_span_is(news->code, "denied");
	char code[40];

	sc_err_set(err, denied ? SC_E_NOAUTH : SC_E_PARTIAL,
		   news->kept ? "cannot subscribe" : "cannot send a message",
		   "the broker refused it: %.*s (%.*s)",
		   (int)(news->text.len < 200 ? news->text.len : 200), news->text.data,
		   (int)(news->code.len < 40 ? news->code.len : 40), news->code.data);
	snprintf(code, sizeof(code), "%.*s", (int)news->code.len, news->code.data);
	sc_err_field_str(err, "code", code);
	return err->code;
}

void name_line(struct sc_err *err, uint64_t number)
{
	char text[24];

	text[sc_u64_digits(text, number)] = '\0';
	sc_err_on(err, "line", text);
	sc_err_field_int(err, "line", (int64_t)number);
}

int refuse_long_line(const struct hub *h, struct sc_err *err)
{
	sc_err_set(err, SC_E_DATA, "cannot send a message", "it is longer than %llu bytes",
		   (unsigned long long)line_max(h->o));
	return sc_err_next(err, "raise --max-message if the broker's is larger");
}

static void on_news(void *arg, const struct sc_node_news *news)
{
	struct hub *h = arg;
	struct sc_err err;

	if (h->ending)
		return;
	switch (news->kind) {
	case SC_NODE_ACKED:
		if (news->kept)
			check_ready(h);
		else if (h->verb->settled)
			h->verb->settled(h, news);
		break;
	case SC_NODE_REFUSED:
		refusal(news, &err);
		if (news->kept) {
			hub_fail(h, &err);
			break;
		}
		if (h->input && news->tag)
			name_line(&err, news->tag);
		if (err.code == SC_E_NOAUTH)
			note(h, &err);
		else
			hub_partial(h, &err);
		if (h->verb->settled)
			h->verb->settled(h, news);
		break;
	case SC_NODE_STATS:
		if (h->verb->stats)
			h->verb->stats(h, &news->msg);
		break;
	case SC_NODE_STOPPING:
		sc_say(SC_INFO, "the broker is stopping");
		break;
	case SC_NODE_NOTHING:
	case SC_NODE_DELIVERED:
		break;
	}
}

/* The published server knows no patterns of subjects: its nodes look at them themselves. */
static bool wanted(const struct hub *h, const struct sc_msg *msg)
{
	if (h->pair_count == 0 || sc_node_speaks(sc_node_link_node(h->link)) != SC_MSG_REFERENCE)
		return true;
	for (size_t i = 0; i < h->pair_count; i++)
		if (sc_pattern_match(sc_span_str(h->pairs[i].channel), msg->channel) &&
		    sc_pattern_match(sc_span_str(h->pairs[i].subject), msg->subject))
			return true;
	return false;
}

static void pass_over(struct hub *h)
{
	struct sc_err err;

	if (sc_node_link_ack(h->link, &err) < 0)
		hub_fail(h, &err);
	else
		sc_node_link_done(h->link);
}

/* Without an ack, so that the others stay where they are. */
void hub_lose(struct hub *h, const struct sc_msg *msg)
{
	char uid[SC_MSG_UID_TEXT];

	sc_msg_uid_text(msg->uid, uid);
	sc_say(SC_WARNING,
	       "message %s of endpoint '%s' was delivered here and is lost; give --endpoint of "
	       "others to sub, node and reply only",
	       uid, h->endpoint);
}

static void on_message(void *arg, const struct sc_msg *msg)
{
	struct hub *h = arg;

	if (h->ending) /* it stays without an ack */
		return;
	if (!wanted(h, msg)) {
		pass_over(h);
		return;
	}
	if (h->verb->stays && h->o->idle_ms >= 0)
		sc_timer_start(h->quiet, h->o->idle_ms);
	h->verb->message(h, msg);
}

static void on_ended(void *arg, const struct sc_client_ended *ended)
{
	struct hub *h = arg;
	char line[1200];

	if (h->ending || ended->wait_ms < 0)
		return;
	sc_err_line(ended->err, line, sizeof(line));
	if (ended->wait_ms == 0) {
		sc_say(SC_INFO, "%s; trying the other order of elements", line);
		return;
	}
	sc_say(SC_WARNING, "%s; trying again in %lld ms", line, (long long)ended->wait_ms);
}

static void on_finished(void *arg, const struct sc_err *err)
{
	struct hub *h = arg;

	if (!h->ending && err->code)
		note(h, err);
	h->ending = true;
	sc_loop_stop(h->loop);
}

static void on_warning(void *arg, const char *text)
{
	(void)arg;
	sc_say(SC_WARNING, "%s", text);
}

/* Input */

static void on_line(void *arg, struct sc_span line, uint64_t number)
{
	struct hub *h = arg;

	h->verb->line(h, line, number);
}

static void on_eof(void *arg)
{
	struct hub *h = arg;

	if (h->verb->eof && !h->ending)
		h->verb->eof(h);
}

static void on_input_failed(void *arg, const struct sc_err *err)
{
	hub_fail(arg, err);
}

void hub_read(struct hub *h, bool on)
{
	if (h->input && !h->ending && !h->signo && !input_ended(h->input))
		input_set(h->input, on);
}

bool hub_input_ended(const struct hub *h)
{
	return h->input && input_ended(h->input);
}

/* Time and signals */

static void on_limit(void *arg)
{
	struct hub *h = arg;
	struct sc_err err;

	if (h->verb->late) {
		h->verb->late(h);
		return;
	}
	sc_err_set(&err, SC_E_TIMEOUT, "cannot finish", "it took longer than %lld ms",
		   (long long)h->o->timeout_ms);
	hub_fail(h, &err);
}

static void on_quiet(void *arg)
{
	struct hub *h = arg;

	if (h->verb->busy && h->verb->busy(h))
		sc_timer_start(h->quiet, h->o->idle_ms);
	else
		hub_end(h);
}

/* The first ends the run when the message at hand is finished with, the second one at once. */
static void on_signal(void *arg, int signo)
{
	struct hub *h = arg;

	if (h->signo || h->ending) {
		h->signo = signo;
		sc_loop_stop(h->loop);
		return;
	}
	h->signo = signo;
	if (h->input)
		input_set(h->input, false);
	if (!h->verb->busy || !h->verb->busy(h))
		hub_end(h);
}

/* Setting up */

static int choose_endpoint(struct hub *h, struct sc_err *err)
{
	struct sc_ulid_maker maker = { 0 };
	struct sc_ulid ulid;
	const char *name = h->o->endpoint;

	if (!name) {
		ulid = sc_ulid_make(&maker, sc_wall_us() / 1000);
		sc_ulid_text(&ulid, h->endpoint);
		h->own_endpoint = true;
		return 0;
	}
	if (strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
		sc_err_set(err, SC_E_USAGE, "cannot start",
			   "'%s' cannot be the name of an endpoint", name);
		return sc_err_next(err, "it is one segment of a path: no '/' in it");
	}
	if (check_name("an endpoint", name, 1, err) < 0)
		return err->code;
	snprintf(h->endpoint, sizeof(h->endpoint), "%s", name);
	return 0;
}

static int open_link(struct hub *h, size_t window, struct sc_err *err)
{
	static const struct sc_node_link_hooks hooks = {
		.opened = on_opened,
		.news = on_news,
		.message = on_message,
		.ended = on_ended,
		.finished = on_finished,
		.warning = on_warning,
	};
	const struct node_opts *o = h->o;
	const char *url = o->url ? o->url : getenv("SC_BROKER_URL");
	const char *token = o->token_file ? NULL : getenv("SC_TOKEN");
	struct sc_node_link_options options = {
		.connection = SC_CLIENT_OPTIONS_STANDARD,
		.endpoint = h->endpoint,
		.token = token && *token ? token : NULL,
		.order = (enum sc_node_order)o->order,
		.window = window,
		.retry = o->retry,
	};

	options.connection.url = url && *url ? url : "ws://127.0.0.1:1234";
	options.connection.compress = false; /* small messages, one at a time */
	options.connection.token_file = o->token_file;
	sc_net_way_fill(&o->way, &options.connection);
	options.connection.message_max = RECEIVE_MAX;
	options.connection.send_max = o->message_max + (4u << 20);
	return sc_node_link_new(h->loop, &options, &hooks, h, &h->link, err);
}

static int open_output(struct hub *h, struct sc_err *err)
{
	int rc;

	if (!h->verb->prints) /* then nobody has to be there to read it */
		return 0;
	rc = sc_output_open(STDOUT_FILENO, "standard output", &h->output, err);
	if (rc < 0 || !sc_output_polls(h->output))
		return rc;
	return sc_watch_new(h->loop, sc_output_fd(h->output), 0, on_output, h, &h->output_watch,
			    err);
}

static int open_rest(struct hub *h, struct sc_err *err)
{
	static const int signals[] = { SIGTERM, SIGINT, SIGHUP };
	int rc = sc_timer_new(h->loop, on_limit, h, &h->limit, err);

	if (rc == 0)
		rc = sc_timer_new(h->loop, on_quiet, h, &h->quiet, err);
	for (size_t i = 0; rc == 0 && i < sizeof(signals) / sizeof(signals[0]); i++)
		rc = sc_loop_signal(h->loop, signals[i], on_signal, h, err);
	if (rc == 0 && h->verb->reads)
		rc = input_open(h->loop, line_max(h->o), on_line, on_eof, on_input_failed, h,
				&h->input, err);
	if (rc == 0 && h->o->timeout_ms >= 0)
		sc_timer_start(h->limit, h->o->timeout_ms);
	return rc;
}

int hub_open(struct hub *h, const struct node_opts *o, size_t window, const struct hub_verb *verb,
	     void *arg, struct sc_err *err)
{
	int rc;

	memset(h, 0, sizeof(*h));
	h->o = o;
	h->verb = verb;
	h->arg = arg;
	sc_bytes_init(&h->text, SIZE_MAX / 2);
	rc = choose_endpoint(h, err);
	if (rc == 0)
		rc = sc_loop_new(&h->loop, err);
	if (rc == 0)
		rc = open_link(h, window, err);
	if (rc == 0)
		rc = open_output(h, err);
	if (rc == 0)
		rc = open_rest(h, err);
	if (rc < 0)
		hub_close(h);
	return rc;
}

void hub_close(struct hub *h)
{
	input_close(h->input);
	sc_node_link_free(h->link);
	sc_watch_free(h->output_watch);
	sc_output_close(h->output);
	sc_timer_free(h->limit);
	sc_timer_free(h->quiet);
	sc_loop_free(h->loop);
	for (size_t i = 0; i < h->pair_count; i++) {
		free(h->pairs[i].channel);
		free(h->pairs[i].subject);
	}
	free(h->pairs);
	sc_bytes_done(&h->text);
	memset(h, 0, sizeof(*h));
}

int hub_run(struct hub *h, struct sc_err *err)
{
	struct sc_err last;
	int rc = sc_loop_run(h->loop, err);

	if (rc < 0)
		return rc;
	/* what was printed and is not out yet, as long as its reader takes */
	while (rc == 0 && h->output && !sc_output_empty(h->output) && !h->signo) {
		rc = sc_output_drain(h->output, LAST_MS, &last);
		h->signo = sc_loop_signal_pending(); /* one that came after the loop */
	}
	if (rc < 0 && last.errnum != EPIPE)
		note(h, &last);
	if (h->signo)
		return 128 + h->signo;
	if (h->rc < 0) {
		*err = h->err;
		return h->rc;
	}
	return h->status ? h->status : h->partial ? 1 : 0;
}
