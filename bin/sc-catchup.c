/* sc-catchup: history of a log by offset or time, from the log itself or from its archive, with no
 * server. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/program.h"
#include "json/line.h"
#include "log/history.h"

#define BUFFER (256u << 10)
#define BUFFER_MAX (SC_MESSAGE_MAX + (1u << 20))
#define DIRECT (32u << 10) /* runs from this size on are written as they are */
#define GRACE_S 2
#define TRIED "cannot catch up"

struct opts {
	struct sc_common common;
	struct sc_range range;
	double speed;
	bool verify, payload, times, speed_given;
	int64_t retries, retry_for_ms;
	const char *archive, *ca;
};

static const struct sc_opt options[] = {
	SC_RANGE_OPTIONS(struct opts, range),
	SC_OPT_GROUP("How they are printed"),
	{ .name = "payload",
	  .letter = 'p',
	  .kind = SC_OPT_FLAG,
	  .into = offsetof(struct opts, payload),
	  .help = "print the message alone" },
	{ .name = "times",
	  .letter = 't',
	  .kind = SC_OPT_FLAG,
	  .into = offsetof(struct opts, times),
	  .help = "print [offset,time,msg], the time in microseconds since 1970" },
	{ .name = "speed",
	  .kind = SC_OPT_FACTOR,
	  .arg = "FACTOR",
	  .into = offsetof(struct opts, speed),
	  .seen = offsetof(struct opts, speed_given),
	  .help = "print them when they were appended, so many times faster: 1x is as it was" },
	{ .name = "verify",
	  .kind = SC_OPT_FLAG,
	  .into = offsetof(struct opts, verify),
	  .help = "print no rows: check every byte of them, and print one hash over the lines" },
	SC_OPT_GROUP("The archive"),
	{ .name = "archive",
	  .letter = 'A',
	  .kind = SC_OPT_TEXT,
	  .arg = "URL",
	  .into = offsetof(struct opts, archive),
	  .help = "where LOG's rows are that it has no longer, instead of where sc-seal put them; "
		  "none: nowhere" },
	{ .name = "retry",
	  .kind = SC_OPT_NUMBER,
	  .arg = "N",
	  .into = offsetof(struct opts, retries),
	  .standard = "5",
	  .min = 0,
	  .max = 1000,
	  .help = "try again after at most N failures in a row" },
	{ .name = "retry-for",
	  .kind = SC_OPT_DURATION,
	  .arg = "DUR",
	  .into = offsetof(struct opts, retry_for_ms),
	  .standard = "2m",
	  .min = 1,
	  .help = "give up when one request fails for this long" },
	{ .name = "ca",
	  .kind = SC_OPT_FILE,
	  .arg = "FILE",
	  .into = offsetof(struct opts, ca),
	  .help = "trust only the certificate authorities in this PEM file" },
	{ .name = NULL },
};

static volatile sig_atomic_t came;
static int wake_fd = -1;

static void on_signal(int signum)
{
	int saved = errno;
	uint64_t one = 1;

	if (came || write(wake_fd, &one, sizeof(one)) < 0)
		_exit(128 + signum);
	came = signum;
	alarm(GRACE_S); /* a reader that takes nothing must not hold us */
	errno = saved;
}

static void on_alarm(int signum)
{
	(void)signum;
	_exit(128 + came);
}

static int watch_signals(struct sc_err *err)
{
	static const int signals[] = { SIGTERM, SIGINT, SIGHUP };
	struct sigaction act = { .sa_handler = on_signal }, late = { .sa_handler = on_alarm }, old;

	wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (wake_fd < 0)
		return sc_err_sys(err, SC_E_INTERNAL, errno, "cannot start");
	sigaction(SIGALRM, &late, NULL);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		/* a shell starts what runs in the background with INT ignored: leave it so */
		if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			sigaction(signals[i], &act, NULL);
	return 0;
}

static bool stopped(void *arg)
{
	(void)arg;
	return came != 0;
}

/* The rows: of a log and its archive, or of an archive alone. */
struct origin {
	const char *name;
	struct sc_store_settings settings;
	struct sc_history *history;
	uint64_t from, end; /* the rows that are wanted */
};

static int origin_open(struct origin *at, const struct opts *o, const char *place,
		       struct sc_err *err)
{
	const char *archive = !o->archive                   ? SC_HISTORY_NOTED
			      : !strcmp(o->archive, "none") ? SC_HISTORY_NONE
							    : o->archive;
	int rc;

	at->settings = (struct sc_store_settings){
		.tries = (unsigned)o->retries + 1,
		.retry_for_ms = o->retry_for_ms,
		.ca_file = o->ca,
		.stop = stopped,
	};
	rc = sc_history_open(place, archive, &at->settings, &at->history, err);
	if (rc < 0)
		return rc;
	at->name = sc_history_name(at->history);
	return sc_history_range(at->history, &o->range, false, &at->from, &at->end, err);
}

