#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/thread.h"
#include "cast/writer.h"
#include "log/log.h"
#include "wire/publish.h"

#define TEXT_KEEP (256u << 10)
#define COMMIT_BYTES_MAX (4u << 20) /* of rows in one commit, unless one frame has more */

struct sc_publisher {
	struct sc_writer *writer;
	struct sc_publisher *prev, *next;
	void *arg;
	struct sc_bytes id; /* empty: no producer */
	uint64_t epoch;
	size_t outstanding;
	bool paused, gone;
};

struct request {
	struct request *next;
	struct sc_publisher *publisher;
	size_t bytes; /* of the frame, as counted in the queue */
	struct sc_bytes frame;
	struct sc_bytes reply;
	uint64_t seq, seq_last;
	size_t text_at, text_len, first, count; /* its rows in the batch */
};

struct list {
	struct request *first, **end;
};

struct sc_writer {
	void (*wake)(void *arg);
	void *arg;
	char *path;
	pthread_t thread;
	bool started;

	pthread_mutex_t lock; /* guards what follows, up to the blank line */
	pthread_cond_t changed;
	struct list queue, done;
	bool stop, opened;
	int open_rc;
	struct sc_err open_err;
	struct sc_writer_stats stats;

	/* the loop's */
	struct sc_publisher *publishers;
	struct request *given; /* whose reply was handed out last */
	uint64_t queued_bytes; /* without a reply taken */
	size_t waiting;        /* frames without a reply taken */

	/* the thread's */
	struct sc_log *log;
	struct sc_bytes text;
	uint32_t *lens;
	size_t lens_cap, rows;
	uint64_t schema_version; /* that the batch's rows were checked by */
	struct request **batch;
	size_t batch_count, batch_cap;
	struct sc_writer_stats moved; /* added to stats when the replies are given over */
};

static void list_init(struct list *l)
{
	l->first = NULL;
	l->end = &l->first;
}

static void list_add(struct list *l, struct request *r)
{
	r->next = NULL;
	*l->end = r;
	l->end = &r->next;
}

static void request_free(struct request *r)
{
	if (!r)
		return;
	sc_bytes_done(&r->frame);
	sc_bytes_done(&r->reply);
	free(r);
}

/* Without memory for a reply there is none; the connection learns it by the text being empty, and
 * is closed by the server. */
static void reply_error(struct sc_writer *w, struct request *r, const char *word,
			const char *detail)
{
	if (!strcmp(word, SC_PUBLISH_FAILED))
		w->moved.failed++;
	else
		w->moved.refused++;
	sc_bytes_clear(&r->reply);
	sc_publish_error(&r->reply, word, detail);
}

static void reply_failure(struct sc_writer *w, struct request *r, int rc, const struct sc_err *err)
{
	const char *word = SC_PUBLISH_FAILED;

	if (rc == SC_E_DATA || rc == SC_E_USAGE || rc == SC_E_CONFIG)
		word = SC_PUBLISH_REJECTED;
	else if (rc == SC_E_REFUSED)
		word = SC_PUBLISH_FENCED;
	reply_error(w, r, word, err->reason);
}

/* After a failed sync the handle is of no more use: only a log opened anew knows what is on
 * disk. */
static int open_log(struct sc_writer *w, struct sc_err *err)
{
	if (w->log)
		return 0;
	return sc_log_open(w->path, SC_LOG_APPEND, &w->log, err);
}

static int commit(struct sc_writer *w, struct request *const *requests, size_t count,
		  struct sc_log_commit *ret_commit, struct sc_err *err)
{
	const struct sc_publisher *p = requests[0]->publisher;
	struct sc_log_rows rows = { .lens = w->lens + requests[0]->first,
				    .schema_version = w->schema_version };
	int rc = open_log(w, err);

