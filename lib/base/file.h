/*
 * base/file.h: files and descriptors, with the durability rules in one place.
 *
 * Owns      descriptors are the caller's, always O_CLOEXEC.
 * Units     sizes in bytes.
 * Errors    SC_E_IO, SC_E_NOLOG (ENOENT), SC_E_NOAUTH (EACCES, EPERM), SC_E_CANTCREAT as fits; the
 *           object named.
 * Safety    any thread.
 * Source    open(2), fsync(2), rename(2).
 */
#ifndef SC_BASE_FILE_H
#define SC_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/bytes.h"
#include "base/err.h"

/* All of LEN, through short counts, EINTR, and waits where FD itself does not wait (O_NONBLOCK). */
int sc_write_all(int fd, const void *data, size_t len, const char *name, struct sc_err *err);
int sc_pwrite_all(int fd, const void *data, size_t len, off_t at, const char *name,
		struct sc_err *err);
/* LEN bytes or fewer at the end of the file: *ret_len. */
int sc_pread_all(int fd, void *ret_data, size_t len, off_t at, size_t *ret_len, const char *name,
		 struct sc_err *err);
/* A whole file into BUF (emptied first), at most its max; larger is SC_E_DATA. "-" is not
 * special. */
int sc_read_file(const char *path, struct sc_bytes *buf, struct sc_err *err);
/* Write TEXT to a new name beside PATH, fsync, rename over PATH, fsync the folder (sync = false
 * leaves out both fsyncs). The temporary is removed on failure. MODE is for a new
 * file; else mode and owner stay, as far as we may. */
int sc_replace_file(const char *path, const void *data, size_t len, mode_t mode, bool sync,
		    struct sc_err *err);
/* The same for what is written piece by piece: WRITE gets the new file and its name. */
int sc_replace_file_by(const char *path, int (*write)(void *arg, int fd, const char *name, struct sc_err *err),
		       void *arg, mode_t mode, bool sync, struct sc_err *err);
/* Away with the new names that it left beside PATH when its process was killed. For whoever is the
 * only one that replaces PATH now. */
void sc_replace_sweep(const char *path);
int sc_sync_dir(const char *path, struct sc_err *err);
/* Make the folders in front of PATH's last name that are missing, each durable (sync) before the
 * next is made in it. */
int sc_make_parents(const char *path, bool sync, struct sc_err *err);
int sc_close(int *fd); /* accepts -1, sets -1; the result of close */
int sc_set_nonblock(int fd, bool on);
/* "a/b/" and "a/b" -> "b"; "." is resolved. Empty for "/". Writes at most size-1 bytes. */
int sc_path_base(const char *path, char *ret_name, size_t size);

/*
 * Failure injection for the tests: with SC_FAULT in the environment ("write:3:ENOSPC",
 * "fdatasync:1:EIO", "malloc:17:ENOMEM"...), the Nth call through these wrappers fails (and all
 * later ones of it with a '+' after the number). One relaxed load when unset. All file writes and
 * syncs of lib/ go through them.
 */
ssize_t sc_sys_write(int fd, const void *data, size_t len);
ssize_t sc_sys_pwrite(int fd, const void *data, size_t len, off_t at);
int sc_sys_fdatasync(int fd);
int sc_sys_fsync(int fd);
int sc_sys_rename(const char *from, const char *to);
int sc_sys_link(const char *from, const char *to);
int sc_sys_unlink(const char *path);
void *sc_malloc(size_t size);
void *sc_calloc(size_t count, size_t size);
void *sc_realloc(void *old, size_t size);

/* A server's peer is a descriptor, and the usual limit is for programs that have few: the soft
 * limit becomes the hard one; failing that, fewer are served. */
void sc_raise_descriptors(void);

#endif