struct printer {
	const struct opts *o;
	struct sc_bytes out;
	uint64_t end; /* the first offset that is not wanted */
	bool done;
	bool paced; /* the first row was printed: then, at these times */
	int64_t row_us, mono_us;
};

static int flush(struct printer *p, struct sc_err *err)
{
	int rc = sc_write_all(STDOUT_FILENO, p->out.data, p->out.len, "standard output", err);

	sc_bytes_clear(&p->out);
	return rc;
}

/* Until the time of a row comes, or a signal, or our reader leaves. */
static int wait_until(struct printer *p, int64_t row_us, struct sc_err *err)
{
	struct pollfd fds[2] = { { .fd = STDOUT_FILENO }, { .fd = wake_fd, .events = POLLIN } };
	double span = (double)(row_us - p->row_us) / p->o->speed;
	int64_t due, left;

	/* what lies further off than a signal or a reader will wait needs no exact number */
	due = p->mono_us + (int64_t)(span < 9e15 ? span : 9e15);
	while (!came && (left = due - sc_mono_us()) > 0) {
		struct timespec wait = { left / 1000000, left % 1000000 * 1000 };
		int rc;

		if (p->out.len && (rc = flush(p, err)) < 0)
			return rc;
		if (ppoll(fds, 2, &wait, NULL) < 0 && errno != EINTR)
			return sc_err_sys(err, SC_E_IO, errno, "cannot wait");
		if (fds[0].revents & (POLLERR | POLLHUP | POLLNVAL))
			return sc_err_sys(err, SC_E_IO, EPIPE, "cannot write to standard output");
	}
	return 0;
}

static int pace(struct printer *p, const struct sc_run *run, struct sc_err *err)
{
	if (!p->o->speed_given)
		return 0;
	if (!p->paced) {
		p->paced = true;
		p->row_us = run->appended_us;
		p->mono_us = sc_mono_us();
		return 0;
	}
	return wait_until(p, run->appended_us, err);
}

/* One line in the form that was asked for. */
static int print_line(struct printer *p, struct sc_span line, const struct sc_line *parsed,
		      int64_t time_us, struct sc_err *err)
{
	int bad = 0;

	if (p->o->times)
		bad |= sc_bytes_putf(&p->out, "[%llu,%lld,", (unsigned long long)parsed->offset,
				     (long long)time_us);
	if (p->o->times || p->o->payload)
		bad |= sc_bytes_put(&p->out, parsed->msg.data, parsed->msg.len);
	else
		bad |= sc_bytes_put(&p->out, line.data, line.len);
	bad |= sc_bytes_puts(&p->out, p->o->times ? "]\n" : "\n");
	if (bad)
		return sc_err_nomem(err, TRIED);
	return p->out.len >= BUFFER ? flush(p, err) : 0;
}

static int print_lines(struct printer *p, const struct sc_run *run, struct sc_err *err)
{
	const char *at = run->lines.data, *end = at + run->lines.len;
	int rc = 0;

	while (rc == 0 && at < end) {
		const char *lf = memchr(at, '\n', (size_t)(end - at));
		struct sc_span line = sc_span(at, (size_t)((lf ? lf : end) - at));
		struct sc_line parsed;

		at += line.len + 1;
		if (!sc_line_parse(line, true, &parsed))
			return sc_err_set(err, SC_E_DATA, TRIED, "a line is not [offset,msg]");
		if (parsed.offset >= p->end) {
			p->done = true;
			break;
		}
		rc = print_line(p, line, &parsed, run->appended_us, err);
	}
	return rc;
}

static int print_run(struct printer *p, const struct sc_run *run, struct sc_err *err)
{
	int rc;

	if (run->first >= p->end) {
		p->done = true;
		return 0;
	}
	rc = pace(p, run, err);
	if (rc < 0 || came)
		return rc;
	if (p->o->payload || p->o->times || run->last >= p->end)
		return print_lines(p, run, err);
	p->done = run->last + 1 >= p->end;
	if (run->lines.len < DIRECT) {
		if (sc_bytes_put(&p->out, run->lines.data, run->lines.len) < 0)
			return sc_err_nomem(err, TRIED);
		return p->out.len >= BUFFER ? flush(p, err) : 0;
	}
	rc = flush(p, err);
	if (rc == 0)
		rc = sc_write_all(STDOUT_FILENO, run->lines.data, run->lines.len, "standard output",
				  err);
	return rc;
}

static int print_all(struct printer *p, struct origin *from, struct sc_err *err)
{
	struct sc_run run;
	int rc = 0;

	while (rc == 0 && !p->done && !came) {
		int got = sc_history_next(from->history, 0, &run, err);

		if (got == 0)
			break;
		rc = got < 0 ? got : print_run(p, &run, err);
	}
	/* what was read is right, whatever follows it */
	if (rc == 0 || err->errnum != EPIPE) {
		int last = flush(p, rc == 0 ? err : NULL);

		rc = rc == 0 ? last : rc;
	}
	return rc;
}

