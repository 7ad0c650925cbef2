/*
 * What a broker held is in its state file, all of it and once; a file that is not whole is refused;
 * a crash while it is written leaves the old file or the new one.
 * Method: brokers written and read, compared through what their nodes get; every byte of a file
 * changed, every length cut; each write, sync and rename failed (SC_FAULT, this program as its own
 * child); the writer killed at each of its system calls (ptrace).
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lab.h"
#include "base/file.h"
#include "msg/state.h"

static char folder[64], path[96];

static void fresh_folder(void)
{
	static char made[64];

	if (!made[0]) {
		snprintf(made, sizeof(made), "/tmp/sc-state-test.XXXXXX");
		CHECK(mkdtemp(made));
	}
	snprintf(folder, sizeof(folder), "%s", made);
	snprintf(path, sizeof(path), "%s/x.state", folder);
	unlink(path);
}

/* Files of the folder. */
static int files(void)
{
	char text[128];
	FILE *p;
	int n = -1;

	snprintf(text, sizeof(text), "ls -A %s | wc -l", folder);
	p = popen(text, "r");
	CHECK(p && fscanf(p, "%d", &n) == 1);
	pclose(p);
	return n;
}

/* Of every kind of thing some. */
static void fill(void)
{
	struct peer *p, *n;

	lab_start();
	p = join("p", "p");
	command(p, "U1", "subscribe.channel", "['a' 'c' '*']");
	command(p, "U2", "subscribe.channel", "['b' '[c-d]*' 's?']");
	command(p, "U3", "subscribe.message", "['b' \"R\" 1764436591]");
	command(p, "U4", "subscribe.message", "['b' \"S\" 1764435593]"); /* over in a second */
	command(p, "U5", "subscribe.message", "['once' \"R\"]");
	command(p, "U6", "channel.priority", "['hi' 9]");
	command(p, "U7", "channel.size", "['small' 2]");
	command(p, "U8", "endpoint.size", "['a' 3]");
	command(p, "U9", "endpoint.create", "'kept'");
	command(p, "V1", "subscribe.channel", "['a' 'hi' '*']");
	n = join("n", "a");
	send(p, "M1", "c", "s1", "'held'"); /* by n, and so not kept for a */
	send(p, "M2", "c", "s1", "2");
	send_ref(p, "M3", "c", "x", "R", "[3 \"bin\"]");
	command(p, "V2", "pause", "nil");
	for (int i = 0; i < 3; i++) {
		static const char *const uids[] = { "N1", "N2", "N3" };

		send(p, uids[i], "small", "s", "1");
	}
	send(p, "N4", "c", "s", "4");
	send(p, "N5", "hi", "s", "5");
	sc_broker_stop(lab);
	leave(n);
	leave(p);
}

static int reload(struct sc_err *err)
{
	int rc;

	lab_new();
	lab_us += 2000000;
	sc_broker_time(lab, LAB_WALL + lab_us, lab_us);
	rc = sc_state_read(path, lab, err);
	if (rc == 1) {
		sc_broker_tick(lab);
		while (sc_broker_busy(lab))
			sc_broker_work(lab);
	}
	return rc;
}

