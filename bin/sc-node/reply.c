/* reply.c: requests to a command, its output back as replies. */
#include <stdio.h>
#include <sys/wait.h>

#include "msg/json.h"
#include "msg/pack.h"
#include "sc-node.h"

#define ERRORS_MAX (64u << 10) /* of a command's standard error, in an exception */

struct reply {
	struct hub hub;
	const struct node_opts *o;
	char *const *argv;
	struct sc_child *child;
	struct sc_bytes request; /* of the one at hand: uid, channel, subject */
	size_t uid_len, channel_len;
	struct sc_bytes subject, data; /* of the reply */
	int64_t finished;
	bool next_due, finishing;
	bool ack_late; /* of the request at hand: when its command has ended */
	bool ack_due;  /* of the last request: with the close, so that no other one comes */
};

static bool busy(struct hub *h)
{
	return ((struct reply *)h->arg)->child != NULL;
}

static void acknowledge(struct reply *r)
{
	struct sc_err err;

	if (sc_node_link_ack(r->hub.link, &err) < 0)
		hub_fail(&r->hub, &err);
}

static void end(struct reply *r)
{
	if (r->ack_due && !r->hub.ending)
		acknowledge(r);
	r->ack_due = false;
	hub_end(&r->hub);
}

static void next(struct reply *r)
{
	const struct sc_node *node = sc_node_link_node(r->hub.link);

	if (r->finishing || r->hub.signo) {
		/* the reply is on its way: it has its answer first */
		r->finishing = true;
		if (sc_node_waiting(node) == 0 || r->hub.signo)
			end(r);
		return;
	}
	r->next_due = sc_node_room(node) == 0;
	if (!r->next_due)
		sc_node_link_done(r->hub.link);
}

static bool ends_with(struct sc_span text, const char *end)
{
	size_t len = strlen(end);

	return text.len >= len && memcmp(text.data + text.len - len, end, len) == 0;
}

/* The request's subject with its last ".request" replaced; cut where the whole would be too
 * long. */
static int make_subject(struct reply *r, struct sc_span subject, const char *end,
			struct sc_err *err)
{
	static const char request[] = ".request";
	size_t room = SC_MSG_NAME_MAX - strlen(end);

	if (ends_with(subject, request))
		subject.len -= strlen(request);
	if (subject.len > room) {
		subject.len = room;
		while (subject.len && ((unsigned char)subject.data[subject.len] & 0xc0) == 0x80)
			subject.len--;
	}
	sc_bytes_clear(&r->subject);
	if (sc_bytes_put(&r->subject, subject.data, subject.len) < 0 ||
	    sc_bytes_puts(&r->subject, end) < 0)
		return sc_err_nomem(err, "cannot reply");
	return 0;
}

static int publish(struct reply *r, const char *end, struct sc_err *err)
{
	size_t head = r->uid_len + r->channel_len;
	struct sc_span subject = sc_span(r->request.data + head, r->request.len - head);
	struct sc_msg msg = {
		.channel = sc_span(r->request.data + r->uid_len, r->channel_len),
		.reference = sc_span(r->request.data, r->uid_len),
		.data = sc_span(r->data.data, r->data.len),
	};
	int rc = make_subject(r, subject, end, err);

	if (rc < 0)
		return rc;
	msg.subject = sc_span(r->subject.data, r->subject.len);
	rc = check_size(r->o, &msg, err);
	return rc < 0 ? rc : sc_node_link_put(r->hub.link, &msg, 0, err);
}

/* Bytes of a command as a str; what is not UTF-8 as bin, since published nodes leave a broker that
 * sends them such a str. */
static int put_text(struct sc_bytes *out, struct sc_span text)
{
	if (text.len == 0)
		text.data = "";
	return sc_utf8_valid(text) ? sc_pack_str(out, text) : sc_pack_bin(out, text);
}

/* Without the part of a character that a limit has left at the end. */
static struct sc_span whole_letters(struct sc_span text)
{
	size_t back = 1;

	while (back < 4 && back < text.len &&
	       ((unsigned char)text.data[text.len - back] & 0xc0) == 0x80)
		back++;
	if (back <= text.len && (unsigned char)text.data[text.len - back] >= 0xc0 &&
	    !sc_utf8_valid(sc_span(text.data + text.len - back, back)))
		text.len -= back;
	return text;
}

