/* ctl.c: one command to the broker. */
#include "msg/pack.h"
#include "sc-node.h"

struct ctl {
	struct hub hub;
	char subject[32];
	struct sc_bytes data;
	bool stats, acked, answered;
};

/* words of the command line, the subject, their arguments: s a str, n a number, * a str that may be
 * left out */
static const struct form {
	const char *first, *second, *subject, *args;
} forms[] = {
	{ "pause", NULL, "pause", "" },
	{ "resume", NULL, "resume", "" },
	{ "stop", NULL, "stop", "" },
	{ "stats", NULL, "stats", "" },
	{ "channel", "create", "channel.create", "s" },
	{ "channel", "size", "channel.size", "sn" },
	{ "channel", "priority", "channel.priority", "sn" },
	{ "endpoint", "create", "endpoint.create", "s" },
	{ "endpoint", "size", "endpoint.size", "sn" },
	{ "subscribe", NULL, "subscribe.channel", "ss*" },
	{ "unsubscribe", NULL, "unsubscribe.channel", "ss" },
};

static int usage(struct sc_err *err, const char *reason, const char *word)
{
	sc_err_set(err, SC_E_USAGE, "cannot start", reason, word);
	return sc_err_next(err, "see 'sc-node ctl --help'");
}

static int pack_arg(struct ctl *c, char kind, const char *word, struct sc_err *err)
{
	int64_t number;
	int rc;

	if (kind == 'n') {
		if (!sc_i64_parse(sc_span_str(word), &number))
			return usage(err, "'%s' is not a number", word);
		rc = sc_pack_i64(&c->data, number);
	} else {
		if (!sc_utf8_valid(sc_span_str(word)))
			return usage(err, "'%s' is not UTF-8", word);
		rc = sc_pack_str(&c->data, sc_span_str(word));
	}
	return rc < 0 ? sc_err_nomem(err, "cannot start") : 0;
}

static int pack_args(struct ctl *c, const struct form *f, char *const *words, struct sc_err *err)
{
	size_t wanted = strlen(f->args), given = 0;
	int rc;

	while (words[given])
		given++;
	if (given > wanted)
		return usage(err, "there is nothing to do with '%s'", words[wanted]);
	if (given < wanted && f->args[given] != '*')
		return usage(err, "an argument of '%s' is missing", f->subject);
	/* a subject pattern that is left out means all subjects; of an unsubscribe there is none */
	rc = sc_pack_array(&c->data, (uint32_t)wanted) < 0 ? sc_err_nomem(err, "cannot start") : 0;
	for (size_t i = 0; rc == 0 && i < wanted; i++)
		rc = pack_arg(c, f->args[i], i < given ? words[i] : "*", err);
	return rc;
}

static int make(struct ctl *c, char *const *operands, struct sc_err *err)
{
	bool half = false;

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		const struct form *f = &forms[i];

		if (strcmp(operands[0], f->first) != 0)
			continue;
		half = true;
		if (f->second && (!operands[1] || strcmp(operands[1], f->second) != 0))
			continue;
		memcpy(c->subject, f->subject, strlen(f->subject) + 1);
		c->stats = strcmp(f->subject, "stats") == 0;
		if (!f->args[0] && operands[1])
			return usage(err, "there is nothing to do with '%s'", operands[1]);
		if (!f->args[0])
			return sc_pack_nil(&c->data) < 0 ? sc_err_nomem(err, "cannot start") : 0;
		return pack_args(c, f, operands + (f->second ? 2 : 1), err);
	}
	if (half && operands[1])
		return usage(err, "there is no command '%s'", operands[1]);
	return usage(err, half ? "what to do with the %s is missing" : "there is no command '%s'",
		     operands[0]);
}

static void on_ready(struct hub *h)
{
	struct ctl *c = h->arg;
	struct sc_err err;

	if (hub_command(h, c->subject, sc_span(c->data.data, c->data.len), false, 0, &err) < 0)
		hub_fail(h, &err);
}

static void check_end(struct ctl *c)
{
	if (c->acked && (!c->stats || c->answered))
		hub_end(&c->hub);
}

static void on_settled(struct hub *h, const struct sc_node_news *news)
{
	struct ctl *c = h->arg;

	c->acked = true;
	if (news->kind == SC_NODE_REFUSED)
		hub_end(h);
	else
		check_end(c);
}

static void on_stats(struct hub *h, const struct sc_msg *msg)
{
	struct ctl *c = h->arg;

	c->answered = true;
	if (hub_print(h, msg, SC_MSG_BARE) >= 0)
		check_end(c);
}

static const struct hub_verb verb = {
	.ready = on_ready,
	.message = hub_lose,
	.settled = on_settled,
};

static const struct hub_verb verb_of_stats = {
	.ready = on_ready,
	.message = hub_lose,
	.settled = on_settled,
	.stats = on_stats,
	.prints = true,
};

int run_ctl(const void *given, char *const *operands, struct sc_err *err)
{
	const struct node_opts *o = given;
	struct ctl c = { .stats = false };
	int rc;

	sc_bytes_init(&c.data, 1 << 16);
	rc = make(&c, operands, err);
	if (rc == 0)
		rc = hub_open(&c.hub, o, 1, c.stats ? &verb_of_stats : &verb, &c, err);
	if (rc == 0) {
		rc = hub_run(&c.hub, err);
		hub_close(&c.hub);
	}
	sc_bytes_done(&c.data);
	return rc;
}
