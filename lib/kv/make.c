/*
 * make.c: a new data file, whole or not there. LMDB makes its file in several writes, and one that
 * a power cut leaves half made is none that it opens again. So a file that must last is made under
 * another name, and gets its own when all of it is on disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <lmdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "kv/kv_internal.h"

/* An environment that holds nothing, synced. The lock file is not of this one: nobody knows the
 * name. */
static int make_empty(const char *path)
{
	MDB_env *env = NULL;
	int rc = mdb_env_create(&env);

	if (!rc)
		rc = mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOLOCK, 0666);
	if (!rc)
		rc = mdb_env_sync(env, 1);
	if (env)
		mdb_env_close(env);
	return rc;
}

/* The name is given once: to whoever comes first. 0 also when that was somebody else. */
static int give_name(const char *temporary, const char *path)
{
	int rc = 0;

	if (renameat2(AT_FDCWD, temporary, AT_FDCWD, path, RENAME_NOREPLACE) == 0)
		return 0;
	rc = errno;
	if ((rc == EINVAL || rc == ENOSYS) && link(temporary, path) == 0)
		rc = 0; /* a file system that cannot rename so */
	else if (rc == EINVAL || rc == ENOSYS)
		rc = errno;
	unlink(temporary);
	return rc == EEXIST ? 0 : rc;
}

void sc_kv_lengthen(MDB_env *env, const char *path)
{
	MDB_envinfo info;
	struct stat file;
	MDB_stat st;
	off_t need;
	int fd;

	if (mdb_env_info(env, &info) || mdb_env_stat(env, &st))
		return;
	need = (off_t)((info.me_last_pgno + 1) * st.ms_psize);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	/* never shorter, and nothing that is there is touched: another process may write */
	if (fstat(fd, &file) == 0 && file.st_size < need)
		(void)fallocate(fd, 0, need - 1, 1);
	close(fd);
}

int sc_kv_make(const char *path)
{
	char temporary[PATH_MAX], folder[PATH_MAX], *slash;
	int rc;

	if (faccessat(AT_FDCWD, path, F_OK, 0) == 0 || errno != ENOENT)
		return 0; /* LMDB opens it, or says why not */
	rc = snprintf(temporary, sizeof(temporary), "%s.%ld.tmp", path, (long)getpid());
	if (rc < 0 || (size_t)rc >= sizeof(temporary))
		return ENAMETOOLONG;
	unlink(temporary); /* of one that was killed, and had our number */
	rc = make_empty(temporary);
	if (rc) {
		unlink(temporary);
		return rc;
	}
	rc = give_name(temporary, path);
	if (rc)
		return rc;
	snprintf(folder, sizeof(folder), "%s", path);
	slash = strrchr(folder, '/');
	if (slash)
		slash[slash == folder] = 0;
	return sc_sync_dir(slash ? folder : ".", NULL) < 0 ? EIO : 0;
}