/* What it said of its failure. */
static struct sc_span said(const struct sc_child_end *end)
{
	return end->errors_cut ? whole_letters(end->errors) : end->errors;
}

/* {"exit":N,"stderr":".."}, with "error" where the command itself was content. */
static int put_exception(struct reply *r, int exit_status, const char *why, struct sc_span errors,
			 struct sc_err *err)
{
	int rc;

	sc_bytes_clear(&r->data);
	rc = sc_pack_map(&r->data, why ? 3 : 2);
	if (rc == 0)
		rc = sc_pack_str(&r->data, SC_SPAN("exit"));
	if (rc == 0)
		rc = sc_pack_i64(&r->data, exit_status);
	if (rc == 0 && why)
		rc = sc_pack_str(&r->data, SC_SPAN("error"));
	if (rc == 0 && why)
		rc = put_text(&r->data, sc_span_str(why));
	if (rc == 0)
		rc = sc_pack_str(&r->data, SC_SPAN("stderr"));
	if (rc == 0)
		rc = put_text(&r->data, errors);
	return rc < 0 ? sc_err_nomem(err, "cannot reply") : 0;
}

/* As many of its words as --max-message allows. */
static int publish_exception(struct reply *r, int exit_status, const char *why,
			     struct sc_span errors, struct sc_err *err)
{
	for (;;) {
		int rc = put_exception(r, exit_status, why, errors, err);

		if (rc == 0)
			rc = publish(r, ".exception", err);
		if (rc != SC_E_DATA || errors.len == 0)
			return rc;
		errors = whole_letters(sc_span(errors.data, errors.len / 2));
	}
}

/* The command's output as the reply's data. Nothing is null. */
static int make_data(struct reply *r, const struct sc_child_end *end, struct sc_err *err)
{
	struct sc_span text = sc_json_trim(end->output);
	struct sc_json value;
	int rc;

	sc_bytes_clear(&r->data);
	if (end->output_cut)
		return sc_err_set(err, SC_E_DATA, "cannot reply",
				  "the output is larger than a message may be");
	if (r->o->raw)
		return put_text(&r->data, end->output) < 0 ? sc_err_nomem(err, "cannot reply") : 0;
	if (text.len == 0)
		return sc_pack_nil(&r->data) < 0 ? sc_err_nomem(err, "cannot reply") : 0;
	rc = sc_json_scan(text, &value, err);
	return rc < 0 ? rc : sc_msg_json_pack(&value, &r->data, err);
}

static void tell_failure(struct reply *r, int status, const char *why)
{
	char uid[SC_MSG_UID_TEXT];
	struct sc_err err;

	sc_msg_uid_text(sc_span(r->request.data, r->uid_len), uid);
	if (why)
		sc_err_set(&err, SC_E_PARTIAL, "cannot reply with the output of", "%s", why);
	else if (status > 128)
		sc_err_set(&err, SC_E_PARTIAL, "cannot reply with the output of",
			   "it was ended by signal %d", status - 128);
	else
		sc_err_set(&err, SC_E_PARTIAL, "cannot reply with the output of",
			   "it ended with status %d", status);
	sc_err_on(&err, "command", r->argv[0]);
	sc_err_field_str(&err, "uid", uid);
	hub_partial(&r->hub, &err);
}

static void finish(struct reply *r)
{
	r->finished++;
	if (r->o->count && r->finished >= r->o->count)
		r->finishing = true;
	r->ack_due = r->ack_late && (r->finishing || r->hub.signo);
	if (r->ack_late && !r->ack_due)
		acknowledge(r);
	next(r);
}

static void on_child_end(void *arg, const struct sc_child_end *end)
{
	struct reply *r = arg;
	int status = WIFSIGNALED(end->status) ? 128 + WTERMSIG(end->status)
					      : WEXITSTATUS(end->status);
	const char *why = end->errnum ? "how it ended cannot be learned" : NULL;
	struct sc_err err, cause;
	int rc = 0;

	if (!r->hub.ending) {
		if (status == 0 && !why && make_data(r, end, &cause) < 0)
			why = cause.reason;
		if (status == 0 && !why) {
			rc = publish(r, ".reply", &cause);
			if (rc == SC_E_DATA)
				why = cause.reason;
			else if (rc < 0)
				err = cause;
		}
		if (status || why) {
			tell_failure(r, status, why);
			rc = publish_exception(r, status, why, said(end), &err);
		}
		if (rc == SC_E_DATA) { /* it fits into no message at all */
			hub_partial(&r->hub, &err);
			rc = 0;
		}
	}
	sc_child_free(r->child);
	r->child = NULL;
	if (rc < 0)
		hub_fail(&r->hub, &err);
	else if (!r->hub.ending)
		finish(r);
}