	if (rc < 0)
		return rc;
	rows.text.data = w->text.data + requests[0]->text_at;
	for (size_t i = 0; i < count; i++) {
		rows.text.len += requests[i]->text_len;
		rows.count += requests[i]->count;
	}
	if (p->id.len) {
		rows.producer = sc_span(p->id.data, p->id.len);
		rows.producer_epoch = p->epoch;
		rows.producer_seq = requests[0]->seq;
		rows.producer_last = requests[count - 1]->seq_last;
	}
	rc = sc_log_append(w->log, &rows, ret_commit, err);
	/* Of rows that came long ago the log knows that it has them, not where. */
	if (rc == 0 && ret_commit->duplicate &&
	    (!ret_commit->first || ret_commit->last - ret_commit->first + 1 != rows.count))
		ret_commit->first = 0;
	if (rc < 0 && rc != SC_E_DATA && rc != SC_E_REFUSED && rc != SC_E_NOMEM &&
	    rc != SC_E_STALE) {
		sc_log_close(w->log);
		w->log = NULL;
	}
	return rc;
}

/* One commit for all of these; when that is refused for one of them, each on its own. How many were
 * replied to: the others are to be checked by another schema. */
static size_t commit_replies(struct sc_writer *w, struct request *const *requests, size_t count)
{
	struct sc_log_commit done;
	struct sc_err err;
	int rc;

	sc_err_clear(&err);
	rc = commit(w, requests, count, &done, &err);
	if (rc == SC_E_STALE)
		return 0;
	if ((rc == SC_E_DATA || rc == SC_E_REFUSED) && count > 1) {
		for (size_t i = 0; i < count; i++)
			if (!commit_replies(w, requests + i, 1))
				return i;
		return count;
	}
	if (rc == 0) {
		w->moved.commits += !done.duplicate;
		w->moved.duplicates += done.duplicate;
	}
	for (size_t i = 0; i < count; i++) {
		struct request *r = requests[i];

		if (rc < 0) {
			reply_failure(w, r, rc, &err);
			continue;
		}
		if (!done.duplicate)
			w->moved.rows += r->count;
		sc_publish_ok(&r->reply,
			      done.first ? done.first + (r->first - requests[0]->first) : 0,
			      r->count, done.duplicate);
	}
	return count;
}

static void take(struct sc_writer *w, struct request *r);

/* The schema is another one: the requests of the batch from FROM on, from their frames. */
static void take_again(struct sc_writer *w, size_t from)
{
	struct request **batch = w->batch;
	size_t count = w->batch_count;
	struct sc_err err;
	int rc;

	sc_err_clear(&err);
	rc = sc_log_reload(w->log, &err);
	w->batch = NULL; /* what is taken fills another one */
	w->batch_count = w->batch_cap = w->rows = 0;
	sc_bytes_clear(&w->text);
	for (size_t i = from; i < count; i++) {
		if (rc < 0)
			reply_error(w, batch[i], SC_PUBLISH_FAILED, err.reason);
		else
			take(w, batch[i]);
	}
	free(batch);
}

static void flush(struct sc_writer *w)
{
	while (w->batch_count) {
		size_t replied = commit_replies(w, w->batch, w->batch_count);

		if (replied < w->batch_count) {
			take_again(w, replied);
			continue;
		}
		w->batch_count = 0;
	}
	w->rows = 0;
	sc_bytes_clear(&w->text);
}

static int grow(void **array, size_t *cap, size_t count, size_t item)
{
	size_t more = *cap ? 2 * *cap : 64;
	void *p;

	if (count < *cap)
		return 0;
	p = sc_realloc(*array, more * item);
	if (!p)
		return SC_E_NOMEM;
	*array = p;
	*cap = more;
	return 0;
}

/* Check the frame's rows and put them behind the batch's; negative: *err, and the batch is as it
 * was. */
static int project(struct sc_writer *w, struct request *r, struct sc_publish *publish,
		   struct sc_err *err)
{
	uint64_t max = sc_log_message_max(w->log);
	struct sc_span row;
	int rc;

