/* restore.c: a log made anew from its archive. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/progress.h"
#include "log/restore.h"
#include "sc-log.h"

#define INTO(member) offsetof(struct restore_opts, member)

typedef unsigned long long ull;

const struct sc_opt restore_options[] = {
	SC_OPT_GROUP("What is restored"),
	{ .name = "archive",
	  .letter = 'A',
	  .kind = SC_OPT_TEXT,
	  .arg = "URL",
	  .into = INTO(archive),
	  .help = "take the archive URL/NAME, file:// or s3://, as sc-seal wrote it" },
	{ .name = "keep-local",
	  .kind = SC_OPT_LIST,
	  .arg = "DUR|SIZE",
	  .into = INTO(keep_local),
	  .help = "download only segments that are not older, or the newest within this size" },
	{ .name = "partial",
	  .kind = SC_OPT_FLAG,
	  .into = INTO(partial),
	  .help = "where something is missing or damaged, take what is whole" },
	{ .name = "jump",
	  .kind = SC_OPT_OFFSET,
	  .arg = "N",
	  .into = INTO(jump),
	  .standard = "1048576",
	  .help = "leave out at least so many offsets, which the lost machine may have given" },
	{ .name = NULL },
};

static int keep_one(const char *text, struct sc_restore_options *options, struct sc_err *err)
{
	int64_t ms;
	uint64_t bytes;

	if (*text && text[strspn(text, "0123456789.")]) {
		if (sc_parse_duration(text, &ms, NULL) == 0 && ms > 0 && ms <= INT64_MAX / 1000 &&
		    !options->keep_age_us) {
			options->keep_age_us = ms * 1000;
			return 0;
		}
		if (sc_parse_duration(text, &ms, NULL) < 0 &&
		    sc_parse_size(text, &bytes, NULL) == 0 && bytes && !options->keep_bytes) {
			options->keep_bytes = bytes;
			return 0;
		}
	}
	sc_err_set(err, SC_E_USAGE, "cannot use --keep-local", "'%s' is no age and no size", text);
	return sc_err_next(err, "give an age as 7d, a size as 10G, or both, each with its option");
}

static bool stopped(void *arg)
{
	(void)arg;
	return stop_signal() != 0;
}

static bool on_progress(void *arg, uint64_t done, uint64_t total)
{
	sc_progress_show(arg, done, total);
	return !stop_signal();
}

static void print_json(const struct sc_restore_report *r)
{
	struct sc_bytes b;
	char last[SC_TIME_TEXT], since[SC_TIME_TEXT];

	sc_bytes_init(&b, 64u << 10);
	sc_time_text(r->last_us, last);
	sc_time_text(r->since_us, since);
	sc_bytes_puts(&b, "{\"archive\":");
	sc_bytes_put_json(&b, sc_span_str(r->url));
	sc_bytes_putf(&b, ",\"stream_id\":\"%s\",\"epoch\":%llu,\"resumed\":%s", r->stream_id,
		      (ull)r->epoch, r->resumed ? "true" : "false");
	if (r->host[0]) {
		sc_bytes_puts(&b, ",\"taken_from\":{\"host\":");
		sc_bytes_put_json(&b, sc_span_str(r->host));
		sc_bytes_putf(&b, ",\"since\":\"%s\"}", since);
	}
	sc_bytes_putf(&b, ",\"rows\":%llu,\"segments\":%llu,\"segment_bytes\":%llu,\"left\":%llu",
		      (ull)r->rows, (ull)r->segments, (ull)r->segment_bytes, (ull)r->left);
	sc_bytes_putf(&b, ",\"shipped_rows\":%llu", (ull)r->shipped);
	if (r->rows)
		sc_bytes_putf(&b, ",\"first\":%llu,\"last\":%llu,\"last_appended\":\"%s\"",
			      (ull)r->first, (ull)r->last, last);
	else
		sc_bytes_puts(&b, ",\"first\":null,\"last\":null,\"last_appended\":null");
	sc_bytes_putf(&b, ",\"next\":%llu}\n", (ull)r->next);
	fwrite(b.data, 1, b.len, stdout);
	sc_bytes_done(&b);
}

static void print_words(const struct sc_restore_report *r)
{
	char last[SC_TIME_TEXT];

	if (!r->rows) {
		printf("no rows; the next one gets offset %llu\n", (ull)r->next);
		return;
	}
	sc_time_text(r->last_us, last);
	printf("%llu rows, %llu to %llu; the last one was appended at %s: what came later is "
	       "lost\n",
	       (ull)r->rows, (ull)r->first, (ull)r->last, last);
	printf("the next row gets offset %llu: the lost machine may have given those between\n",
	       (ull)r->next);
	if (r->left)
		printf("%llu older segments stay in the archive only\n", (ull)r->left);
}

int run_restore(const void *given, char *const *operands, struct sc_err *err)
{
	const struct restore_opts *o = given;
	struct sc_store_settings settings = { .stop = stopped };
	struct sc_restore_options options = {
		.jump = o->jump,
		.partial = o->partial,
		.settings = &settings,
		.progress = on_progress,
	};
	struct sc_restore_report report;
	struct sc_progress progress;
	int rc = 0;

	if (!o->archive || !sc_store_is_url(o->archive)) {
		if (o->archive)
			sc_err_set(err, SC_E_USAGE, "cannot restore", "'%s' is no URL", o->archive);
		else
			sc_err_set(err, SC_E_USAGE, "cannot restore", "--archive is missing");
		return sc_err_next(err, "give the URL that sc-seal --archive has: file:///FOLDER "
					"or s3://BUCKET/PREFIX");
	}
	for (size_t i = 0; rc == 0 && i < o->keep_local.count; i++)
		rc = keep_one(o->keep_local.items[i], &options, err);
	if (rc == 0)
		rc = stop_begin(err);
	if (rc < 0)
		return rc;
	sc_progress_init(&progress, STDERR_FILENO, !o->common.quiet && !o->common.json);
	sc_progress_begin(&progress, "restore");
	options.arg = &progress;
	rc = sc_log_restore(operands[0], o->archive, &options, &report, err);
	sc_progress_clear(&progress);
	if (rc < 0)
		return rc == SC_E_TIMEOUT && stop_signal() ? 128 + stop_signal() : rc;
	if (o->common.json)
		print_json(&report);
	else if (!o->common.quiet)
		print_words(&report);
	return 0;
}