static int keep(struct reply *r, const struct sc_msg *msg, struct sc_err *err)
{
	sc_bytes_clear(&r->request);
	r->uid_len = msg->uid.len;
	r->channel_len = msg->channel.len;
	if (sc_bytes_put(&r->request, msg->uid.data, msg->uid.len) < 0 ||
	    sc_bytes_put(&r->request, msg->channel.data, msg->channel.len) < 0 ||
	    sc_bytes_put(&r->request, msg->subject.data, msg->subject.len) < 0) {
		sc_bytes_clear(&r->request); /* half of it is none */
		return sc_err_nomem(err, "cannot keep a request");
	}
	return 0;
}

static int start(struct reply *r, const struct sc_msg *msg, struct sc_err *err)
{
	struct sc_child_options options = {
		.argv = r->argv,
		.output_max = r->o->message_max * LINE_FACTOR,
		.errors_max = ERRORS_MAX,
	};
	struct message_env env;
	int rc = keep(r, msg, err);

	sc_bytes_clear(&r->hub.text);
	if (rc == 0)
		rc = sc_msg_line_print(msg, SC_MSG_BARE, &r->hub.text, err);
	if (rc == 0)
		rc = message_env_make(&env, msg, err);
	if (rc < 0)
		return rc;
	options.input = sc_span(r->hub.text.data, r->hub.text.len);
	options.env = env.list;
	rc = sc_child_start(r->hub.loop, &options, on_child_end, r, &r->child, err);
	message_env_done(&env);
	return rc;
}

static void on_message(struct hub *h, const struct sc_msg *msg)
{
	struct reply *r = h->arg;
	struct sc_err err, cause;

	/* a reply that our own pattern matches as well */
	if (msg->reference.len || ends_with(msg->subject, ".reply") ||
	    ends_with(msg->subject, ".exception")) {
		acknowledge(r);
		next(r);
		return;
	}
	r->ack_late = r->o->ack == ACK_EXEC || (r->o->count && r->finished + 1 >= r->o->count);
	if (start(r, msg, &err) == 0) {
		if (!r->ack_late)
			acknowledge(r);
		return;
	}
	cause = err;
	if (r->request.len == 0 || publish_exception(r, 127, cause.reason, SC_SPAN(""), &err) == 0)
		acknowledge(
			r); /* who asked knows; without a command there is nothing to go on with */
	hub_fail(h, &cause);
}

static void on_settled(struct hub *h, const struct sc_node_news *news)
{
	struct reply *r = h->arg;

	(void)news;
	if (r->next_due || (r->finishing && !r->child))
		next(r);
}

static void on_late(struct hub *h)
{
	struct reply *r = h->arg;
	struct sc_err err;

	if (!r->o->count) {
		hub_end(h);
		return;
	}
	sc_err_set(&err, SC_E_TIMEOUT, "cannot finish", "%lld requests came within %lld ms",
		   (long long)r->finished, (long long)r->o->timeout_ms);
	hub_fail(h, &err);
}

static const struct hub_verb verb = {
	.message = on_message,
	.settled = on_settled,
	.late = on_late,
	.busy = busy,
	.stays = true,
};

int run_reply(const void *given, char *const *operands, struct sc_err *err)
{
	const struct node_opts *o = given;
	struct reply r = { .o = o, .argv = operands + 2 };
	int rc;

	sc_bytes_init(&r.request, SIZE_MAX / 2);
	sc_bytes_init(&r.subject, SIZE_MAX / 2);
	sc_bytes_init(&r.data, SIZE_MAX / 2);
	rc = hub_open(&r.hub, o, 64, &verb, &r, err);
	if (rc == 0) {
		rc = hub_subscribe(&r.hub, operands[0], operands[1], err);
		if (rc == 0)
			rc = hub_run(&r.hub, err);
		sc_say(SC_INFO, "%lld requests finished", (long long)r.finished);
		sc_child_free(r.child);
		hub_close(&r.hub);
	}
	sc_bytes_done(&r.request);
	sc_bytes_done(&r.subject);
	sc_bytes_done(&r.data);
	return rc;
}
