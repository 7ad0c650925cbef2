/* log.c: create, open, close, state. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "json/scan.h"
#include "log/log_internal.h"
#include "store/store.h"

#define LOOK_US 1000000

#define PATH_ROOM 80 /* what is put behind a log's path */
#define OUT_MAX (512u << 20)
#define FIRST_JOURNAL "00000000000000000001.journal"
#define NEW_JOURNAL_MAX ((64u << 10) + 1024) /* its anchor, and zeros ahead of use */

int sc_log_file(const struct sc_log *log, char ret_path[PATH_MAX], const char *name)
{
	return snprintf(ret_path, PATH_MAX, "%s/%s", log->path, name);
}

int sc_log_err(const struct sc_log *log, struct sc_err *err)
{
	return sc_err_on(err, "log", log->path);
}

static int create_failed(struct sc_err *err, int errnum, const char *path)
{
	int code = sc_err_sys(err,
			      errnum == EACCES || errnum == EPERM ? SC_E_NOAUTH : SC_E_CANTCREAT,
			      errnum, "cannot create");

	sc_err_on(err, "log", path);
	return code;
}

/* Is NAME in the folder of journals more than a first journal without rows, as a create leaves it
 * that was killed? */
static bool holds_more(int folder, const char *name)
{
	size_t len = 0;
	bool more = true;
	char *text = sc_malloc(NEW_JOURNAL_MAX + 1);
	int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);

	if (text && fd >= 0 && !strcmp(name, FIRST_JOURNAL) &&
	    sc_pread_all(fd, text, NEW_JOURNAL_MAX + 1, 0, &len, name, NULL) == 0)
		more = len > NEW_JOURNAL_MAX ||
		       (len && memmem(text + 1, len - 1, sc_block_magic, SC_BLOCK_MAGIC_LEN));
	sc_close(&fd);
	free(text);
	return more;
}

static int journals_alone(const char *path, struct sc_err *err)
{
	sc_err_set(err, SC_E_CANTCREAT, "cannot create",
		   "the folder holds the journals of a log without its log.json");
	sc_err_on(err, "log", path);
	sc_err_next(err, "put its log.json back, or choose another name");
	return SC_E_CANTCREAT;
}

/*
 * The folder of a new log: made, or empty, or what a create left that was killed (no log.json and
 * no rows).
 */
static int check_folder(const char *path, struct sc_err *err)
{
	char inner[PATH_MAX];
	const char *reason = NULL;
	struct dirent *entry;
	bool alone = false;
	DIR *dir = opendir(path);

	if (!dir)
		return create_failed(err, errno, path);
	snprintf(inner, sizeof(inner), "%s/log.json", path);
	if (access(inner, F_OK) == 0)
		reason = "it exists already";
	else if (sc_log_check_restore(path, NULL) < 0)
		reason = "a restore is not finished there";
	while (!reason && (entry = readdir(dir))) {
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..") &&
		    strcmp(entry->d_name, "journal") && !sc_settings_leftover(entry->d_name))
			reason = "the folder exists and holds other files";
	}
	closedir(dir);
	snprintf(inner, sizeof(inner), "%s/journal", path);
	dir = reason ? NULL : opendir(inner);
	while (dir && !alone && (entry = readdir(dir)))
		alone = entry->d_name[0] != '.' && holds_more(dirfd(dir), entry->d_name);
	if (dir)
		closedir(dir);
	if (alone)
		return journals_alone(path, err);
	if (!reason)
		return 0;
	sc_err_set(err, SC_E_CANTCREAT, "cannot create", "%s", reason);
	sc_err_on(err, "log", path);
	sc_err_next(err, "choose another name");
	return SC_E_CANTCREAT;
}

static int sync_parent(const char *path, struct sc_err *err)
{
	char parent[PATH_MAX];

	snprintf(parent, sizeof(parent), "%s/..", path);
	return sc_sync_dir(parent, err);
}

