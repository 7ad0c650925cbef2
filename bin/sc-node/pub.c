/* pub.c: lines, or one message, to the broker; over when the last one has its answer. */
#include "sc-node.h"

struct pub {
	struct hub hub;
	struct sc_bytes store; /* of the message at hand */
	struct sc_msg one;     /* from the command line */
	bool single, last;     /* nothing more is to come */
	uint64_t put, acked, nobody;
};

static void check_end(struct pub *p)
{
	if (p->last && sc_node_waiting(sc_node_link_node(p->hub.link)) == 0)
		hub_end(&p->hub);
}

static void on_ready(struct hub *h)
{
	struct pub *p = h->arg;
	struct sc_err err;

	if (!p->single) {
		hub_read(h, true);
		return;
	}
	p->last = true;
	if (sc_node_link_put(h->link, &p->one, 0, &err) < 0)
		hub_fail(h, &err);
	else
		p->put++;
}

static void bad_line(struct pub *p, struct sc_err *err, uint64_t number)
{
	name_line(err, number);
	hub_partial(&p->hub, err);
	if (!p->hub.o->strict)
		return;
	p->last = true;
	hub_read(&p->hub, false);
	check_end(p);
}

static void on_line(struct hub *h, struct sc_span line, uint64_t number)
{
	struct pub *p = h->arg;
	struct sc_msg msg;
	struct sc_err err;
	bool ack;
	int rc;

	if (line.data && sc_json_trim(line).len == 0)
		return;
	rc = line.data ? sc_msg_line_parse(line, &p->store, &msg, &ack, &err)
		       : refuse_long_line(h, &err);
	if (rc == 0 && ack)
		rc = sc_err_set(&err, SC_E_DATA, "cannot send a message",
				"acknowledgements are not published");
	if (rc == 0)
		rc = check_size(h->o, &msg, &err);
	if (rc == SC_E_DATA) {
		bad_line(p, &err, number);
		return;
	}
	if (rc == 0)
		rc = sc_node_link_put(h->link, &msg, number, &err);
	if (rc < 0) {
		hub_fail(h, &err);
		return;
	}
	p->put++;
	if (sc_node_room(sc_node_link_node(h->link)) == 0)
		hub_read(h, false);
}

static void on_eof(struct hub *h)
{
	struct pub *p = h->arg;

	p->last = true;
	check_end(p);
}

static void on_settled(struct hub *h, const struct sc_node_news *news)
{
	struct pub *p = h->arg;
	struct sc_span data = news->msg.data;
	struct sc_packed item;

	if (news->kind == SC_NODE_ACKED) {
		p->acked++;
		if (sc_packed_next(&data, &item) && item.kind == SC_PACKED_UINT && item.u == 0)
			p->nobody++;
	}
	if (p->last)
		check_end(p);
	else if (h->ready)
		hub_read(h, true);
}

static const struct hub_verb verb = {
	.ready = on_ready,
	.message = hub_lose,
	.settled = on_settled,
	.line = on_line,
	.eof = on_eof,
	.reads = true,
};

static const struct hub_verb verb_of_one = {
	.ready = on_ready,
	.message = hub_lose,
	.settled = on_settled,
};

static int make_one(struct pub *p, const struct node_opts *o, char *const *operands,
		    struct sc_err *err)
{
	struct sc_bytes json;
	int rc;

	sc_bytes_init(&json, SIZE_MAX / 2);
	rc = read_json(operands[2], o->message_max * LINE_FACTOR, &json, err);
	if (rc == 0)
		rc = sc_msg_line_make(operands[0], operands[1], o->reference, o->uid,
				      sc_span(json.data, json.len), &p->store, &p->one, err);
	sc_bytes_done(&json);
	return rc;
}

/* The limits of names are as much a matter of the command line as its options. */
static int as_usage(int rc, const char *json, struct sc_err *err)
{
	if (rc == SC_E_DATA && !(json && strcmp(json, "-") == 0))
		err->code = rc = SC_E_USAGE;
	return rc;
}

int run_pub(const void *given, char *const *operands, struct sc_err *err)
{
	const struct node_opts *o = given;
	struct pub p = { .single = operands[0] != NULL };
	int rc = 0;

	if (p.single && !operands[1]) {
		sc_err_set(err, SC_E_USAGE, "cannot start", "SUBJECT is missing");
		return sc_err_next(err, "see 'sc-node pub --help'");
	}
	if (!p.single && (o->reference || o->uid)) {
		sc_err_set(err, SC_E_USAGE, o->uid ? "cannot use --uid" : "cannot use --reference",
			   "lines say their own");
		return sc_err_next(err, "give CHANNEL and SUBJECT, or leave it out");
	}
	sc_bytes_init(&p.store, SIZE_MAX / 2);
	if (p.single)
		rc = as_usage(make_one(&p, o, operands, err), operands[2], err);
	if (rc == 0 && p.single)
		rc = check_size(o, &p.one, err);
	if (rc == 0)
		rc = hub_open(&p.hub, o, (size_t)o->window, p.single ? &verb_of_one : &verb, &p,
			      err);
	if (rc == 0) {
		rc = hub_run(&p.hub, err);
		sc_say(SC_INFO, "%llu messages, %llu acknowledged, %llu of them reached nobody",
		       (unsigned long long)p.put, (unsigned long long)p.acked,
		       (unsigned long long)p.nobody);
		hub_close(&p.hub);
	}
	sc_bytes_done(&p.store);
	return rc;
}
