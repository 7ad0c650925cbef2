/* read.c: rows of a log to standard output. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "json/jq.h"
#include "json/line.h"
#include "log/follow.h"
#include "log/history.h"
#include "sc-log.h"

#define BUFFER (256u << 10)
#define BUFFER_MAX (SC_MESSAGE_MAX + (1u << 20))
#define DIRECT (32u << 10) /* runs from this size on are written as they are */

#define INTO(member) offsetof(struct read_opts, member)

const struct sc_opt read_options[] = {
	SC_RANGE_OPTIONS(struct read_opts, range),
	{ .name = "last",
	  .kind = SC_OPT_NUMBER,
	  .arg = "N",
	  .into = INTO(last),
	  .min = 1,
	  .help = "begin N rows before the end" },
	{ .name = "count",
	  .letter = 'n',
	  .kind = SC_OPT_NUMBER,
	  .arg = "N",
	  .into = INTO(count),
	  .min = 1,
	  .help = "end after N rows were printed" },
	{ .name = "follow",
	  .letter = 'f',
	  .kind = SC_OPT_FLAG,
	  .into = INTO(follow),
	  .help = "at the end wait for more rows" },
	{ .name = "where",
	  .kind = SC_OPT_TEXT,
	  .arg = "JQ",
	  .into = INTO(where),
	  .help = "print only rows for whose message this jq program gives something else than "
		  "false or null" },
	{ .name = "archive",
	  .letter = 'A',
	  .kind = SC_OPT_TEXT,
	  .arg = "URL",
	  .into = INTO(archive),
	  .help = "read rows that LOG has no longer from its archive, file://, s3:// or https://" },
	SC_OPT_GROUP("How they are printed"),
	{ .name = "payload",
	  .kind = SC_OPT_FLAG,
	  .into = INTO(payload),
	  .help = "print the message alone" },
	{ .name = "times",
	  .kind = SC_OPT_FLAG,
	  .into = INTO(times),
	  .help = "print [offset,time,msg], the time in microseconds since 1970" },
	{ .name = NULL },
};

struct printer {
	const struct read_opts *o;
	struct sc_jq *jq;
	struct sc_bytes out;
	uint64_t end;  /* the first offset that is not wanted */
	uint64_t left; /* rows still to print */
	bool done;
};

static int flush(struct printer *p, struct sc_err *err)
{
	int rc = sc_write_all(STDOUT_FILENO, p->out.data, p->out.len, "standard output", err);

	sc_bytes_clear(&p->out);
	return rc;
}

/* One line in the form that was asked for. */
static int print_line(struct printer *p, struct sc_span line, const struct sc_line *parsed,
		      int64_t time_us, struct sc_err *err)
{
	int rc;

	if (p->o->payload) {
		rc = sc_bytes_put(&p->out, parsed->msg.data, parsed->msg.len);
		if (rc == 0)
			rc = sc_bytes_putc(&p->out, '\n');
	} else if (p->o->times) {
		rc = sc_bytes_reserve(&p->out, line.len + 64);
		if (rc == 0)
			sc_bytes_putf(&p->out, "[%llu,%lld,", (unsigned long long)parsed->offset,
				      (long long)time_us);
		if (rc == 0)
			sc_bytes_put(&p->out, parsed->msg.data, parsed->msg.len);
		if (rc == 0)
			rc = sc_bytes_puts(&p->out, "]\n");
	} else {
		rc = sc_bytes_put(&p->out, line.data, line.len);
		if (rc == 0)
			rc = sc_bytes_putc(&p->out, '\n');
	}
	if (rc < 0)
		return sc_err_nomem(err, "cannot print");
	if (--p->left == 0)
		p->done = true;
	return p->out.len >= BUFFER ? flush(p, err) : 0;
}

/* Line by line: with a filter, another form, a count, or a run that holds more than is wanted. */
static int print_lines(struct printer *p, const struct sc_run *run, struct sc_err *err)
{
	const char *at = run->lines.data, *end = at + run->lines.len;
	int rc = 0;

	while (rc == 0 && at < end && !p->done) {
		const char *lf = memchr(at, '\n', (size_t)(end - at));
		struct sc_span line = sc_span(at, (size_t)((lf ? lf : end) - at));
		struct sc_line parsed;
		bool keep = true;

		at += line.len + 1;
		if (!sc_line_parse(line, true, &parsed))
			return sc_err_set(err, SC_E_DATA, "cannot read the log",
					  "a line is not [offset,msg]");
		if (parsed.offset >= p->end) {
			p->done = true;
			break;
		}
		if (p->jq) {
			rc = sc_jq_filter(p->jq, parsed.msg, &keep, err);
			if (rc < 0) {
				char offset[24];

				offset[sc_u64_digits(offset, parsed.offset)] = 0;
				sc_err_on(err, "on row", offset);
				return rc;
			}
			rc = 0;
		}
		if (keep)
			rc = print_line(p, line, &parsed, run->appended_us, err);
	}
	return rc;
}