static void check_filled(void)
{
	struct peer *a, *b, *once, *p;
	struct sc_broker_stats s = stats();

	CHECK_INT(s.subscriptions, 4); /* S is over, and once was for once */
	CHECK_INT(s.endpoints, 4);
	CHECK_INT(s.channels, 3);
	a = join("a", "a");
	for (int i = 0; i < 4; i++)
		ack_held(a);
	/* forwarded when it started: hi first, and a had room for three */
	GOT(a, "N5 hi/s 5 | M3 c/x @R [3 \"bin\"] | N4 c/s 4");
	b = join("b", "b");
	for (int i = 0; i < 4; i++)
		ack_held(b);
	GOT(b, "M1 c/s1 'held' | M2 c/s1 2 | M3 c/x @R [3 \"bin\"]");
	once = join("once", "once");
	GOT(once, "M3 c/x @R [3 \"bin\"]");
	p = join("p", "p");
	send_ref(p, "W1", "zz", "s", "R", "1");
	GOT(p, "ack W1 = 1"); /* b; once was for once */
	GOT(b, "W1 zz/s @R 1");
	command(p, "W2", "channel.create", "'hi'"); /* it is there */
	command(p, "W3", "pause", "nil");
	for (int i = 0; i < 3; i++)
		send(p, "X", "small", "s", "1");
	CHECK_INT(stats().dropped_full,
		  2); /* one when a got what waited, one now: small holds two */
	leave(a);
	leave(b);
	leave(once);
	leave(p);
	CHECK_INT(stats().nodes, 0);
}

TEST(all_of_it_is_there_again)
{
	struct sc_err err;
	struct stat st;

	fresh_folder();
	fill();
	CHECK_OK(sc_state_write(path, lab, &err), &err);
	CHECK_INT(stat(path, &st), 0);
	CHECK_INT(st.st_mode & 0777, 0600);
	CHECK_INT(files(), 1);
	CHECK_INT(reload(&err), 1);
	check_filled();
	CHECK_OK(sc_state_remove(path, &err), &err);
	CHECK_INT(files(), 0);
	CHECK_INT(reload(&err), 0);
	CHECK_OK(sc_state_remove(path, &err), &err);
}

TEST(a_message_is_there_once)
{
	struct sc_err err;
	struct peer *p;
	struct stat st;
	char data[3000] = "'";

	fresh_folder();
	lab_start();
	p = join("p", "p");
	for (int i = 0; i < 100; i++) {
		char text[60];

		snprintf(text, sizeof(text), "['e%d' 'c' '*']", i);
		command(p, "U", "subscribe.channel", text);
		p->len = 0;
	}
	memset(data + 1, 'x', 2000);
	strcpy(data + 2001, "'");
	send(p, "M", "c", "s", data);
	CHECK(stats().queued == 100 && stats().queued_bytes < 20000);
	CHECK_OK(sc_state_write(path, lab, &err), &err);
	CHECK_INT(stat(path, &st), 0);
	CHECK(st.st_size < 12000);
	CHECK_INT(reload(&err), 1);
	CHECK(stats().queued == 100 && stats().queued_bytes < 20000);
}

TEST(age_goes_on)
{
	struct sc_err err;
	struct peer *p;

	fresh_folder();
	sc_broker_options_init(&lab_options);
	lab_options.max_age_us = 10000000;
	lab_new();
	p = join("p", "p");
	command(p, "U1", "subscribe.channel", "['a' 'c' '*']");
	send(p, "M1", "c", "s", "1");
	lab_wait(9000000);
	send(p, "M2", "c", "s", "2");
	CHECK_OK(sc_state_write(path, lab, &err), &err);
	CHECK_INT(reload(&err),
		  1); /* its wall clock is 7 s behind: then nothing is older than now */
	CHECK_INT(stats().queued, 2);
	lab_wait(8500000);
	CHECK_INT(stats().queued, 1);
	lab_wait(1500001);
	CHECK_INT(stats().queued, 0);
}

static char *load_file(size_t *ret_len)
{
	struct sc_bytes file;
	struct sc_err err;

	sc_bytes_init(&file, 1 << 20);
	CHECK_OK(sc_read_file(path, &file, &err), &err);
	*ret_len = file.len;
	return file.data;
}

static void put_file(const char *data, size_t len)
{
	struct sc_err err;

	CHECK_OK(sc_replace_file(path, data, len, 0600, false, &err), &err);
}

