/*
 * log/archive_url.h: where the archive of a log is: told by a person, or noted in the log.
 *
 * Owns      texts are the caller's, in its buffers; a note until sc_archive_note_done.
 * Units     none.
 * Errors    SC_E_USAGE: what is not such a URL; SC_E_DATA: a note that is none; SC_E_IO,
 *           SC_E_NOAUTH.
 * Safety    one thread a note; asks nothing of the network.
 * Source    man/sc-log.5, "Archive"; store/store.h, URLs.
 */
#ifndef SC_LOG_ARCHIVE_URL_H
#define SC_LOG_ARCHIVE_URL_H

#include <sys/stat.h>

#include "log/log.h"

/* SC_E_USAGE: a log of that name can have no archive. */
int sc_archive_check_name(const char *name, struct sc_err *err);

/* FOLDER is the URL of the folder of archives, as sc-seal --archive takes it: URL is that of NAME's
 * archive in it, SHOWN the same without password and query. Both are emptied first. */
int sc_archive_url(const char *folder, const char *name, struct sc_bytes *url, struct sc_bytes *shown,
		   struct sc_err *err);

/* SC_E_CONFIG: FOLDER, in which the archive of LOG is to be, is in LOG; NULL is elsewhere. */
int sc_archive_check_apart(const char *folder, const struct sc_log *log, struct sc_err *err);

/* What sc-seal --archive noted in the log's archive.json. */
struct sc_archive_note {
	char *url;           /* of the archive; no secrets; NULL: none is noted */
	struct stat seen;    /* of the file */
};
/* Look again. 1: *NOTE is another one now; 0: it is the same, or the file is the same. */
int sc_archive_note_read(struct sc_log *log, struct sc_archive_note *note, struct sc_err *err);
void sc_archive_note_done(struct sc_archive_note *note);

#endif
