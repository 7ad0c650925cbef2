/* netfs.c: file systems whose locks, mappings and notices do not reach other machines. */
#include <errno.h>
#include <sys/vfs.h>

#include "log/log_internal.h"

const char *sc_netfs_name(uint64_t type)
{
	/* statfs(2), and linux/magic.h for the later ones */
	static const struct {
		uint32_t type;
		const char *name;
	} known[] = {
		{ 0x6969, "NFS" },        { 0x517b, "SMB" },       { 0xff534d42, "CIFS" },
		{ 0xfe534d42, "SMB2" },   { 0x5346414f, "AFS" },   { 0x6b414653, "AFS" },
		{ 0x73757245, "Coda" },   { 0x00c36400, "Ceph" },  { 0x01021997, "9P" },
		{ 0x0bd00bd0, "Lustre" }, { 0x47504653, "GPFS" },  { 0x7461636f, "OCFS2" },
		{ 0x01161970, "GFS2" },   { 0x65735546, "FUSE" },  { 0x564c, "NCP" },
		{ 0x19830326, "BeeGFS" }, { 0xaad7aaea, "PanFS" },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].type == (uint32_t)type)
			return known[i].name;
	return NULL;
}

int sc_netfs_check(const char *path, struct sc_err *err)
{
	struct statfs fs;
	const char *name;

	if (statfs(path, &fs) < 0) {
		sc_err_sys(err, SC_E_IO, errno, "cannot examine the file system of");
		sc_err_on(err, "log", path);
		return SC_E_IO;
	}
	name = sc_netfs_name((uint64_t)fs.f_type);
	if (!name)
		return 0;
	sc_err_set(err, SC_E_CONFIG, "cannot keep",
		   "it is on a %s file system, where neither locks nor syncs can be relied on",
		   name);
	sc_err_on(err, "log", path);
	sc_err_next(err, "keep it on a local disk, and serve it with sc-serve; or create it with "
			 "--force-network-fs");
	return SC_E_CONFIG;
}
