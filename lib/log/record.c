/* record.c: index.state, the record that each commit overwrites last. */
#include "log/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/file.h"

#define TRIES 100

static const char magic[8] = "SCSTATE\x02";

static uint64_t record_check(const struct sc_record *r)
{
	return XXH3_64bits(r, offsetof(struct sc_record, check));
}

/* A writer may be overwriting it under us: look again, the write takes no time. */
bool sc_record_read(int fd, struct sc_record *ret_record)
{
	for (int i = 0; i < TRIES; i++) {
		struct sc_record r;
		ssize_t n = pread(fd, &r, sizeof(r), 0);

		if (n == (ssize_t)sizeof(r) && !memcmp(r.magic, magic, sizeof(magic)) &&
		    r.check == record_check(&r)) {
			*ret_record = r;
			return true;
		}
		if (n >= 0 && n < (ssize_t)sizeof(r))
			return false;
	}
	return false;
}

int sc_record_write(struct sc_log *log, const struct sc_state *state, struct sc_err *err)
{
	struct sc_record r;
	char path[PATH_MAX];

	memset(&r, 0, sizeof(r));
	memcpy(r.magic, magic, sizeof(magic));
	memcpy(r.boot, log->boot, sizeof(log->boot));
	snprintf(r.stream_id, sizeof(r.stream_id), "%s", log->settings.stream_id);
	sc_kv_identity(log->kv, &r.dev, &r.ino);
	r.state = *state;
	r.check = record_check(&r);
	sc_log_file(log, path, SC_STATE_FILE);
	return sc_pwrite_all(log->state_fd, &r, sizeof(r), 0, path, err);
}

bool sc_record_ours(const struct sc_log *log, const struct sc_record *r)
{
	return !strncmp(r->boot, log->boot, sizeof(r->boot)) &&
	       !strncmp(r->stream_id, log->settings.stream_id, sizeof(r->stream_id));
}

int sc_record_open(struct sc_log *log, struct sc_record *ret_record, struct sc_err *err)
{
	char path[PATH_MAX];
	struct stat st;

	sc_log_file(log, path, SC_STATE_FILE);
	log->state_fd = open(path, O_RDWR | O_CLOEXEC);
	log->state_writable = log->state_fd >= 0;
	if (log->state_fd < 0 && (errno == EACCES || errno == EPERM || errno == EROFS))
		log->state_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (log->state_fd < 0) {
		if (errno == ENOENT)
			return 0;
		sc_err_sys(err, errno == EACCES ? SC_E_NOAUTH : SC_E_IO, errno, "cannot open");
		sc_err_on(err, "file", path);
		return err ? err->code : SC_E_IO;
	}
	if (!sc_record_read(log->state_fd, ret_record) || !sc_record_ours(log, ret_record))
		return 0;
	sc_log_file(log, path, SC_INDEX_FILE);
	return stat(path, &st) == 0 && (uint64_t)st.st_dev == ret_record->dev &&
	       (uint64_t)st.st_ino == ret_record->ino;
}