static int verify(const struct opts *o, struct origin *from, struct sc_err *err)
{
	struct sc_log_proof p;
	int rc = sc_history_verify(from->history, from->from, from->end, &p, err);

	if (rc < 0)
		return rc;
	if (o->common.json)
		printf("{\"hash\":\"%s\",\"rows\":%llu,\"bytes\":%llu,\"first\":%llu,\"last\":%llu,"
		       "\"blocks\":%llu}\n",
		       p.hash, (unsigned long long)p.rows, (unsigned long long)p.bytes,
		       (unsigned long long)p.first, (unsigned long long)p.last,
		       (unsigned long long)p.blocks);
	else
		printf("%s %llu-%llu %llu rows %llu bytes\n", p.hash, (unsigned long long)p.first,
		       (unsigned long long)p.last, (unsigned long long)p.rows,
		       (unsigned long long)p.bytes);
	return 0;
}

static int check(const struct opts *o, const char *place, struct sc_err *err)
{
	const struct sc_range *r = &o->range;

	if (o->payload && o->times)
		return sc_err_set(err, SC_E_USAGE, TRIED,
				  "--payload and --times exclude each other");
	if (o->verify && (o->payload || o->times || o->speed_given))
		return sc_err_set(err, SC_E_USAGE, TRIED, "--verify and --%s exclude each other",
				  o->payload ? "payload"
				  : o->times ? "times"
					     : "speed");
	if (o->archive && sc_store_is_url(place))
		return sc_err_set(err, SC_E_USAGE, TRIED,
				  "--archive is for a log: '%s' is an archive itself", place);
	if (o->archive && !sc_store_is_url(o->archive) && strcmp(o->archive, "none") != 0)
		return sc_err_set(err, SC_E_USAGE, TRIED, "--archive '%s' is no URL", o->archive);
	if (r->to_given && r->to < r->from)
		return sc_err_set(err, SC_E_USAGE, TRIED, "--to is before --from");
	if (r->since_given && r->until_given && r->until_us < r->since_us)
		return sc_err_set(err, SC_E_USAGE, TRIED, "--until is before --since");
	return 0;
}

/* A range that reaches beyond what there is. */
static int say_end(const struct opts *o, const struct origin *from, struct sc_err *err)
{
	uint64_t first, next;
	int rc = sc_history_bounds(from->history, &first, &next, err);

	if (rc < 0)
		return rc;
	if (o->range.to_given && o->range.to >= next)
		sc_say(SC_NOTICE, "'%s' ends before offset %llu", from->name,
		       (unsigned long long)next);
	else if (from->from >= from->end && first < next)
		sc_say(SC_NOTICE, "'%s' has no rows in that range; it holds %llu to %llu",
		       from->name, (unsigned long long)first, (unsigned long long)next - 1);
	return 0;
}

static int run(const void *given, char *const *operands, struct sc_err *err)
{
	const struct opts *o = given;
	struct printer p = { .o = o };
	struct origin from = { .history = NULL };
	int rc = check(o, operands[0], err);

	sc_bytes_init(&p.out, BUFFER_MAX);
	if (rc == 0)
		rc = watch_signals(err);
	if (rc == 0)
		rc = origin_open(&from, o, operands[0], err);
	if (rc == 0) /* refuses offsets that are not there */
		rc = sc_history_begin(from.history, from.from, from.end, err);
	if (rc == 0)
		rc = say_end(o, &from, err);
	p.end = from.end;
	if (rc == 0 && o->verify)
		rc = verify(o, &from, err); /* also of no row there is a hash */
	else if (rc == 0 && from.from < from.end)
		rc = print_all(&p, &from, err);
	if (came && (rc == 0 || rc == SC_E_TIMEOUT))
		rc = 128 + came;
	sc_bytes_done(&p.out);
	sc_history_close(from.history);
	sc_close(&wake_fd);
	return rc;
}

static const struct sc_example examples[] = {
	{ "A morning, from the archive",
	  "sc-catchup s3://bucket/prod/trades --since 2026-11-01T09:30:00Z --until "
	  "2026-11-01T12:00:00Z" },
	{ "The same again into a pipe, ten times as fast as it was",
	  "sc-catchup s3://bucket/prod/trades --since 2026-11-01T09:30:00Z --speed 10x --payload" },
	{ "Check that an archive holds what the log holds",
	  "sc-catchup file:///backup/trades --verify && sc-log verify data/trades" },
	{ NULL, NULL },
};

static const int statuses[] = { 65, 66, 69, 70, 74, 75, 76, 77, 78, 79, 80, 0 };

SC_PROGRAM("sc-catchup", "print the history of a log, from the log or its archive",
	   "Prints rows as [offset,msg], the very bytes that a live subscriber got. No server and "
	   "no index "
	   "is needed for an archive: file:///FOLDER/NAME, s3://BUCKET/PREFIX/NAME, or https:// "
	   "(by range "
	   "requests). Of a range, only the segments that hold it are read.",
	   "LOG|ARCHIVE", 1, 1, struct opts, options, run, examples, statuses)
