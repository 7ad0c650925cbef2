/*
 * dsbench: the engine of Durable Streams without HTTP: appends in flight, large messages, reads.
 *
 * Method: IN-FLIGHT calls are kept in the engine's queue; each `done` hands its call back to one
 * thread, which submits the next. Then all is read back, a page at a time. Usage: dsbench FOLDER
 * [SECONDS [IN-FLIGHT [STREAMS [BYTES]]]]. One JSON line on stdout; FOLDER is left behind.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "library.h"

#include "base/clock.h"
#include "durable/engine.h"

#define PATH_BYTES 48

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t some = PTHREAD_COND_INITIALIZER;
static struct sc_ds_call *ready;

static void done(struct sc_ds_call *call)
{
	pthread_mutex_lock(&lock);
	call->next = ready;
	ready = call;
	pthread_cond_signal(&some);
	pthread_mutex_unlock(&lock);
}

static struct sc_ds_call *take(void)
{
	struct sc_ds_call *calls;

	pthread_mutex_lock(&lock);
	while (!ready)
		pthread_cond_wait(&some, &lock);
	calls = ready;
	ready = NULL;
	pthread_mutex_unlock(&lock);
	return calls;
}

static void create(struct sc_ds *ds, const char *path)
{
	struct sc_ds_call call = { .request = { .method = SC_DS_PUT, .path = sc_span_str(path) } };

	sc_ds_answer_init(&call.answer);
	sc_ds_call(ds, &call);
	if (call.answer.status != 201)
		exit(1);
	sc_ds_answer_done(&call.answer);
}

static double read_all(struct sc_ds *ds, const char *path, uint64_t *ret_bytes)
{
	struct sc_ds_request request = { .method = SC_DS_GET, .path = sc_span_str(path) };
	struct sc_ds_answer answer;
	char offset[SC_DS_OFFSET_TEXT] = "-1";
	int64_t start = sc_mono_us();

	sc_ds_answer_init(&answer);
	do {
		struct sc_ds_reader reader = { 0 };

		request.query.offset = sc_span_str(offset);
		if (sc_ds_read(ds, &request, &reader, false, &answer, &err) < 0)
			fail("cannot read");
		*ret_bytes += answer.body.len;
		sc_ds_offset_format(answer.next, offset);
	} while (!answer.up_to_date);
	sc_ds_answer_done(&answer);
	return (double)(sc_mono_us() - start) / 1e6;
}

int main(int argc, char **argv)
{
	double seconds = argc > 2 ? atof(argv[2]) : 2, took, read_s = 0;
	size_t flight = argc > 3 ? strtoul(argv[3], NULL, 10) : 75,
	       streams = argc > 4 ? strtoul(argv[4], NULL, 10) : 1,
	       bytes = argc > 5 ? strtoul(argv[5], NULL, 10) : 100, busy = 0, n = 0;
	struct sc_ds_call *calls = calloc(flight, sizeof(*calls)), *list;
	char *paths = calloc(streams, PATH_BYTES), *body = malloc(bytes + 1);
	uint64_t appended = 0, read_bytes = 0;
	struct sc_ds_stats before, stats;
	struct sc_ds *ds = NULL;
	int64_t start;

	if (argc < 2 || !calls || !paths || !body)
		return 64;
	memset(body, 'x', bytes);
	if (sc_ds_open(argv[1], NULL, &ds, &err) < 0)
		fail("cannot open the store");
	for (size_t i = 0; i < streams; i++) {
		snprintf(paths + i * PATH_BYTES, PATH_BYTES, "/v1/stream/%d/%zu",
			 (int)(sc_wall_us() % 1000000), i);
		create(ds, paths + i * PATH_BYTES);
	}
	if (sc_ds_stats(ds, &before, &err) < 0)
		fail("cannot ask for the numbers");
	start = sc_mono_us();
	for (size_t i = 0; i < flight; i++) {
		calls[i].request = (struct sc_ds_request){
			.method = SC_DS_POST,
			.content_type = sc_span_str(SC_DS_TYPE_STANDARD),
			.body = sc_span(body, bytes),
		};
		calls[i].done = done;
		sc_ds_answer_init(&calls[i].answer);
		calls[i].answer.status = 204;
		done(&calls[i]);
		busy++;
	}
	while (busy) {
		for (list = take(); list;) {
			struct sc_ds_call *call = list;

			list = call->next;
			if (call->answer.status != 204)
				exit(1);
			if ((double)(sc_mono_us() - start) > seconds * 1e6) {
				busy--;
				continue;
			}
			call->request.path = sc_span_str(paths + n++ % streams * PATH_BYTES);
			if (sc_ds_submit(ds, call))
				exit(1);
			appended++;
		}
	}
	took = (double)(sc_mono_us() - start) / 1e6;
	for (size_t i = 0; i < streams; i++)
		read_s += read_all(ds, paths + i * PATH_BYTES, &read_bytes);
	if (read_bytes != appended * bytes || sc_ds_stats(ds, &stats, &err) < 0)
		return 1;
	printf("{\"bench\":\"streams\",\"bytes\":%zu,\"in_flight\":%zu,\"streams\":%zu,"
	       "\"appends_s\":%.0f,\"append_mb_s\":%.1f,\"calls_commit\":%.1f,\"read_mb_s\":%.0f,"
	       "\"file_mb\":%.1f}\n",
	       bytes, flight, streams, (double)appended / took,
	       (double)(appended * bytes) / took / 1e6,
	       (double)(stats.calls - before.calls) / (double)(stats.commits - before.commits),
	       (double)read_bytes / read_s / 1e6, (double)stats.store_file_bytes / 1e6);
	sc_ds_close(ds);
	for (size_t i = 0; i < flight; i++)
		sc_ds_answer_done(&calls[i].answer);
	free(calls);
	free(paths);
	free(body);
	return 0;
}
