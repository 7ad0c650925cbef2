/*
 * tests/bench/fsyncbench.c: the time of one durable append, write + fdatasync: the floor under
 * `sc-log append`.
 */
#include "bench.h"

static void help(void)
{
	puts("usage: fsyncbench [options]\n"
	     "Appends records to a new file, syncing each; prints one JSON line per size.\n"
	     "  --dir D        folder for the file, which is removed afterwards (.)\n"
	     "  --sizes A,B    bytes per append (100,10240)\n"
	     "  --count N      appends per size (1000)      --secs S  at most so long per size "
	     "(20)\n"
	     "  --op O         fdatasync | fsync | dsync (file opened O_DSYNC) | none (fdatasync)\n"
	     "  --prealloc     fallocate and write the file before, then overwrite: no size "
	     "change\n"
	     "  --every K      sync after each K appends (1)");
	exit(0);
}

int main(int argc, char **argv)
{
	const char *dir = ".", *op = "fdatasync";
	char sizes[256] = "100,10240";
	uint64_t count = 1000, every = 1;
	double secs = 20;
	bool prealloc = false;
	for (int i = 1; i < argc; i++) {
		const char *a = argv[i], *v = i + 1 < argc ? argv[i + 1] : NULL;
		OPT("--help") help();
		else OPT("--dir") dir = VAL;
		else OPT("--sizes") snprintf(sizes, sizeof sizes, "%s", VAL);
		else OPT("--count") count = (uint64_t)num_arg(a, VAL);
		else OPT("--every") every = (uint64_t)num_arg(a, VAL);
		else OPT("--secs") secs = num_arg(a, VAL);
		else OPT("--op") op = VAL;
		else OPT("--prealloc") prealloc = true;
		else die("unknown option %s (see --help)", a);
	}
	int fl = O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, how;
	if (!strcmp(op, "fdatasync"))
		how = 1;
	else if (!strcmp(op, "fsync"))
		how = 2;
	else if (!strcmp(op, "dsync"))
		how = 0, fl |= O_DSYNC;
	else if (!strcmp(op, "none"))
		how = 0;
	else
		die("--op: %s is not known", op);
	if (!every)
		die("--every 0");
	for (char *sv = NULL, *s = strtok_r(sizes, ",", &sv); s; s = strtok_r(NULL, ",", &sv)) {
		size_t n = (size_t)num_arg("--sizes", s);
		char path[4096];
		snprintf(path, sizeof path, "%s/fsyncbench.%d", dir, (int)getpid());
		int fd = open(path, fl, 0600);
		if (fd < 0)
			die("%s: %s", path, strerror(errno));
		char *b = xrealloc(NULL, n + 1);
		memset(b, 'x', n);
		if (prealloc) {
			char z[65536] = { 0 };
			uint64_t left = count * n + sizeof z;
			while (left) {
				size_t k = left < sizeof z ? (size_t)left : sizeof z;
				if (write(fd, z, k) != (ssize_t)k)
					die("write: %s", strerror(errno));
				left -= k;
			}
			fsync(fd);
			lseek(fd, 0, SEEK_SET);
		}
		static struct hist h;
		memset(&h, 0, sizeof h);
		double cpu0 = self_cpu_s();
		uint64_t t0 = now_ns(), end = t0 + (uint64_t)(secs * 1e9), i = 0, last = t0;
		for (; i < count && last < end; i++) {
			uint64_t t = last;
			if (write(fd, b, n) != (ssize_t)n)
				die("write: %s", strerror(errno));
			if ((i + 1) % every == 0) {
				int r = how == 1 ? fdatasync(fd) : how == 2 ? fsync(fd) : 0;
				if (r)
					die("%s: %s", op, strerror(errno));
			}
			last = now_ns();
			hist_add(&h, last - t);
		}
		double el = (double)(last - t0) / 1e9;
		printf("{\"tool\":\"fsyncbench\",\"op\":\"%s\",\"size\":%zu,\"prealloc\":%s,"
		       "\"every\":%" PRIu64 ",\"count\":%" PRIu64
		       ",\"secs\":%.3f,\"appends_s\":%.0f,\"mb_s\":%.2f,\"cpu_s\":%.3f,",
		       op, n, prealloc ? "true" : "false", every, i, el, (double)i / el,
		       (double)(i * n) / el / 1e6, self_cpu_s() - cpu0);
		hist_json_us(stdout, "lat_us", &h);
		printf("}\n");
		fflush(stdout);
		close(fd);
		unlink(path);
		free(b);
	}
	return 0;
}
