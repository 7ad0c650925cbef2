/* intake_commit.c: batches into the log, in the caller's thread or in one beside it. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/file.h"
#include "base/thread.h"
#include "log/intake_internal.h"
#include "log/log_internal.h"

#define SPACE_RETRY_MS 500
#define BATCH_MAX (448u << 20) /* rows may grow when they are checked by another schema */

static bool is_full_disk(const struct sc_err *err)
{
	return err->errnum == ENOSPC || err->errnum == EDQUOT;
}

/* A sync failed: what is on disk is verified by opening the log anew. */
static int open_anew(struct sc_intake *in, struct sc_err *err)
{
	struct sc_log *again = NULL;
	int rc = sc_log_open((*in->log)->path, SC_LOG_APPEND, &again, err);

	if (rc < 0)
		return rc;
	if (in->retired)
		sc_log_close(*in->log);
	else
		in->retired = *in->log; /* rows are checked with its schema meanwhile */
	*in->log = again;
	return 0;
}

/* Append; with wait_space a full disk is waited for. */
static int append(struct sc_intake *in, const struct sc_log_rows *rows,
		  struct sc_log_commit *commit, struct sc_err *err)
{
	bool said = false;

	for (;;) {
		struct pollfd stop = { .fd = in->o->stop_fd, .events = POLLIN };
		int rc = said && (*in->log)->poisoned ? open_anew(in, err) : 0;

		if (rc == 0)
			rc = sc_log_append(*in->log, rows, commit, err);
		if (rc >= 0 || !in->o->wait_space || !is_full_disk(err))
			return rc;
		if (!said && in->o->waiting)
			in->o->waiting(in->o->arg, err);
		said = true;
		if (poll(&stop, 1, SPACE_RETRY_MS) > 0)
			return rc; /* told to stop: these rows are not in the log, and the error says why */
	}
}

void sc_batch_clear(struct sc_batch *b)
{
	sc_bytes_clear(&b->text);
	sc_bytes_clear(&b->raw);
	b->count = 0;
}

int sc_intake_take_schema(struct sc_intake *in)
{
	int rc = sc_log_reload(*in->log, in->err);

	if (rc < 0)
		return rc;
	in->schema = sc_log_schema(*in->log);
	in->schema_version = sc_log_schema_version(*in->log);
	sc_log_close(in->retired);
	in->retired = NULL;
	return 0;
}

static int commit_batch(struct sc_intake *in, struct sc_batch *b, struct sc_err *err)
{
	struct sc_log_commit commit;
	struct sc_log_rows rows = {
		.text = sc_span(b->text.data, b->text.len),
		.lens = b->lens,
		.count = b->count,
		.offsets = in->o->mirror ? b->offsets : NULL,
		.if_next = in->if_next,
		.schema_version = in->schema_version,
	};
	int rc;

	if (in->o->source) {
		rows.source = sc_span_str(in->o->source);
		rows.source_offset = b->source_offset;
	}
	rc = append(in, &rows, &commit, err);
	if (rc < 0) {
		in->append_failed = in->append_failed || rc != SC_E_STALE;
		return rc;
	}
	if (in->if_next)
		in->if_next = commit.last +
			      1; /* the rows follow each other without another's between them */
	in->result->rows += b->count;
	in->result->commits++;
	in->result->last = commit.last;
	sc_batch_clear(b);
	if (in->o->out_fd >= 0 && !in->out_failed &&
	    sc_write_all(in->o->out_fd, commit.lines.data, commit.lines.len, "standard output",
			 &in->out_err) < 0)
		in->out_failed =
			true; /* the rows stand; what was taken besides is still to be committed */
	return 0;
}

