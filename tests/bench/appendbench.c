/*
 * appendbench: what a durable append costs, against the floor: a write of the same bytes into
 * zeros, and fdatasync.
 *
 * Method: both take turns, one commit each, in the same folder, so that a busy disk hits both
 * alike; the figure is the ratio of the medians. Usage: appendbench FOLDER [ROWS-PER-COMMIT
 * [COMMITS]]. One JSON line on stdout.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "library.h"

#include "base/clock.h"
#include "log/log.h"

#define ROW \
	"{\"event_ts\":1700000000000000,\"price\":61234.50,\"amount\":0.0317,\"side\":1," \
	"\"symbol\":\"BTCUSD\",\"ok\":true}"

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* A file of zeros on disk, as long as all commits together. */
static int make_floor(const char *path, size_t bytes)
{
	static const char zeros[1 << 16];
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	for (size_t at = 0; fd >= 0 && at < bytes; at += sizeof(zeros))
		if (write(fd, zeros, sizeof(zeros)) != (ssize_t)sizeof(zeros))
			exit(1);
	if (fd < 0 || fsync(fd) < 0)
		exit(1);
	return fd;
}

int main(int argc, char **argv)
{
	size_t rows = argc > 2 ? strtoul(argv[2], NULL, 10) : 1,
	       commits = argc > 3 ? strtoul(argv[3], NULL, 10) : 1000;
	size_t row_len = strlen(ROW), bytes = rows * (row_len + 10);
	int64_t *ours = calloc(commits, sizeof(*ours)),
		*floor_us = calloc(commits, sizeof(*floor_us)), start, total = 0;
	uint32_t *lens = calloc(rows, sizeof(*lens));
	char *text = malloc(rows * row_len + 1), *same = malloc(bytes + 1), path[4096],
	     log_path[4096];
	struct sc_log_rows batch = { .lens = lens, .count = rows };
	struct sc_log_commit commit;
	struct sc_log *log = NULL;
	int fd;

	if (argc < 2 || !ours || !floor_us || !lens || !text || !same)
		return 64;
	for (size_t i = 0; i < rows; i++) {
		memcpy(text + i * row_len, ROW, row_len);
		lens[i] = (uint32_t)row_len;
	}
	memset(same, 'x', bytes);
	batch.text.data = text;
	batch.text.len = rows * row_len;
	snprintf(path, sizeof(path), "%s/floor.%d", argv[1], (int)getpid());
	snprintf(log_path, sizeof(log_path), "%s/log.%d", argv[1], (int)getpid());
	fd = make_floor(path, commits * bytes);
	if (sc_log_create(log_path, &(struct sc_log_settings){ .message_max = 0 }, &err) < 0 ||
	    sc_log_open(log_path, SC_LOG_APPEND, &log, &err) < 0)
		fail("cannot open the log");
	for (size_t i = 0; i < commits; i++) {
		start = sc_mono_us();
		if (pwrite(fd, same, bytes, (off_t)(i * bytes)) != (ssize_t)bytes ||
		    fdatasync(fd) < 0)
			return 74;
		floor_us[i] = sc_mono_us() - start;
		start = sc_mono_us();
		if (sc_log_append(log, &batch, &commit, &err) < 0)
			fail("cannot append");
		ours[i] = sc_mono_us() - start;
		total += ours[i];
	}
	qsort(ours, commits, sizeof(*ours), compare);
	qsort(floor_us, commits, sizeof(*floor_us), compare);
	printf("{\"bench\":\"append\",\"rows\":%zu,\"commits\":%zu,\"p50_us\":%lld,\"p99_us\":%lld,"
	       "\"floor_p50_us\":%lld,"
	       "\"floor_p99_us\":%lld,\"ratio\":%.2f,\"rows_s\":%.0f}\n",
	       rows, commits, (long long)ours[commits / 2], (long long)ours[commits * 99 / 100],
	       (long long)floor_us[commits / 2], (long long)floor_us[commits * 99 / 100],
	       (double)ours[commits / 2] / (double)floor_us[commits / 2],
	       (double)(rows * commits) * 1e6 / (double)total);
	sc_log_close(log);
	close(fd);
	unlink(path);
	free(ours);
	free(floor_us);
	free(lens);
	free(text);
	free(same);
	return 0;
}
