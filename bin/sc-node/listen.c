/* listen.c: sub and node: messages printed or given to a command, and acknowledged. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/words.h"
#include "sc-node.h"

struct listen {
	struct hub hub;
	const struct node_opts *o;
	bool node;        /* input lines are published */
	int64_t finished; /* messages done with */
	bool next_due;    /* the next message, once there is room for what it may publish */
	bool finishing;   /* over when the last answer has come */
	bool ack_due;     /* of the last message: with the close, so that no other one comes */
	bool printing;    /* its line waits for the reader */
	struct sc_child *child;     /* --exec at work */
	struct sc_bytes kept, line; /* of the message at hand, for --on-fail; of a line of input */
	size_t kept_uid;
	char **fail_words;
	const char *fail_subject;
};

static bool busy(struct hub *h)
{
	return ((struct listen *)h->arg)->child != NULL;
}

static void end(struct listen *l)
{
	struct sc_err err;

	if (l->ack_due && !l->hub.ending && sc_node_link_ack(l->hub.link, &err) < 0)
		hub_fail(&l->hub, &err);
	l->ack_due = false;
	hub_end(&l->hub);
}

static void check_end(struct listen *l)
{
	if (l->finishing && !l->child && sc_node_waiting(sc_node_link_node(l->hub.link)) == 0)
		end(l);
}

static void next(struct listen *l)
{
	if (l->hub.signo) {
		end(l);
		return;
	}
	if (l->finishing) {
		check_end(l);
		return;
	}
	l->next_due = sc_node_room(sc_node_link_node(l->hub.link)) == 0;
	if (!l->next_due)
		sc_node_link_done(l->hub.link);
}

/* The message at hand is done with. */
static void finish(struct listen *l)
{
	struct sc_err err;

	l->finished++;
	if (l->o->count && l->finished >= l->o->count)
		l->finishing = true;
	l->ack_due = l->finishing || l->hub.signo;
	if (!l->ack_due && sc_node_link_ack(l->hub.link, &err) < 0)
		hub_fail(&l->hub, &err);
	else
		next(l);
}

/* --exec */

static void publish_failed(struct listen *l)
{
	struct sc_span kept = sc_span(l->kept.data, l->kept.len);
	struct sc_msg msg = {
		.channel = sc_span_str(l->fail_words[0]),
		.subject = sc_span_str(l->fail_subject),
		.reference = sc_span(kept.data, l->kept_uid),
		.data = sc_span(kept.data + l->kept_uid, kept.len - l->kept_uid),
	};
	struct sc_err err;

	if (sc_node_link_put(l->hub.link, &msg, 0, &err) < 0)
		hub_fail(&l->hub, &err);
}

static void command_failed(struct listen *l, struct sc_err *err)
{
	char uid[SC_MSG_UID_TEXT];

	sc_msg_uid_text(sc_node_link_holds(l->hub.link), uid);
	sc_err_field_str(err, "uid", uid);
	hub_partial(&l->hub, err);
	if (l->fail_words)
		publish_failed(l);
}

static void on_child_end(void *arg, const struct sc_child_end *end)
{
	struct listen *l = arg;
	struct sc_err err;
	bool failed;

	if (end->errnum)
		sc_err_sys(&err, SC_E_PARTIAL, end->errnum, "cannot wait for");
	else if (WIFSIGNALED(end->status))
		sc_err_set(&err, SC_E_PARTIAL, "cannot finish", "it was ended by signal %d",
			   WTERMSIG(end->status));
	else
		sc_err_set(&err, SC_E_PARTIAL, "cannot finish", "it ended with status %d",
			   WEXITSTATUS(end->status));
	failed = end->errnum || !WIFEXITED(end->status) || WEXITSTATUS(end->status) != 0;
	sc_child_free(l->child); /* and END with it */
	l->child = NULL;
	if (failed) {
		sc_err_on(&err, "command", l->o->exec);
		command_failed(l, &err);
	}
	if (!l->hub.ending)
		finish(l);
}

static int keep(struct listen *l, const struct sc_msg *msg, struct sc_err *err)
{
	sc_bytes_clear(&l->kept);
	l->kept_uid = msg->uid.len;
	if (sc_bytes_put(&l->kept, msg->uid.data, msg->uid.len) < 0 ||
	    sc_bytes_put(&l->kept, msg->data.data, msg->data.len) < 0)
		return sc_err_nomem(err, "cannot keep a message");
	return 0;
}

