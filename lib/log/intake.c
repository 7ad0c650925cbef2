/* intake.c: reading, splitting and checking lines; intake_commit.c puts them into the log. */
#include "log/intake.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "json/line.h"
#include "log/intake_internal.h"

#define READ_CHUNK (256u << 10)
#define INLINE_BYTES (64u << 10)

static struct sc_batch *filling(struct sc_intake *in)
{
	return &in->batches[in->fill];
}

/* A line is refused: aside with it, or the end. ERR is already about the row. */
static int refuse_line(struct sc_intake *in, struct sc_span line, uint64_t number, bool whole)
{
	char digits[24];
	int rc;

	if (in->o->bad_fd < 0) {
		digits[sc_u64_digits(digits, number)] = 0;
		sc_err_on(in->err, "on line", digits);
		sc_err_field_u64(in->err, "line", number);
		if (!in->err->next[0])
			sc_err_next(in->err,
				    "mend it, or set such lines aside with --skip-bad FILE");
		return SC_E_DATA;
	}
	rc = sc_write_all(in->o->bad_fd, line.data, line.len, in->o->bad_name, in->err);
	if (rc == 0 && whole)
		rc = sc_write_all(in->o->bad_fd, "\n", 1, in->o->bad_name, in->err);
	in->result->set_aside++;
	return rc;
}

static int too_long(struct sc_intake *in, size_t len)
{
	sc_err_set(in->err, SC_E_DATA, "cannot append",
		   "the message is %s%zu bytes long; the limit of this log is %llu",
		   in->discard ? "more than " : "", len, (unsigned long long)in->message_max);
	sc_err_next(in->err, "create the log with a larger --max-message, or set such lines aside "
			     "with --skip-bad FILE");
	return SC_E_DATA;
}

/*
 * Is the line a pair, and which message is in it? 1 yes; 0 it is a bare row; SC_E_DATA it had to
 * be one.
 */
static int take_pair(struct sc_intake *in, struct sc_span text, struct sc_line *pair)
{
	enum sc_pairs how = in->o->pairs;

	if (how == SC_PAIRS_NEVER || (how == SC_PAIRS_AUTO && (!in->schema || text.data[0] != '[')))
		return 0;
	if (!sc_line_parse(text, false, pair)) {
		if (how == SC_PAIRS_AUTO)
			return 0;
		return sc_err_set(
			in->err, SC_E_DATA, "cannot append",
			"it is not a pair [offset,msg], as --source, --mirror and --pairs need");
	}
	if (pair->null_offset && (in->o->source || in->o->mirror))
		return sc_err_set(in->err, SC_E_DATA, "cannot append",
				  "its offset is null: it is from a stream that is not durable");
	return 1;
}

static int project(struct sc_intake *in, struct sc_span msg, struct sc_batch *b)
{
	size_t before = b->text.len;
	int rc = sc_row_project(in->schema, msg, &b->text, in->err);

	if (rc == SC_E_DATA && in->o->wrap && !in->schema)
		rc = sc_wrap_message(msg, false, &b->text);
	if (rc == SC_E_NOMEM && (!b->text.full || in->again))
		return sc_err_nomem(in->err, "cannot append");
	if (rc == SC_E_NOMEM || (rc == 0 && b->text.len - before > in->message_max)) {
		size_t len = rc == 0 ? b->text.len - before : msg.len;

		b->text.len = before;
		return too_long(in, len);
	}
	return rc;
}

static int grow(struct sc_batch *b)
{
	size_t cap = b->cap ? b->cap * 2 : 1024;
	uint32_t *lens = sc_realloc(b->lens, cap * sizeof(*lens));
	struct sc_origin *origins;
	uint64_t *offsets;

	if (!lens)
		return SC_E_NOMEM;
	b->lens = lens;
	offsets = sc_realloc(b->offsets, cap * sizeof(*offsets));
	if (!offsets)
		return SC_E_NOMEM;
	b->offsets = offsets;
	origins = sc_realloc(b->origins, cap * sizeof(*origins));
	if (!origins)
		return SC_E_NOMEM;
	b->origins = origins;
	b->cap = cap;
	return 0;
}