static int print_run(struct printer *p, const struct sc_run *run, struct sc_err *err)
{
	int rc;

	if (p->o->range.until_given && run->appended_us >= p->o->range.until_us) {
		p->done = true;
		return 0;
	}
	if (p->jq || p->o->payload || p->o->times || run->last >= p->end || run->rows > p->left)
		return print_lines(p, run, err);
	if (run->lines.len < DIRECT) {
		if (sc_bytes_put(&p->out, run->lines.data, run->lines.len) < 0)
			return sc_err_nomem(err, "cannot print");
		rc = p->out.len >= BUFFER ? flush(p, err) : 0;
	} else {
		rc = flush(p, err);
		if (rc == 0)
			rc = sc_write_all(STDOUT_FILENO, run->lines.data, run->lines.len,
					  "standard output", err);
	}
	p->left -= run->rows;
	if (p->left == 0 || run->last + 1 >= p->end)
		p->done = true;
	return rc;
}

/* Wait for more rows, the end of our reader, or a stop. */
static int wait_more(struct sc_follow *follow, int stop_fd, struct sc_err *err)
{
	struct pollfd fds[3] = {
		{ .fd = sc_follow_fd(follow), .events = POLLIN },
		{ .fd = STDOUT_FILENO, .events = 0 },
		{ .fd = stop_fd, .events = POLLIN },
	};

	if (poll(fds, 3, sc_follow_poll_ms(follow)) < 0 && errno != EINTR)
		return sc_err_sys(err, SC_E_IO, errno, "cannot wait for the log");
	if (fds[1].revents & (POLLERR | POLLHUP | POLLNVAL))
		return sc_err_sys(err, SC_E_IO, EPIPE, "cannot write to standard output");
	sc_follow_clear(follow);
	return 0;
}

static int print_all(struct printer *p, struct sc_history *history, struct sc_follow *follow,
		     int stop_fd, struct sc_err *err)
{
	struct sc_run run;
	int rc = 0;

	while (rc == 0 && !p->done && !stop_signal() && sc_history_offset(history) < p->end) {
		int got = sc_history_next(history, 0, &run, err);

		if (got < 0)
			rc = got;
		else if (got == 1)
			rc = print_run(p, &run, err);
		else if (!follow)
			break;
		else if (p->out.len)
			rc = flush(p, err); /* then look again: rows may have come meanwhile */
		else
			rc = wait_more(follow, stop_fd, err);
	}
	if (rc == 0 || rc == SC_E_DATA || rc == SC_E_REFUSED) {
		int last = flush(
			p,
			rc == 0 ? err
				: NULL); /* what is printed is correct also when damage follows */

		rc = rc == 0 ? last : rc;
	}
	return rc;
}

static int check(const struct read_opts *o, const char *path, struct sc_err *err)
{
	if (sc_store_is_url(path)) {
		sc_err_set(err, SC_E_USAGE, "cannot read", "'%s' is not the path of a log", path);
		return sc_err_next(err, "print an archive with: sc-catchup %s", path);
	}
	if (o->archive && !sc_store_is_url(o->archive))
		return sc_err_set(err, SC_E_USAGE, "cannot read", "--archive '%s' is no URL",
				  o->archive);
	if (o->payload && o->times)
		return sc_err_set(err, SC_E_USAGE, "cannot read",
				  "--payload and --times exclude each other");
	if (o->last && (o->range.from_given || o->range.since_given))
		return sc_err_set(err, SC_E_USAGE, "cannot read",
				  "--last and --%s exclude each other",
				  o->range.from_given ? "from" : "since");
	if (o->range.to_given && o->range.to < o->range.from)
		return sc_err_set(err, SC_E_USAGE, "cannot read", "--to is before --from");
	if (o->range.since_given && o->range.until_given && o->range.until_us < o->range.since_us)
		return sc_err_set(err, SC_E_USAGE, "cannot read", "--until is before --since");
	return 0;
}

static bool stopped(void *arg)
{
	(void)arg;
	return stop_signal() != 0;
}

/* The follower is opened before the range is taken: no commit falls between. */
static int open_all(const struct read_opts *o, struct sc_history *history,
		    struct sc_follow **follow, struct printer *p, struct sc_err *err)
{
	uint64_t from;
	int rc = o->follow ? sc_follow_open(sc_history_log(history), follow, err) : 0;

	if (rc == 0)
		rc = sc_history_range(history, &o->range, o->follow, &from, &p->end, err);
	if (rc == 0 && o->last)
		rc = sc_history_last(history, (uint64_t)o->last, &from, err);
	if (rc == 0)
		rc = sc_history_begin(history, from, p->end, err);
	if (rc == 0 && o->where)
		rc = sc_jq_compile(o->where, &p->jq, err);
	return rc;
}

int run_read(const void *given, char *const *operands, struct sc_err *err)
{
	const struct read_opts *o = given;
	const struct sc_store_settings settings = { .stop = stopped };
	struct printer p = { .o = o, .left = o->count ? (uint64_t)o->count : UINT64_MAX };
	struct sc_history *history = NULL;
	struct sc_follow *follow = NULL;
	int rc = check(o, operands[0], err), stop_fd = -1;

	sc_bytes_init(&p.out, BUFFER_MAX);
	if (rc == 0)
		rc = stop_fd = stop_begin(err);
	if (rc >= 0)
		rc = sc_history_open(operands[0], o->archive ? o->archive : SC_HISTORY_NONE,
				     &settings, &history, err);
	if (rc == 0)
		rc = open_all(o, history, &follow, &p, err);
	if (rc == 0)
		rc = print_all(&p, history, follow, stop_fd, err);
	if (stop_signal() && (rc == 0 || rc == SC_E_TIMEOUT))
		rc = 128 + stop_signal();
	sc_jq_free(p.jq);
	sc_bytes_done(&p.out);
	sc_follow_close(follow);
	sc_history_close(history);
	return rc;
}
