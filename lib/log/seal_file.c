/* seal_file.c: a segment being made: under a name of its own, then under the one that counts. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "log/seal_internal.h"

int sc_seal_file_begin(struct sc_seal_file *file, struct sc_seal *seal,
		       const struct sc_seal_options *o, struct sc_span schema, struct sc_err *err)
{
	struct sc_segment_begin begin = { .stream_id = seal->log->settings.stream_id,
					  .level = o->level };
	int rc = 0;

	*file = (struct sc_seal_file){ .seal = seal, .o = o, .fd = -1 };
	if (schema.len)
		rc = sc_schema_parse(schema, &file->schema, err);
	if (rc < 0)
		return rc;
	sc_log_file(seal->log, file->path, SC_SEAL_TEMPORARY);
	file->fd = open(file->path, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (file->fd < 0) {
		rc = sc_err_sys(err, errno == EACCES || errno == EPERM ? SC_E_NOAUTH : SC_E_IO,
				errno, "cannot create");
		sc_err_on(err, "file", file->path);
		return rc;
	}
	begin.fd = file->fd;
	begin.name = file->path;
	begin.schema = file->schema;
	return sc_segment_write_begin(&begin, &file->writer, err);
}

int sc_seal_file_add(struct sc_seal_file *file, const struct sc_run *run, struct sc_err *err)
{
	int rc = sc_segment_write_add(file->writer, run, err);

	file->done += run->lines.len;
	if (rc == 0 && file->o->progress &&
	    !file->o->progress(file->o->arg, file->done, file->total))
		file->stopped = true;
	return rc;
}

/* What was written is what will be read, before anything that it was made of goes. */
static int read_back(const struct sc_seal_file *file, struct sc_err *err)
{
	struct sc_segment_source source;
	struct sc_segment *segment = NULL;
	int rc = sc_segment_source_fd(file->fd, file->path, &source, err);

	if (rc == 0)
		rc = sc_segment_open(&source, &segment, err);
	if (rc == 0)
		rc = sc_segment_verify(segment, err);
	sc_segment_close(segment);
	return rc;
}

int sc_seal_file_finish(struct sc_seal_file *file, const struct sc_segment_tie *tie,
			struct sc_sealed *ret_sealed, struct sc_err *err)
{
	struct sc_segment_info info;
	char path[PATH_MAX];
	int rc = sc_segment_write_finish(file->writer, tie, &info, err);

	if (rc == 0)
		rc = read_back(file, err);
	if (rc < 0)
		return rc;
	sc_tier_path(file->seal->log, info.first, info.last, path);
	if (sc_sys_rename(file->path, path) < 0) {
		rc = sc_err_sys(err, SC_E_IO, errno, "cannot rename");
		sc_err_on(err, "file", file->path);
		return rc;
	}
	sc_close(&file->fd);
	sc_tier_note(&info, ret_sealed);
	rc = sc_tier_sync(file->seal->log, err);
	if (rc < 0)
		sc_seal_file_discard(file->seal, ret_sealed);
	return rc;
}

void sc_seal_file_free(struct sc_seal_file *file)
{
	sc_segment_write_free(file->writer);
	sc_schema_free(file->schema);
	if (file->fd >= 0)
		sc_sys_unlink(file->path);
	sc_close(&file->fd);
}

int sc_seal_file_known(struct sc_kv_txn *txn, const struct sc_sealed *segment, struct sc_err *err)
{
	struct sc_sealed entry;
	struct sc_span value;
	int rc = sc_kv_get(txn, SC_T_SEGMENTS, sc_u64_key(&segment->first), &value, err);

	if (rc != 1 || value.len != sizeof(entry))
		return rc < 0 ? rc : 0;
	memcpy(&entry, value.data, sizeof(entry));
	return entry.last == segment->last;
}

/*
 * Under the index's lock: whoever rebuilds the index takes a file with the right name for what it
 * is, and what it covers away. When the lock cannot be had the next seal removes it.
 */
void sc_seal_file_discard(struct sc_seal *seal, const struct sc_sealed *segment)
{
	struct sc_kv_txn *txn = NULL;
	struct sc_state state;

	if (sc_index_begin(seal->log, &txn, &state, NULL) < 0)
		return;
	if (sc_seal_file_known(txn, segment, NULL) == 0)
		sc_tier_remove(seal->log, segment->first, segment->last, NULL);
	sc_index_abort(seal->log, &txn);
}