/* The row whose text stands behind the first BEFORE bytes; RAW is the line it came from. */
static int add_row(struct sc_intake *in, struct sc_batch *b, size_t before,
		   const struct sc_line *pair, const struct sc_origin *origin, struct sc_span raw)
{
	if ((b->count == b->cap && grow(b) < 0) || sc_bytes_put(&b->raw, raw.data, raw.len) < 0) {
		b->text.len = before;
		return sc_err_nomem(in->err, "cannot append");
	}
	b->lens[b->count] = (uint32_t)(b->text.len - before);
	b->origins[b->count] = *origin;
	b->offsets[b->count++] = pair ? pair->offset : 0;
	if (pair && in->o->source)
		b->source_offset = pair->offset;
	return 0;
}

/* SC_E_DATA: it is refused, by the schema that we know. */
static int try_line(struct sc_intake *in, struct sc_batch *b, struct sc_span raw, uint64_t number)
{
	struct sc_origin origin = { number, (uint32_t)raw.len };
	struct sc_span text = sc_json_trim(raw);
	struct sc_line pair = { .offset = 0 };
	size_t before = b->text.len;
	int is_pair, rc;

	if (text.len == 0)
		return 0; /* a blank line holds no message */
	is_pair = take_pair(in, text, &pair);
	if (is_pair < 0)
		return SC_E_DATA;
	if (is_pair && in->o->source && !in->again && pair.offset <= in->source_at) {
		in->result
			->skipped++; /* it is there already: that is what makes a chain exactly-once */
		return 0;
	}
	rc = project(in, is_pair ? pair.msg : text, b);
	if (rc == 0)
		rc = add_row(in, b, before, is_pair ? &pair : NULL, &origin, raw);
	if (rc == 0 && is_pair && in->o->source && !in->again)
		in->source_at = pair.offset;
	return rc;
}

/*
 * The rows of a batch, checked by the schema that we know now: those that do not fit are refused as
 * if they came now. On an error those before it stay in the batch.
 */
static int check_again(struct sc_intake *in, struct sc_batch *b)
{
	struct sc_bytes raw = b->raw;
	struct sc_origin *origins = b->origins;
	size_t count = b->count, at = 0;
	int rc = 0;

	sc_bytes_init(&b->raw, raw.max);
	b->origins = NULL;
	b->cap = 0; /* grown anew, with the origins */
	sc_batch_clear(b);
	in->again = true;
	for (size_t i = 0; rc == 0 && i < count; at += origins[i++].len) {
		struct sc_span line = sc_span(raw.data + at, origins[i].len);

		rc = try_line(in, b, line, origins[i].number);
		if (rc == SC_E_DATA)
			rc = refuse_line(in, line, origins[i].number, true);
	}
	in->again = false;
	sc_bytes_done(&raw);
	free(origins);
	return rc;
}

/*
 * A batch was not committed since the schema was changed: check it and commit it, until that is
 * done. A refused line is told when the rows before it are in the log.
 */
static int commit_again(struct sc_intake *in, struct sc_batch *b)
{
	struct sc_err refusal = { .code = 0 };
	int rc;

	do {
		rc = sc_intake_take_schema(in);
		if (rc == 0)
			rc = check_again(in, b);
		if (rc == SC_E_DATA)
			refusal = *in->err; /* of an earlier line each time */
		else if (rc < 0)
			return rc;
		rc = b->count ? sc_intake_commit(in, b) : 0;
	} while (rc == SC_E_STALE);
	if (rc == 0 && refusal.code) {
		*in->err = refusal;
		rc = refusal.code;
	}
	return rc;
}

static int commit_here(struct sc_intake *in, struct sc_batch *b)
{
	int rc = sc_intake_commit(in, b);

	return rc == SC_E_STALE ? commit_again(in, b) : rc;
}

/* Wait for the commit that runs. What was filled meanwhile is checked by the schema that it
 * used. */
static int settle(struct sc_intake *in)
{
	int rc = sc_intake_settle(in);

	if (rc != SC_E_STALE)
		return rc;
	rc = commit_again(in, &in->batches[in->fill ^ 1]);
	if (rc < 0) {
		sc_batch_clear(filling(in)); /* these come after it */
		return rc;
	}
	return check_again(in, filling(in));
}

/* A row was refused: by the schema in force? 1: there is another one, and the batch is checked by
 * it. */
