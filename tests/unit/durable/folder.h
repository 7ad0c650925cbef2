/*
 * tests/unit/durable/folder.h: the folder of one store, in memory where there is some: what kills a
 * test leaves the same there as on a disk, and thousands of syncs cost nothing.
 */
#ifndef SC_TESTS_DURABLE_FOLDER_H
#define SC_TESTS_DURABLE_FOLDER_H

#include <stdlib.h>
#include <unistd.h>

#include "../check.h"

static char folder[256];

static inline void folder_new(void)
{
	const char *tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : getenv("TMPDIR");

	snprintf(folder, sizeof(folder), "%s/sc-store.XXXXXX", tmp ? tmp : "/tmp");
	CHECK(mkdtemp(folder) != NULL);
}

/* Nothing but the store's own files is in it. */
static inline void folder_done(void)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/streams.mdb", folder);
	unlink(path);
	snprintf(path, sizeof(path), "%s/streams.mdb-lock", folder);
	unlink(path);
	CHECK_INT(rmdir(folder), 0);
}

#endif