static void *work(void *arg)
{
	struct sc_intake *in = arg;
	uint64_t one = 1;

	pthread_mutex_lock(&in->lock);
	for (;;) {
		struct sc_batch *job;

		while (!in->quit && !(in->job && !in->done))
			pthread_cond_wait(&in->wake, &in->lock);
		if (in->quit)
			break;
		job = in->job;
		pthread_mutex_unlock(&in->lock);
		in->job_rc = commit_batch(in, job, &in->job_err);
		pthread_mutex_lock(&in->lock);
		in->done = true;
		pthread_cond_broadcast(&in->wake);
		while (write(in->done_fd, &one, sizeof(one)) < 0 && errno == EINTR)
			;
	}
	pthread_mutex_unlock(&in->lock);
	return NULL;
}

bool sc_intake_busy(const struct sc_intake *in)
{
	return in->busy;
}

int sc_intake_settle(struct sc_intake *in)
{
	uint64_t count;

	if (!in->busy)
		return 0;
	pthread_mutex_lock(&in->lock);
	while (!in->done)
		pthread_cond_wait(&in->wake, &in->lock);
	in->job = NULL;
	in->done = false;
	pthread_mutex_unlock(&in->lock);
	if (read(in->done_fd, &count, sizeof(count)) < 0 && errno != EAGAIN && errno != EINTR)
		return sc_err_sys(in->err, SC_E_INTERNAL, errno, "cannot wait for a commit");
	in->busy = false;
	if (in->job_rc < 0)
		*in->err = in->job_err;
	return in->job_rc;
}

int sc_intake_commit(struct sc_intake *in, struct sc_batch *batch)
{
	return commit_batch(in, batch, in->err);
}

int sc_intake_commit_there(struct sc_intake *in)
{
	if (!in->running) {
		if (sc_thread_start(&in->thread, work, in) != 0)
			return sc_intake_commit(in, &in->batches[in->fill]); /* slower, and right */
		in->running = true;
	}
	pthread_mutex_lock(&in->lock);
	in->job = &in->batches[in->fill];
	pthread_cond_broadcast(&in->wake);
	pthread_mutex_unlock(&in->lock);
	in->busy = true;
	in->fill ^= 1;
	return 0;
}

int sc_intake_init(struct sc_intake *in)
{
	int rc = 0;

	in->schema = sc_log_schema(*in->log);
	in->schema_version = sc_log_schema_version(*in->log);
	in->message_max = sc_log_message_max(*in->log);
	in->batch_rows = in->o->batch_rows ? in->o->batch_rows : SC_BATCH_ROWS;
	in->if_next = in->o->if_next;
	in->line_max = 2 * in->message_max + 4096;
	sc_bytes_init(&in->raw, in->line_max + (1u << 20));
	for (int i = 0; i < 2; i++) {
		sc_bytes_init(&in->batches[i].text, BATCH_MAX);
		sc_bytes_init(&in->batches[i].raw, SC_BATCH_RAW + in->line_max);
	}
	pthread_mutex_init(&in->lock, NULL);
	pthread_cond_init(&in->wake, NULL);
	in->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (in->done_fd < 0)
		return sc_err_sys(in->err, SC_E_INTERNAL, errno, "cannot start");
	if (in->o->source) {
		rc = sc_log_source(*in->log, sc_span_str(in->o->source), &in->source_at, in->err);
		if (rc == 0)
			in->source_at = 0;
	}
	return rc < 0 ? rc : 0;
}

void sc_intake_done(struct sc_intake *in)
{
	if (in->running) {
		pthread_mutex_lock(&in->lock);
		in->quit = true;
		pthread_cond_broadcast(&in->wake);
		pthread_mutex_unlock(&in->lock);
		pthread_join(in->thread, NULL);
	}
	pthread_cond_destroy(&in->wake);
	pthread_mutex_destroy(&in->lock);
	sc_close(&in->done_fd);
	sc_log_close(in->retired);
	sc_bytes_done(&in->raw);
	for (int i = 0; i < 2; i++) {
		sc_bytes_done(&in->batches[i].text);
		sc_bytes_done(&in->batches[i].raw);
		free(in->batches[i].origins);
		free(in->batches[i].lens);
		free(in->batches[i].offsets);
	}
}