static int renew_schema(struct sc_intake *in)
{
	struct sc_err refusal = *in->err;
	uint64_t was = in->schema_version;
	int rc = settle(in);

	if (rc == 0)
		rc = sc_log_reload(*in->log, in->err);
	if (rc >= 0 && sc_log_schema_version(*in->log) != in->schema_version) {
		rc = sc_intake_take_schema(in);
		if (rc == 0)
			rc = check_again(in, filling(in));
	}
	if (rc < 0)
		return rc;
	*in->err = refusal;
	return in->schema_version != was;
}

static int take_line(struct sc_intake *in, struct sc_span raw)
{
	uint64_t number = ++in->result->lines;
	int rc = try_line(in, filling(in), raw, number), renewed;

	if (rc != SC_E_DATA)
		return rc;
	renewed = renew_schema(in);
	if (renewed < 0)
		return renewed;
	if (renewed)
		rc = try_line(in, filling(in), raw, number);
	return rc == SC_E_DATA ? refuse_line(in, raw, number, true) : rc;
}

static bool batch_full(const struct sc_intake *in)
{
	const struct sc_batch *b = &in->batches[in->fill];

	return b->text.len >= SC_BATCH_BYTES || b->raw.len >= SC_BATCH_RAW ||
	       b->count >= in->batch_rows;
}

/*
 * A line without end is longer than any message may be: the rest of it goes where refused lines
 * go.
 */
static int discard_some(struct sc_intake *in, struct sc_span text, bool ends)
{
	int rc;

	if (in->o->bad_fd < 0) {
		in->result->lines++;
		return refuse_line(in, text, in->result->lines, true);
	}
	rc = sc_write_all(in->o->bad_fd, text.data, text.len, in->o->bad_name, in->err);
	if (rc == 0 && ends) {
		in->discard = false;
		in->result->lines++;
		in->result->set_aside++;
	}
	return rc;
}

/* Lines out of the input buffer until it holds no whole one, or the batch is full. */
static int take_lines(struct sc_intake *in)
{
	int rc = 0;

	while (rc == 0 && !batch_full(in) && in->at < in->raw.len) {
		const char *from = in->raw.data + in->at;
		size_t left = in->raw.len - in->at;
		const char *lf = in->searched < left
					 ? memchr(from + in->searched, '\n', left - in->searched)
					 : NULL;
		size_t len = lf ? (size_t)(lf - from) : left;

		if (in->discard) {
			rc = discard_some(in, sc_span(from, lf ? len + 1 : len), lf || in->ended);
		} else if (lf || in->ended) {
			rc = take_line(in, sc_span(from, len));
		} else if (len > in->line_max) {
			in->discard = true;
			too_long(in, in->message_max);
			rc = discard_some(in, sc_span(from, len), false);
		} else {
			in->searched = len;
			break;
		}
		in->at += lf ? len + 1 : len;
		in->searched = 0;
	}
	if (in->at == in->raw.len || in->at > READ_CHUNK) {
		sc_bytes_drop(&in->raw, in->at);
		in->at = 0;
	}
	return rc;
}

/* Take what is readable now; in->ended at the end of input. */
static int read_some(struct sc_intake *in)
{
	ssize_t n;

	if (sc_bytes_reserve(&in->raw, READ_CHUNK) < 0)
		return sc_err_nomem(in->err, "cannot read standard input");
	n = read(in->o->in_fd, in->raw.data + in->raw.len, READ_CHUNK);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (n < 0)
		return sc_err_sys(in->err, SC_E_IO, errno, "cannot read standard input");
	in->raw.len += (size_t)n;
	if (n == 0)
		in->ended = true;
	return 0;
}

enum { AT_IN, AT_STOP, AT_OUT, AT_DONE, AT_COUNT };

/*
 * Wait for input, a stop, the committer or a reader of ours that left. With MS = 0 only look. The
 * input may be a file, for which poll says "readable".
 */