	if (!w->rows)
		w->schema_version = sc_log_schema_version(w->log);
	r->text_at = w->text.len;
	r->first = w->rows;
	while (sc_publish_next(publish, &row)) {
		size_t before = w->text.len;

		rc = sc_row_project(sc_log_schema(w->log), row, &w->text, err);
		if (rc == 0 && w->text.len - before > max)
			rc = sc_err_set(err, SC_E_DATA, "cannot publish",
					"the row has %zu bytes, the log's limit is %llu",
					w->text.len - before, (unsigned long long)max);
		if (rc == 0 && grow((void **)&w->lens, &w->lens_cap, w->rows, sizeof(*w->lens)) < 0)
			rc = sc_err_nomem(err, "cannot publish");
		if (rc < 0) {
			w->text.len = r->text_at;
			w->rows = r->first;
			return rc;
		}
		w->lens[w->rows++] = (uint32_t)(w->text.len - before);
	}
	r->count = w->rows - r->first;
	r->text_len = w->text.len - r->text_at;
	return 0;
}

/* Do the rows of R go into the commit that is being filled? */
static bool joins(const struct sc_writer *w, const struct request *r)
{
	const struct request *last = w->batch[w->batch_count - 1];

	if (!r->publisher->id.len || r->publisher != last->publisher)
		return !r->publisher->id.len && !last->publisher->id.len;
	return r->seq == last->seq_last + 1;
}

/*
 * Rows that do not fit may be a producer's that were stored before the schema was changed, and come
 * again since the reply was lost: then the reply is due. Asked with rows that nobody would store.
 */
static bool stored_before(struct sc_writer *w, struct request *r, size_t count,
			  struct sc_log_commit *ret_commit)
{
	const struct sc_publisher *p = r->publisher;
	struct sc_log_rows rows = {
		.count = count,
		.schema_version = UINT64_MAX,
		.producer = sc_span(p->id.data, p->id.len),
		.producer_epoch = p->epoch,
		.producer_seq = r->seq,
		.producer_last = r->seq_last,
	};
	size_t text_at = w->text.len, rows_at = w->rows;
	bool stored = p->id.len && sc_log_schema_version(w->log) > 1;

	for (size_t i = 0; stored && i < count; i++) {
		stored = sc_bytes_putc(&w->text, '0') == 0 &&
			 grow((void **)&w->lens, &w->lens_cap, w->rows, sizeof(*w->lens)) == 0;
		if (stored)
			w->lens[w->rows++] = 1;
	}
	rows.lens = w->lens + rows_at;
	rows.text = sc_span(w->text.data + text_at, count);
	stored = stored && sc_log_append(w->log, &rows, ret_commit, NULL) == 0;
	w->text.len = text_at;
	w->rows = rows_at;
	return stored;
}

static void take(struct sc_writer *w, struct request *r)
{
	struct sc_publish publish;
	struct sc_log_commit before;
	struct sc_err err;
	int rc;

	sc_err_clear(&err);
	if (sc_publish_parse(sc_span(r->frame.data, r->frame.len), r->publisher->id.len, &publish,
			     &err) < 0) {
		reply_error(w, r, SC_PUBLISH_BAD_FRAME, err.reason);
		return;
	}
	r->seq = publish.seq;
	r->seq_last = publish.last;
	if (w->batch_count && !joins(w, r))
		flush(w);
	rc = open_log(w, &err);
	if (rc < 0) {
		reply_error(w, r, SC_PUBLISH_FAILED, err.reason);
		return;
	}
	rc = project(w, r, &publish, &err);
	if (rc == SC_E_DATA && sc_log_reload(w->log, NULL) == 1) {
		take_again(w, 0); /* it was refused by a schema that is not in force any more */
		take(w, r);
		return;
	}
	if (rc == 0 &&
	    grow((void **)&w->batch, &w->batch_cap, w->batch_count, sizeof(struct request *)) < 0) {
		w->text.len = r->text_at;
		w->rows = r->first;
		rc = sc_err_nomem(&err, "cannot publish");
	}
	if (rc == SC_E_DATA && stored_before(w, r, publish.count, &before)) {
		w->moved.duplicates++;
		if (before.last - before.first + 1 != publish.count)
			before.first = 0; /* where they are is not known any more */
		sc_publish_ok(&r->reply, before.first, publish.count, true);
		return;
	}
	if (rc < 0) {
		reply_failure(w, r, rc, &err);
		return;
	}
	w->batch[w->batch_count++] = r;
	if (w->rows >= SC_WRITER_ROWS_MAX || w->text.len >= COMMIT_BYTES_MAX)
		flush(w);
}