static void execute(struct listen *l, const struct sc_msg *msg)
{
	char *argv[] = { "sh", "-c", (char *)(uintptr_t)l->o->exec, NULL };
	struct sc_child_options options = { .argv = argv };
	struct message_env env;
	struct sc_err err;
	int rc = keep(l, msg, &err);

	sc_bytes_clear(&l->hub.text);
	if (rc == 0)
		rc = sc_msg_line_print(msg, (enum sc_msg_form)l->o->format, &l->hub.text, &err);
	if (rc == 0)
		rc = message_env_make(&env, msg, &err);
	if (rc < 0) {
		hub_fail(&l->hub, &err);
		return;
	}
	options.input = sc_span(l->hub.text.data, l->hub.text.len);
	options.env = env.list;
	rc = sc_child_start(l->hub.loop, &options, on_child_end, l, &l->child, &err);
	message_env_done(&env);
	if (rc < 0) { /* it has not had the message: no ack */
		hub_fail(&l->hub, &err);
	}
}

/* Messages */

static void on_message(struct hub *h, const struct sc_msg *msg)
{
	struct listen *l = h->arg;
	int rc;

	if (l->o->ack == ACK_EXEC) {
		execute(l, msg);
		return;
	}
	rc = hub_print(h, msg, (enum sc_msg_form)l->o->format);
	if (rc < 0)
		return;
	if (l->o->ack == ACK_AUTO) {
		l->printing = rc == 0;
		if (rc == 1)
			finish(l);
	} else if (l->o->ack == ACK_NONE) {
		l->finished++;
		l->finishing = l->o->count && l->finished >= l->o->count;
		if (l->finishing)
			next(l);
	}
}

static void on_printed(struct hub *h)
{
	struct listen *l = h->arg;

	if (!l->printing)
		return;
	l->printing = false;
	finish(l);
}

static void on_settled(struct hub *h, const struct sc_node_news *news)
{
	struct listen *l = h->arg;

	(void)news;
	hub_read(h, !l->finishing);
	if (l->next_due)
		next(l);
	check_end(l);
}

static void on_ready(struct hub *h)
{
	hub_read(h, true);
}

/* Input */

static void bad_line(struct listen *l, struct sc_err *err, uint64_t number)
{
	name_line(err, number);
	hub_partial(&l->hub, err);
	if (!l->o->strict)
		return;
	hub_read(&l->hub, false);
	l->finishing = true;
	check_end(l);
}

static int take_ack(struct listen *l, const struct sc_msg *msg, struct sc_err *err)
{
	struct sc_span uid = sc_node_link_holds(l->hub.link);

	if (l->o->ack != ACK_MANUAL)
		return sc_err_set(err, SC_E_DATA, "cannot acknowledge",
				  "lines do that with --ack manual only");
	if (uid.len == 0 || uid.len != msg->uid.len ||
	    memcmp(uid.data, msg->uid.data, uid.len) != 0)
		return sc_err_set(err, SC_E_DATA, "cannot acknowledge",
				  "no message of that uid waits for it");
	finish(l);
	return 0;
}

static int take_line(struct listen *l, const struct sc_msg *msg, uint64_t number,
		     struct sc_err *err)
{
	int rc;

	if (!l->node) {
		sc_err_set(err, SC_E_DATA, "cannot use it", "lines are {\"ack\":UID} here");
		return sc_err_next(err, "sc-node node publishes lines as well");
	}
	rc = check_size(l->o, msg, err);
	if (rc == 0)
		rc = sc_node_link_put(l->hub.link, msg, number, err);
	/* one place is for what a failed command publishes */
	if (rc == 0 && sc_node_room(sc_node_link_node(l->hub.link)) <= 1)
		hub_read(&l->hub, false);
	return rc;
}

static void on_line(struct hub *h, struct sc_span line, uint64_t number)
{
	struct listen *l = h->arg;
	struct sc_msg msg;
	struct sc_err err;
	bool ack;
	int rc;

	if (line.data && sc_json_trim(line).len == 0)
		return;
	rc = line.data ? sc_msg_line_parse(line, &l->line, &msg, &ack, &err)
		       : refuse_long_line(h, &err);
	if (rc == 0)
		rc = ack ? take_ack(l, &msg, &err) : take_line(l, &msg, number, &err);
	if (rc == SC_E_DATA)
		bad_line(l, &err, number);
	else if (rc < 0)
		hub_fail(h, &err);
}