static int wait_some(struct sc_intake *in, bool want_input, int ms, struct pollfd fds[AT_COUNT])
{
	bool busy = sc_intake_busy(in);
	int n;

	fds[AT_IN] = (struct pollfd){ .fd = want_input ? in->o->in_fd : -1, .events = POLLIN };
	fds[AT_STOP] = (struct pollfd){ .fd = in->o->stop_fd, .events = POLLIN };
	/* a commit that runs finds by itself that its reader left */
	fds[AT_OUT] = (struct pollfd){ .fd = in->out_failed || busy ? -1 : in->o->out_fd,
				       .events = 0 };
	fds[AT_DONE] = (struct pollfd){ .fd = busy ? in->done_fd : -1, .events = POLLIN };
	n = poll(fds, AT_COUNT, ms);
	if (n < 0 && errno != EINTR)
		return sc_err_sys(in->err, SC_E_IO, errno, "cannot wait for input");
	if (n <= 0)
		for (int i = 0; i < AT_COUNT; i++)
			fds[i].revents = 0;
	if (fds[AT_STOP].revents)
		in->result->stopped = in->ended_early = true;
	if (fds[AT_OUT].revents & (POLLERR | POLLHUP | POLLNVAL) && !in->out_failed) {
		sc_err_sys(&in->out_err, SC_E_IO, EPIPE, "cannot write to standard output");
		in->out_failed = true;
	}
	if (in->out_failed)
		in->ended_early = true;
	return 0;
}

/*
 * Give the filled batch to be committed, here if it is small and nobody is at it, else in the
 * thread.
 */
static int hand_over(struct sc_intake *in)
{
	int rc = settle(in);

	if (rc < 0 || !filling(in)->count)
		return rc;
	if (filling(in)->text.len < INLINE_BYTES)
		return commit_here(in, filling(in));
	rc = sc_intake_commit_there(in);
	return rc == SC_E_STALE ? commit_again(in, filling(in)) : rc; /* there was no thread */
}

static int step(struct sc_intake *in)
{
	struct pollfd fds[AT_COUNT];
	bool more_lines = in->at < in->raw.len && in->searched < in->raw.len - in->at;
	int rc = 0;

	if (more_lines || in->ended) {
		rc = take_lines(in);
		if (rc < 0)
			return rc;
	}
	if (batch_full(in))
		return hand_over(in);
	/* no whole line is left in the buffer: commit now unless more can be had without waiting */
	rc = wait_some(in, !in->ended, filling(in)->count || in->ended ? 0 : -1, fds);
	if (rc < 0 || in->ended_early)
		return rc;
	if (fds[AT_IN].revents && !(filling(in)->text.len >= INLINE_BYTES && !sc_intake_busy(in)))
		return read_some(in);
	if (fds[AT_DONE].revents)
		return settle(in);
	if (!filling(in)->count)
		return 0;
	if (!sc_intake_busy(in))
		return hand_over(in);
	/* a commit runs: go on reading until it is done */
	rc = wait_some(in, !in->ended, -1, fds);
	if (rc < 0 || in->ended_early)
		return rc;
	if (fds[AT_DONE].revents)
		return settle(in);
	return fds[AT_IN].revents ? read_some(in) : 0;
}

/* What was taken is committed in any case: the rows before a refused one too. */
static int finish(struct sc_intake *in, int rc)
{
	struct sc_err first = *in->err;
	int rest = settle(in);

	if (rest == 0 && filling(in)->count && !in->append_failed)
		rest = commit_here(in, filling(in));
	if (rc == 0 || rest == SC_E_DATA)
		return rest; /* a line refused by a schema that came meanwhile stands before the other */
	*in->err = first;
	return rc;
}

static bool all_taken(const struct sc_intake *in)
{
	return in->ended && in->at == in->raw.len && in->batches[in->fill].count == 0;
}

int sc_intake_run(struct sc_log **log, const struct sc_intake_options *options,
		  struct sc_intake_result *ret_result, struct sc_err *err)
{
	struct sc_intake in = { .log = log, .o = options, .result = ret_result };
	struct sc_err own;
	int rc;

	memset(ret_result, 0, sizeof(*ret_result));
	in.err = err ? err : &own;
	sc_err_clear(in.err);
	rc = sc_intake_init(&in);
	while (rc == 0 && !in.ended_early && !all_taken(&in))
		rc = step(&in);
	rc = finish(&in, rc);
	if (rc == 0 && in.out_failed) {
		*in.err = in.out_err;
		rc = in.err->code;
	}
	sc_intake_done(&in);
	return rc;
}