/* Everything but log.json, which makes it a log and comes last. */
static int make_files(struct sc_log *log, struct sc_err *err)
{
	char path[PATH_MAX];
	struct sc_state state = { .next = 1, .last_us = log->settings.created_us };
	int rc;

	state.hash = sc_block_genesis(log->settings.stream_id);
	sc_log_file(log, path, "journal");
	if (mkdir(path, 0777) < 0 && errno != EEXIST)
		return create_failed(err, errno, log->path);
	rc = sc_journal_begin(log, &state, sc_span(NULL, 0), err);
	sc_journal_close(log);
	if (rc == 0)
		rc = sc_sync_dir(log->path, err);
	return rc;
}

static void log_init(struct sc_log *log)
{
	memset(log, 0, sizeof(*log));
	log->dir_fd = log->state_fd = log->journal_fd = log->settings_fd = -1;
	sc_settings_init(&log->settings);
	sc_bytes_init(&log->out, OUT_MAX);
	sc_bytes_init(&log->ext, SC_BLOCK_EXT_MAX);
	sc_bytes_init(&log->places, OUT_MAX);
}

static void log_done(struct sc_log *log)
{
	sc_index_close(log);
	sc_journal_close(log);
	sc_close(&log->dir_fd);
	sc_close(&log->settings_fd);
	sc_schema_free(log->schema);
	sc_settings_done(&log->settings);
	sc_bytes_done(&log->out);
	sc_bytes_done(&log->ext);
	sc_bytes_done(&log->places);
	free(log->path);
}

void sc_log_done(struct sc_log *log)
{
	log_done(log);
}

static int set_path(struct sc_log *log, const char *path, struct sc_err *err)
{
	size_t len = strlen(path);

	while (len > 1 && path[len - 1] == '/')
		len--;
	if (len == 0 || len + PATH_ROOM >= PATH_MAX) {
		int code = sc_err_set(err, SC_E_NOLOG, "cannot use",
				      len ? "its path is too long" : "its path is empty");

		sc_err_on(err, "log", path);
		return code;
	}
	log->path = sc_malloc(len + 1);
	if (!log->path)
		return sc_err_nomem(err, "cannot open the log");
	memcpy(log->path, path, len);
	log->path[len] = 0;
	sc_path_base(path, log->name, sizeof(log->name));
	return 0;
}

int sc_log_init(struct sc_log *log, const char *path, struct sc_err *err)
{
	log_init(log);
	return set_path(log, path, err);
}

int sc_log_check_restore(const char *path, struct sc_err *err)
{
	char file[PATH_MAX], url[1024] = "URL";
	struct sc_json root, member;
	struct sc_bytes text, plain;
	int rc;

	if (snprintf(file, sizeof(file), "%s/" SC_RESTORE_FILE, path) >= (int)sizeof(file))
		return 0;
	sc_bytes_init(&text, 64u << 10);
	sc_bytes_init(&plain, sizeof(url) - 1);
	rc = sc_read_file(file, &text, NULL);
	if (rc == SC_E_NOLOG) {
		sc_bytes_done(&text);
		return 0;
	}
	if (rc == 0 && sc_json_scan(sc_span(text.data, text.len), &root, NULL) == 0 &&
	    sc_json_get(&root, "url", &member) && member.kind == SC_JSON_STRING &&
	    sc_json_unescape(member.text, &plain) == 0)
		snprintf(url, sizeof(url), "%.*s", (int)plain.len, plain.data);
	sc_bytes_done(&text);
	sc_bytes_done(&plain);
	sc_err_set(err, SC_E_NOLOG, "cannot open", "its restore is not finished");
	sc_err_on(err, "log", path);
	sc_err_next(err, "run it again: sc-log restore %s --archive %s", path, url);
	return SC_E_NOLOG;
}

static int take_settings(struct sc_log *log, const struct sc_log_settings *given,
			 struct sc_err *err)
{
	struct sc_settings *s = &log->settings;
	struct sc_schema_mark mark = { .version = 1, .from = 1 };
	int rc = 0;