static void give(struct sc_writer *w, struct list *taken)
{
	struct sc_writer_stats *s = &w->stats, *m = &w->moved;

	pthread_mutex_lock(&w->lock);
	if (taken->first) {
		*w->done.end = taken->first;
		w->done.end = taken->end;
	}
	s->rows += m->rows;
	s->commits += m->commits;
	s->duplicates += m->duplicates;
	s->refused += m->refused;
	s->failed += m->failed;
	pthread_mutex_unlock(&w->lock);
	memset(m, 0, sizeof(*m));
	w->wake(w->arg);
}

static void *work(void *given)
{
	struct sc_writer *w = given;
	struct sc_err err;
	bool stop = false;
	int rc;

	sc_err_clear(&err);
	rc = open_log(w, &err);
	pthread_mutex_lock(&w->lock);
	w->opened = true;
	w->open_rc = rc;
	w->open_err = err;
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
	while (rc == 0 && !stop) {
		struct list taken;

		list_init(&taken);
		pthread_mutex_lock(&w->lock);
		while (!w->queue.first && !w->stop) {
			if (w->text.cap > TEXT_KEEP)
				sc_bytes_done(
					&w->text); /* of a large commit; under load there is no time to come here */
			pthread_cond_wait(&w->changed, &w->lock);
		}
		stop = w->stop && !w->queue.first;
		if (w->queue.first) {
			taken = w->queue;
			list_init(&w->queue);
		}
		pthread_mutex_unlock(&w->lock);
		/* All that came while the last commit was on its way is one commit now. */
		for (struct request *r = taken.first; r; r = r->next)
			take(w, r);
		flush(w);
		if (taken.first)
			give(w, &taken);
	}
	sc_log_close(w->log);
	w->log = NULL;
	return NULL;
}

static int start(struct sc_writer *w, struct sc_err *err)
{
	int rc = sc_thread_start(&w->thread, work, w); /* signals are the loop's */

	if (rc)
		return sc_err_sys(err, SC_E_INTERNAL, rc, "cannot start the writer");
	w->started = true;
	pthread_mutex_lock(&w->lock);
	while (!w->opened)
		pthread_cond_wait(&w->changed, &w->lock);
	rc = w->open_rc;
	if (rc < 0 && err)
		*err = w->open_err;
	pthread_mutex_unlock(&w->lock);
	return rc;
}

int sc_writer_open(const char *log_path, void (*wake)(void *arg), void *arg,
		   struct sc_writer **ret_writer, struct sc_err *err)
{
	struct sc_writer *w = sc_calloc(1, sizeof(*w));
	int rc;

	if (!w)
		return sc_err_nomem(err, "cannot start the writer");
	w->wake = wake;
	w->arg = arg;
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->changed, NULL);
	list_init(&w->queue);
	list_init(&w->done);
	sc_bytes_init(&w->text, SIZE_MAX);
	w->path = strdup(log_path);
	rc = w->path ? start(w, err) : sc_err_nomem(err, "cannot start the writer");
	if (rc < 0) {
		sc_writer_close(w);
		return rc;
	}
	*ret_writer = w;
	return 0;
}

static void release(struct sc_publisher *p)
{
	if (!p->gone || p->outstanding)
		return;
	sc_bytes_done(&p->id);
	free(p);
}

/* The next reply that somebody waits for. */
static struct request *next_done(struct sc_writer *w)
{
	struct request *r;

	pthread_mutex_lock(&w->lock);
	r = w->done.first;
	if (r) {
		w->done.first = r->next;
		if (!r->next)
			list_init(&w->done);
	}
	pthread_mutex_unlock(&w->lock);
	if (r) {
		w->queued_bytes -= r->bytes;
		w->waiting--;
		r->publisher->outstanding--;
	}
	return r;
}