static void on_eof(struct hub *h)
{
	struct listen *l = h->arg;

	if (l->node && !l->o->exit_on_eof)
		return;
	/* of sub --ack manual: nothing can be acknowledged any more */
	l->finishing = true;
	check_end(l);
}

static void on_late(struct hub *h)
{
	struct listen *l = h->arg;
	struct sc_err err;

	if (!l->o->count && !l->o->exit_on_eof) {
		hub_end(h);
		return;
	}
	sc_err_set(&err, SC_E_TIMEOUT, "cannot finish", "%lld messages came within %lld ms",
		   (long long)l->finished, (long long)l->o->timeout_ms);
	sc_err_field_int(&err, "count", l->finished);
	hub_fail(h, &err);
}

/* The command line */

static int check(struct node_opts *o, bool node, struct sc_err *err)
{
	if (o->exec && !o->ack_given)
		o->ack = ACK_EXEC;
	if (o->exec && o->ack != ACK_EXEC) {
		sc_err_set(err, SC_E_USAGE, "cannot use --exec",
			   "the command's end acknowledges a message");
		return sc_err_next(err, "leave --ack out, or give --ack exec");
	}
	if (o->ack == ACK_EXEC && !o->exec) {
		sc_err_set(err, SC_E_USAGE, "cannot use --ack exec", "there is no command");
		return sc_err_next(err, "give one with --exec");
	}
	if (o->on_fail && !o->exec) {
		sc_err_set(err, SC_E_USAGE, "cannot use --on-fail",
			   "there is no command that could fail");
		return sc_err_next(err, "give one with --exec");
	}
	if (node && o->window < 2)
		o->window = 2; /* one for lines, one for --on-fail */
	return 0;
}

static int subscribe(struct listen *l, char *const *operands, struct sc_err *err)
{
	int rc = 0;

	if (operands[0])
		rc = hub_subscribe(&l->hub, operands[0], operands[1] ? operands[1] : "*", err);
	for (size_t i = 0; rc == 0 && i < l->o->also.count; i++) {
		const char *subject;
		char **words;

		rc = split_pair("--also", l->o->also.items[i], "*", &words, &subject, err);
		if (rc < 0)
			break;
		rc = hub_subscribe(&l->hub, words[0], subject, err);
		sc_words_free(words);
	}
	return rc;
}

static int run(const struct node_opts *given, bool node, char *const *operands, struct sc_err *err)
{
	struct hub_verb verb = {
		.ready = on_ready,
		.message = on_message,
		.settled = on_settled,
		.line = on_line,
		.eof = on_eof,
		.printed = on_printed,
		.late = on_late,
		.busy = busy,
		.prints = true,
		.stays = true,
	};
	struct node_opts o = *given;
	struct listen l = { .node = node, .o = &o };
	int rc = check(&o, node, err);

	if (rc == 0 && o.on_fail)
		rc = split_pair("--on-fail", o.on_fail, NULL, &l.fail_words, &l.fail_subject, err);
	if (rc < 0)
		return rc;
	sc_bytes_init(&l.kept, SIZE_MAX / 2);
	sc_bytes_init(&l.line, SIZE_MAX / 2);
	verb.reads = node || o.ack == ACK_MANUAL;
	rc = hub_open(&l.hub, &o, node ? (size_t)o.window : 64, &verb, &l, err);
	if (rc == 0) {
		rc = subscribe(&l, operands, err);
		if (rc == 0)
			rc = hub_run(&l.hub, err);
		sc_say(SC_INFO, "%lld messages finished", (long long)l.finished);
		sc_child_free(l.child);
		hub_close(&l.hub);
	}
	sc_words_free(l.fail_words);
	sc_bytes_done(&l.kept);
	sc_bytes_done(&l.line);
	return rc;
}

int run_sub(const void *given, char *const *operands, struct sc_err *err)
{
	return run(given, false, operands, err);
}

int run_node(const void *given, char *const *operands, struct sc_err *err)
{
	return run(given, true, operands, err);
}