TEST(writing_takes_no_memory_of_its_own_for_each_message)
{
	struct sc_broker_stats before;
	struct sc_err err;
	struct peer *p;

	fresh_folder();
	lab_start();
	p = join("p", "p");
	p->order = SC_MSG_REFERENCE;
	command(p, "U1", "subscribe.channel", "['w' 'c' '*']");
	send(p, "M1", "c", "s", "1");
	send_ref(p, "M2", "c", "s", "R", "2");
	before = stats();
	CHECK_INT(sc_state_write(path, lab, &err), 0);
	CHECK_INT(stats().queued_bytes, before.queued_bytes);
	CHECK_INT(reload(&err), 1);
	p = join("w", "w");
	ack_held(p);
	GOT(p, "M1 c/s 1 | M2 c/s @R 2");
}

TEST(a_wall_clock_of_long_ago)
{
	struct sc_err err;
	struct peer *p;

	fresh_folder();
	lab_start();
	p = join("p", "p");
	command(p, "U1", "subscribe.channel", "['w' 'c' '*']");
	send(p, "M1", "c", "s", "1");
	lab_us += 100000000;
	sc_broker_time(lab, 5000000, lab_us); /* 1970, and the message is older */
	CHECK_INT(sc_state_write(path, lab, &err), 0);
	CHECK_INT(reload(&err), 1);
	p = join("w", "w");
	GOT(p, "M1 c/s 1");
}

TEST(what_is_damaged_is_refused)
{
	struct sc_err err;
	size_t len;
	char *data;

	fresh_folder();
	fill();
	CHECK_OK(sc_state_write(path, lab, &err), &err);
	data = load_file(&len);
	for (size_t at = 0; at < len; at++) {
		for (unsigned flip = 1; flip < 256; flip += 127) {
			data[at] ^= (char)flip;
			put_file(data, len);
			if (reload(&err) != SC_E_DATA)
				FAIL("byte %zu changed by %u was taken", at, flip);
			data[at] ^= (char)flip;
		}
		put_file(data, at);
		if (reload(&err) != SC_E_DATA)
			FAIL("%zu bytes of it were taken", at);
		CHECK_INT(files(), 1); /* the file stays */
	}
	data = realloc(data, len + 1);
	CHECK(data);
	data[len] = (char)0x90;
	put_file(data, len + 1);
	CHECK_INT(reload(&err), SC_E_DATA);
	put_file(data, len);
	CHECK_INT(reload(&err), 1);
	free(data);
}

TEST(another_version_is_refused)
{
	struct sc_err err;
	size_t len;
	char *data, line[1200];

	fresh_folder();
	lab_start();
	CHECK_OK(sc_state_write(path, lab, &err), &err);
	data = load_file(&len);
	data[13] = 2;
	put_file(data, len);
	free(data);
	CHECK_INT(reload(&err), SC_E_DATA);
	sc_err_line(&err, line, sizeof(line));
	CHECK(strstr(line, "of a version that this program does not know"));
}

/* This program as its own child: it writes the state, perhaps with a fault. */
static int write_as_child(const char *fault)
{
	int status;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		setenv("SC_FAULT", fault, 1);
		setenv("SC_STATE_CHILD", folder, 1);
		setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* it ends where it stands */
		if (!freopen("/dev/null", "w", stdout))
			_exit(98);
		execl("/proc/self/exe", "state_test", "the_child_only", (char *)NULL);
		_exit(99);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	return WEXITSTATUS(status);
}

TEST(the_child_only)
{
	const char *given = getenv("SC_STATE_CHILD");
	struct sc_err err;

	if (!given)
		return;
	snprintf(path, sizeof(path), "%s/x.state", given);
	fill();
	_exit(sc_state_write(path, lab, &err) < 0 ? 7 : 0);
}

