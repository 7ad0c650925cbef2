/* append.c: rows from standard input into a log. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "log/intake.h"
#include "sc-log.h"

#define INTO(member) offsetof(struct append_opts, member)
#define SPACE_RETRY_MS 500

const struct sc_opt append_options[] = {
	SC_OPT_GROUP("What comes in"),
	{ .name = "source",
	  .kind = SC_OPT_TEXT,
	  .arg = "NAME",
	  .into = INTO(source),
	  .help = "lines are [offset,msg] of this source: remember the last offset with the rows, "
		  "and skip what is here already" },
	{ .name = "mirror",
	  .kind = SC_OPT_FLAG,
	  .into = INTO(mirror),
	  .help = "keep the offsets of the [offset,msg] lines: an exact copy" },
	{ .name = "pairs",
	  .kind = SC_OPT_FLAG,
	  .into = INTO(pairs),
	  .help = "every line is [offset,msg]: append the msg" },
	{ .name = "bare",
	  .kind = SC_OPT_FLAG,
	  .into = INTO(no_pairs),
	  .help = "no line is [offset,msg]: append each as it is" },
	{ .name = "wrap",
	  .kind = SC_OPT_FLAG,
	  .into = INTO(wrap),
	  .help = "take a line that is not JSON as {\"$text\":...} (a log without a schema)" },
	{ .name = "skip-bad",
	  .kind = SC_OPT_FILE,
	  .arg = "FILE",
	  .into = INTO(skip_bad),
	  .help = "append refused lines to FILE unchanged and go on; the exit status is 1 then" },
	SC_OPT_GROUP("How it is stored"),
	{ .name = "batch-rows",
	  .kind = SC_OPT_NUMBER,
	  .arg = "N",
	  .into = INTO(batch_rows),
	  .min = 1,
	  .max = 1000000,
	  .standard = "65536",
	  .help = "commit at most N rows at once" },
	{ .name = "if-next",
	  .kind = SC_OPT_OFFSET,
	  .arg = "N",
	  .into = INTO(if_next),
	  .help = "append only if the first row gets offset N and no other writer comes between "
		  "the rows" },
	{ .name = "wait-space",
	  .kind = SC_OPT_FLAG,
	  .into = INTO(wait_space),
	  .help = "when the disk is full, wait for space" },
	{ .name = "quiet",
	  .letter = 'q',
	  .kind = SC_OPT_FLAG,
	  .into = offsetof(struct append_opts, common.quiet),
	  .help = "print no lines, and say only errors" },
	{ .name = NULL },
};

static void say_waiting(void *arg, const struct sc_err *err)
{
	char line[1200];

	(void)arg;
	sc_err_line(err, line, sizeof(line));
	sc_say(SC_ERROR, "%s; waiting for space",
	       line); /* also with --quiet: it may wait for long */
}

static int check(const struct append_opts *o, struct sc_err *err)
{
	if (o->no_pairs && (o->pairs || o->mirror || o->source))
		return sc_err_set(err, SC_E_USAGE, "cannot append",
				  "--bare and --%s exclude each other",
				  o->pairs    ? "pairs"
				  : o->mirror ? "mirror"
					      : "source");
	if (o->mirror && o->if_next)
		return sc_err_set(err, SC_E_USAGE, "cannot append",
				  "--mirror and --if-next exclude each other");
	if (o->source && !*o->source)
		return sc_err_set(err, SC_E_USAGE, "cannot append",
				  "the name of --source is empty");
	return 0;
}

static int report(const struct sc_intake_result *r, const struct append_opts *o)
{
	char fields[200];

	snprintf(fields, sizeof(fields),
		 "\"rows\":%llu,\"commits\":%llu,\"skipped\":%llu,\"set_aside\":%llu,\"last\":%llu",
		 (unsigned long long)r->rows, (unsigned long long)r->commits,
		 (unsigned long long)r->skipped, (unsigned long long)r->set_aside,
		 (unsigned long long)r->last);
	if (r->set_aside)
		sc_say_fields(SC_WARNING, fields, "%llu of %llu lines were refused and are in '%s'",
			      (unsigned long long)r->set_aside, (unsigned long long)r->lines,
			      o->skip_bad);
	else
		sc_say_fields(SC_INFO, fields,
			      "%llu rows in %llu commits, %llu skipped as already there",
			      (unsigned long long)r->rows, (unsigned long long)r->commits,
			      (unsigned long long)r->skipped);
	return r->set_aside ? sc_code_status(SC_E_PARTIAL) : 0;
}

/* Open for appending: that takes space when an index is to be made. With --wait-space it is waited
 * for. */
static int open_log(const char *path, const struct sc_intake_options *in, struct sc_log **ret_log,
		    struct sc_err *err)
{
	bool said = false;

	for (;;) {
		struct pollfd stop = { .fd = in->stop_fd, .events = POLLIN };
		int rc = sc_log_open(path, SC_LOG_APPEND, ret_log, err);

		if (rc >= 0 || !in->wait_space || (err->errnum != ENOSPC && err->errnum != EDQUOT))
			return rc;
		if (!said)
			say_waiting(NULL, err);
		said = true;
		if (poll(&stop, 1, SPACE_RETRY_MS) > 0)
			return stop_signal() ? 128 + stop_signal() : rc;
	}
}

int run_append(const void *given, char *const *operands, struct sc_err *err)
{
	const struct append_opts *o = given;
	struct sc_intake_result result;
	struct sc_log *log = NULL;
	struct sc_intake_options in = {
		.in_fd = STDIN_FILENO,
		.out_fd = o->common.quiet ? -1 : STDOUT_FILENO,
		.bad_fd = -1,
		.pairs = o->pairs || o->mirror || o->source ? SC_PAIRS_ALWAYS
			 : o->no_pairs                      ? SC_PAIRS_NEVER
							    : SC_PAIRS_AUTO,
		.wrap = o->wrap,
		.mirror = o->mirror,
		.source = o->source,
		.if_next = o->if_next,
		.batch_rows = (uint64_t)o->batch_rows,
		.wait_space = o->wait_space,
		.waiting = say_waiting,
	};
	int rc = check(o, err);

	if (rc == 0)
		rc = in.stop_fd = stop_begin(err);
	if (rc >= 0)
		rc = open_log(operands[0], &in, &log, err);
	if (rc == 0 && o->skip_bad) {
		in.bad_name = o->skip_bad;
		in.bad_fd = open(o->skip_bad, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
		if (in.bad_fd < 0) {
			rc = sc_err_sys(err, SC_E_CANTCREAT, errno, "cannot open");
			sc_err_on(err, "file", o->skip_bad);
		}
	}
	if (rc != 0)
		goto out;
	rc = sc_intake_run(&log, &in, &result, err);
	if (rc < 0) {
		sc_err_field_u64(err, "rows", result.rows);
		goto out;
	}
	rc = report(&result, o);
	if (result.stopped && stop_signal())
		rc = 128 + stop_signal();
out:
	sc_close(&in.bad_fd);
	sc_log_close(log);
	return rc;
}