	sc_uuid(s->stream_id);
	s->created_us = sc_wall_us();
	s->network_ok = given->force_network_fs;
	if (given->message_max)
		s->message_max = given->message_max;
	if (given->journal_bytes)
		s->journal_bytes = given->journal_bytes;
	if (s->message_max > SC_MESSAGE_MAX)
		return sc_err_set(err, SC_E_USAGE, "cannot create a log",
				  "a message can be at most %u bytes", SC_MESSAGE_MAX);
	if (s->journal_bytes < SC_JOURNAL_MIN || s->journal_bytes > SC_JOURNAL_MAX)
		return sc_err_set(err, SC_E_USAGE, "cannot create a log",
				  "a journal is %u to %u bytes", SC_JOURNAL_MIN, SC_JOURNAL_MAX);
	if (given->schema.len) {
		rc = sc_schema_parse(given->schema, &log->schema, err);
		if (rc == 0)
			mark.text = sc_schema_text(log->schema);
	}
	return rc < 0 ? rc : sc_settings_add(s, &mark, err);
}

/* Two that create the same log at once: the second one waits here, and then sees what is there. */
static int lock_folder(struct sc_log *log, struct sc_err *err)
{
	int rc;

	log->dir_fd = open(log->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (log->dir_fd < 0)
		return create_failed(err, errno, log->path);
	do
		rc = flock(log->dir_fd, LOCK_EX);
	while (rc < 0 && errno == EINTR);
	/* a file system without such locks is one for a single writer */
	return rc < 0 && errno != ENOLCK && errno != EOPNOTSUPP && errno != ENOSYS
		       ? create_failed(err, errno, log->path)
		       : 0;
}

int sc_log_create(const char *path, const struct sc_log_settings *settings, struct sc_err *err)
{
	struct sc_log log;
	int rc;

	log_init(&log);
	rc = set_path(&log, path, err);
	if (rc == 0)
		rc = take_settings(&log, settings, err);
	if (rc == 0) {
		rc = sc_make_parents(log.path, true, err);
		if (rc < 0)
			sc_err_on(err, "log", log.path);
	}
	if (rc == 0 && mkdir(log.path, 0777) < 0 && errno != EEXIST)
		rc = create_failed(err, errno, log.path);
	if (rc == 0)
		rc = lock_folder(&log, err);
	if (rc == 0)
		rc = check_folder(log.path, err);
	if (rc == 0 && !log.settings.network_ok)
		rc = sc_netfs_check(log.path, err);
	if (rc == 0)
		rc = make_files(&log, err);
	if (rc == 0)
		rc = sc_settings_write(log.path, &log.settings, err);
	if (rc == 0)
		rc = sync_parent(log.path, err);
	log_done(&log);
	return rc;
}

static int open_folder(struct sc_log *log, struct sc_err *err)
{
	int code;

	log->dir_fd = open(log->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (log->dir_fd >= 0)
		return 0;
	code = errno == ENOENT || errno == ENOTDIR ? SC_E_NOLOG
	       : errno == EACCES                   ? SC_E_NOAUTH
						   : SC_E_IO;
	sc_err_sys(err, code, errno, "cannot open");
	sc_log_err(log, err);
	if (code == SC_E_NOLOG && sc_store_is_url(log->path))
		sc_err_next(err, "an archive is read by sc-catchup; give the folder of a log");
	else if (code == SC_E_NOLOG)
		sc_err_next(err, "make it with: sc-log create %s", log->path);
	if (code == SC_E_NOAUTH)
		sc_err_next(err, "the folder needs the rights to read and enter for this user");
	return code;
}

/* PATH is another folder than ours. */
static bool is_another(const struct sc_log *log)
{
	struct stat ours, there;

	return fstat(log->dir_fd, &ours) < 0 ||
	       (stat(log->path, &there) == 0 &&
		(ours.st_dev != there.st_dev || ours.st_ino != there.st_ino));
}

bool sc_log_moved(struct sc_log *log)
{
	int64_t now_us = sc_mono_us();
	char path[PATH_MAX];

	if (now_us - log->looked_us < LOOK_US)
		return false;
	log->looked_us = now_us;
	sc_log_file(log, path, "log.json");
	return is_another(log) && access(path, F_OK) == 0;
}

static int tell_gone(const struct sc_log *log, const char *what, struct sc_err *err)
{
	sc_err_set(err, SC_E_NOLOG, "cannot go on with", "%s", what);
	sc_log_err(log, err);
	sc_err_next(err, "start again when it is there; if it is lost, sc-log "
			 "restore makes it anew of its archive");
	return SC_E_NOLOG;
}

static bool is_missing(const char *path)
{
	return access(path, F_OK) < 0 && errno == ENOENT;
}

int sc_log_gone(const struct sc_log *log, struct sc_err *err)
{
	char settings[PATH_MAX], restore[PATH_MAX];

	if (log->dir_fd < 0)
		return 0;
	if (is_missing(log->path) || is_another(log))
		return tell_gone(log, "its folder is gone", err);
	sc_log_file(log, settings, "log.json");
	sc_log_file(log, restore, SC_RESTORE_FILE);
	if (is_missing(settings) && is_missing(restore)) /* rm -r is at work */
		return tell_gone(log, "there is no log.json in it any more", err);
	return 0;
}

bool sc_log_forgives(struct sc_log *log)
{
	log->forgave |= log->tolerant;
	return log->tolerant;
}

int sc_log_or_gone(const struct sc_log *log, int rc, struct sc_err *err)
{
	if (rc != SC_E_DATA && rc != SC_E_IO)
		return rc;
	return sc_log_gone(log, err) < 0 ? SC_E_NOLOG : rc;
}

int sc_log_find_folder(struct sc_log *log, struct sc_err *err)
{
	int old = log->dir_fd, rc;

	if (is_missing(log->path))
		return tell_gone(log, "its folder is gone", err);
	if (!is_another(log))
		return 0;
	rc = open_folder(log, err);
	if (rc < 0) {
		log->dir_fd = old;
		return rc;
	}
	sc_close(&old);
	sc_journal_close(log);
	log->folders++;
	return 0;
}

/* The caller's view of the schema becomes that of the settings. */
static int take_schema(struct sc_log *log, struct sc_err *err)
{
	struct sc_schema_mark mark = sc_settings_schema(&log->settings);
	struct sc_schema *schema = NULL;
	int rc = mark.text.len ? sc_schema_parse(mark.text, &schema, err) : 0;

	if (rc < 0) {
		sc_log_err(log, err);
		return rc;
	}
	sc_schema_free(log->schema);
	log->schema = schema;
	log->mark = (struct sc_schema_mark){ mark.version, mark.from, sc_span(NULL, 0) };
	return 0;
}

static int open_log(struct sc_log *log, const char *path, bool redo, struct sc_err *err)
{
	int rc = set_path(log, path, err);

	if (rc == 0)
		rc = open_folder(log, err);
	if (rc == 0)
		rc = sc_settings_refresh(log, err);
	if (rc == 0 && log->mode == SC_LOG_APPEND && !log->settings.network_ok)
		rc = sc_netfs_check(log->path, err);
	if (rc < 0)
		return rc;
	sc_boot_id(log->boot);
	rc = redo ? sc_index_redo(log, err) : sc_index_open(log, err);
	if (rc == 0)
		rc = take_schema(log, err); /* journals may know a newer one than log.json */
	if (rc == 0 && !redo && log->kv && log->mode == SC_LOG_APPEND)
		sc_kv_reap(log->kv); /* readers that died keep old pages from being used again */
	return rc;
}

static int open_as(const char *path, enum sc_log_mode mode, bool redo, struct sc_log **ret_log,
		   struct sc_err *err)
{
	struct sc_log *log = sc_malloc(sizeof(*log));
	int rc;

	if (!log)
		return sc_err_nomem(err, "cannot open the log");
	log_init(log);
	log->tolerant = mode == SC_LOG_REPAIR;
	log->mode = mode == SC_LOG_READ ? SC_LOG_READ : SC_LOG_APPEND;
	rc = open_log(log, path, redo, err);
	if (rc < 0) {
		rc = sc_log_or_gone(log, rc, err);
		sc_log_close(log);
		return rc;
	}
	*ret_log = log;
	return 0;
}

int sc_log_open(const char *path, enum sc_log_mode mode, struct sc_log **ret_log,
		struct sc_err *err)
{
	return open_as(path, mode, false, ret_log, err);
}

int sc_log_reindex(const char *path, struct sc_err *err)
{
	struct sc_log *log = NULL;
	int rc = open_as(path, SC_LOG_REPAIR, true, &log, err);

	if (rc == 0 && log->forgave)
		rc = 1;
	sc_log_close(log);
	return rc;
}

void sc_log_close(struct sc_log *log)
{
	if (!log)
		return;
	log_done(log);
	free(log);
}

const char *sc_log_path(const struct sc_log *log)
{
	return log->path;
}

const char *sc_log_name(const struct sc_log *log)
{
	return log->name;
}

const char *sc_log_stream_id(const struct sc_log *log)
{
	return log->settings.stream_id;
}

const struct sc_schema *sc_log_schema(const struct sc_log *log)
{
	return log->schema;
}

uint64_t sc_log_schema_version(const struct sc_log *log)
{
	return log->mark.version;
}

uint64_t sc_log_schema_from(const struct sc_log *log)
{
	return log->mark.from;
}

int sc_log_reload(struct sc_log *log, struct sc_err *err)
{
	int rc = sc_settings_check(log, err);

	if (rc == 0 && sc_settings_schema(&log->settings).version != log->mark.version) {
		rc = take_schema(log, err);
		return rc < 0 ? rc : 1;
	}
	return rc;
}

int sc_log_schemas(struct sc_log *log,
		   int (*each)(void *arg, uint64_t version, uint64_t from, struct sc_span schema),
		   void *arg, struct sc_err *err)
{
	int rc = sc_settings_check(log, err);

	for (size_t i = 0; rc == 0 && i < log->settings.era_count; i++) {
		struct sc_schema_mark mark = sc_settings_era(&log->settings, i);

		rc = each(arg, mark.version, mark.from, mark.text);
	}
	return rc;
}

uint64_t sc_log_message_max(const struct sc_log *log)
{
	return log->settings.message_max;
}

int sc_log_state(struct sc_log *log, struct sc_log_state *ret_state, struct sc_err *err)
{
	struct sc_state s;
	bool holds;
	int rc = sc_index_now(log, &s, err);

	if (rc < 0)
		return rc;
	holds = s.first != 0;
	*ret_state = (struct sc_log_state){
		.first_offset = holds ? s.first : s.next,
		.last_offset = holds ? s.last : 0,
		.next_offset = s.next,
		.floor = s.floor,
		.rows = s.rows - s.floor_rows,
		.bytes = s.bytes - s.floor_bytes,
		.rows_before = s.floor_rows,
		.first_us = holds ? s.first_us : 0,
		.last_us = holds ? s.last_us : 0,
		.journals = s.journals,
		.segments = s.segments,
		.sealed_next = s.sealed_next,
		.sealed_rows = s.sealed_rows,
		.sealed_bytes = s.sealed_bytes,
		.commit_seq = s.commit,
	};
	return 0;
}

int sc_log_usage(struct sc_log *log, struct sc_log_usage *ret_usage, struct sc_err *err)
{
	struct sc_log_usage usage = { .journal_bytes = 0 };
	struct sc_names names = { NULL, 0 };
	char path[PATH_MAX];
	struct stat st;
	struct sc_state state;
	int rc = sc_index_now(log, &state, err);

	if (rc == 0)
		rc = sc_journal_list(log, &names, NULL, err);
	if (rc < 0)
		return rc;
	usage.segment_bytes = state.sealed_file_bytes;
	for (size_t i = 0; i < names.count; i++) {
		sc_journal_path(log, names.items[i], path);
		if (stat(path, &st) == 0) /* not when it was trimmed just now */
			usage.journal_bytes += (uint64_t)st.st_size;
	}
	sc_journal_list_done(&names);
	sc_log_file(log, path, SC_INDEX_FILE);
	if (stat(path, &st) == 0)
		usage.index_bytes = (uint64_t)st.st_size;
	if (rc == 0 && log->kv) {
		struct sc_kv_stat kv;

		rc = sc_kv_stat(log->kv, &kv, err);
		if (rc == 0)
			usage.readers = kv.readers;
	}
	if (rc == 0)
		*ret_usage = usage;
	return rc;
}