TEST(a_write_that_fails_leaves_the_old_file)
{
	static const char *const faults[] = { "write:1:ENOSPC", "fsync:1:EIO", "rename:1:EIO",
					      "write:1:EIO" };
	struct sc_err err;

	if (getenv("SC_STATE_CHILD"))
		return;
	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++) {
		fresh_folder();
		CHECK_INT(write_as_child(faults[i]), 7);
		CHECK_INT(files(), 0);
		put_file("old", 3);
		CHECK_INT(write_as_child(faults[i]), 7);
		CHECK_INT(files(), 1);
		CHECK_INT(reload(&err), SC_E_DATA); /* still the old one */
	}
}

static int without_memory(int n)
{
	char fault[40];
	int rc;

	fresh_folder();
	snprintf(fault, sizeof(fault), "malloc:%d+:ENOMEM", n);
	rc = write_as_child(fault);
	CHECK(rc == 0 || rc == 1 || rc == 7);
	CHECK_INT(files(), rc == 0);
	return rc;
}

TEST(a_write_without_memory_leaves_no_file)
{
	struct sc_err err;
	int n = 1, early = 0, failed = 0, rc;

	if (getenv("SC_STATE_CHILD"))
		return;
	/* the child needs memory before it writes: status 1; find where the writing begins */
	while (without_memory(n) == 1)
		n *= 2;
	for (early = n / 2; n - early > 1;) {
		int middle = (early + n) / 2;

		if (without_memory(middle) == 1)
			early = middle;
		else
			n = middle;
	}
	for (; (rc = without_memory(n)) != 0; n++, failed++)
		CHECK_INT(rc, 7);
	CHECK(failed >= 1);
	CHECK_INT(reload(&err), 1);
	check_filled();
}

#define CALLS_MAX 400
static long calls[CALLS_MAX]; /* of the last child, as far as it came */
static int call_count;

/* A child that stops at each system call of the write, and is killed at the Nth stop. True: it
 * came so far. */
static bool killed_at(int n)
{
	int status, at = 0;
	pid_t pid = fork();
	bool reached = false;

	CHECK(pid >= 0);
	if (pid == 0) {
		struct sc_err err;

		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		sc_state_write(path, lab, &err);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
	CHECK_INT(ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)PTRACE_O_TRACESYSGOOD), 0);
	call_count = 0;
	while (!reached && ptrace(PTRACE_SYSCALL, pid, NULL, NULL) == 0 &&
	       waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
		struct __ptrace_syscall_info info = { 0 };

		CHECK(ptrace(PTRACE_GET_SYSCALL_INFO, pid, (void *)sizeof(info), &info) > 0);
		if (info.op == PTRACE_SYSCALL_INFO_ENTRY && call_count < CALLS_MAX)
			calls[call_count++] = (long)info.entry.nr;
		reached = ++at == n;
	}
	kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) == pid && !WIFEXITED(status) && !WIFSIGNALED(status))
		;
	return reached;
}

TEST(killed_at_each_system_call)
{
	struct sc_err err;
	bool seen_old = false, seen_new = false;
	int n, fsyncs = 0, synced_before = 0, rc;

	if (getenv("SC_STATE_CHILD"))
		return;
	fresh_folder();
	for (n = 1; n < CALLS_MAX; n++) {
		fill();
		put_file("old", 3);
		if (!killed_at(n))
			break;
		rc = reload(&err);
		CHECK(rc == SC_E_DATA || rc == 1);
		if (rc == 1)
			check_filled();
		*(rc == 1 ? &seen_new : &seen_old) = true;
		CHECK_OK(sc_state_remove(path, &err), &err);
		CHECK_INT(files(), 0); /* what was left beside it as well */
	}
	CHECK(n > 8 && n < CALLS_MAX && seen_old && seen_new);
	for (int i = 0; i < call_count; i++) { /* on disk before it has its name, then the name */
		if (calls[i] == SYS_fsync)
			fsyncs++;
		if (calls[i] == SYS_rename)
			synced_before = fsyncs;
	}
	CHECK_INT(synced_before, 1);
	CHECK_INT(fsyncs, 2);
	CHECK_OK(sc_state_remove(path, &err), &err);
	rmdir(folder);
}