void sc_writer_close(struct sc_writer *w)
{
	struct request *r;

	if (!w)
		return;
	if (w->started) {
		pthread_mutex_lock(&w->lock);
		w->stop = true;
		pthread_cond_broadcast(&w->changed);
		pthread_mutex_unlock(&w->lock);
		pthread_join(w->thread, NULL);
	}
	while ((r = next_done(w))) {
		release(r->publisher);
		request_free(r);
	}
	request_free(w->given);
	sc_bytes_done(&w->text);
	free(w->lens);
	free(w->batch);
	free(w->path);
	pthread_cond_destroy(&w->changed);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

bool sc_writer_busy(const struct sc_writer *writer)
{
	return writer->waiting > 0;
}

int sc_publisher_new(struct sc_writer *writer, struct sc_span producer, uint64_t epoch, void *arg,
		     struct sc_publisher **ret_publisher, struct sc_err *err)
{
	struct sc_publisher *p = sc_calloc(1, sizeof(*p));

	if (!p)
		return sc_err_nomem(err, "cannot take a publisher");
	p->writer = writer;
	p->arg = arg;
	p->epoch = epoch;
	sc_bytes_init(&p->id, SIZE_MAX);
	if (producer.len && sc_bytes_put(&p->id, producer.data, producer.len) < 0) {
		free(p);
		return sc_err_nomem(err, "cannot take a publisher");
	}
	p->next = writer->publishers;
	if (p->next)
		p->next->prev = p;
	writer->publishers = p;
	writer->stats.publishers++;
	*ret_publisher = p;
	return 0;
}

void sc_publisher_free(struct sc_publisher *p)
{
	if (!p)
		return;
	if (p->prev)
		p->prev->next = p->next;
	else
		p->writer->publishers = p->next;
	if (p->next)
		p->next->prev = p->prev;
	p->gone = true;
	release(p);
}

struct sc_span sc_publisher_name(const struct sc_publisher *p)
{
	return p ? sc_span(p->id.data, p->id.len) : sc_span("", 0);
}

int sc_publisher_frame(struct sc_publisher *p, struct sc_span frame, struct sc_err *err)
{
	struct sc_writer *w = p->writer;
	struct request *r = sc_calloc(1, sizeof(*r));

	if (!r)
		return sc_err_nomem(err, "cannot publish");
	sc_bytes_init(&r->frame, SIZE_MAX);
	sc_bytes_init(&r->reply, SIZE_MAX);
	if (sc_bytes_put(&r->frame, frame.data, frame.len) < 0) {
		request_free(r);
		return sc_err_nomem(err, "cannot publish");
	}
	r->publisher = p;
	r->bytes = frame.len;
	p->outstanding++;
	w->queued_bytes += frame.len;
	w->waiting++;
	pthread_mutex_lock(&w->lock);
	w->stats.frames++;
	list_add(&w->queue, r);
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->lock);
	if (p->outstanding >= SC_WRITER_FRAMES_MAX || w->queued_bytes >= SC_WRITER_BYTES_MAX)
		p->paused = true;
	return p->paused;
}

bool sc_writer_next(struct sc_writer *w, struct sc_writer_reply *ret_reply)
{
	struct request *r;

	request_free(w->given);
	w->given = NULL;
	while ((r = next_done(w))) {
		if (!r->publisher->gone) {
			w->given = r;
			*ret_reply = (struct sc_writer_reply){ .arg = r->publisher->arg,
							       .text = sc_span(r->reply.data,
									       r->reply.len) };
			return true;
		}
		release(r->publisher);
		request_free(r);
	}
	if (w->queued_bytes >= SC_WRITER_BYTES_MAX / 2 && w->waiting)
		return false;
	for (struct sc_publisher *p = w->publishers; p; p = p->next) {
		if (!p->paused || p->outstanding > SC_WRITER_FRAMES_MAX / 2)
			continue;
		p->paused = false;
		*ret_reply = (struct sc_writer_reply){ .arg = p->arg, .resume = true };
		return true;
	}
	return false;
}

void sc_writer_stats(struct sc_writer *w, struct sc_writer_stats *ret_stats)
{
	pthread_mutex_lock(&w->lock);
	*ret_stats = w->stats;
	pthread_mutex_unlock(&w->lock);
	ret_stats->queued_bytes = w->queued_bytes;
}
