/*
 * tests/bench/msgbench.c: one client for message brokers that are compared: wsmsg (ours, the
 * published one) and MQTT, and for the bare ping-pong of peers/lwspair.c.
 */
#include "bench.h"
#include "msgbench/modes.h"

static const struct mode {
	const char *name, *words;
	void (*run)(struct task *t);
} modes[] = {
	{ "one", "one message in, one out, both acknowledged; then the next", mode_one },
	{ "pong", "lwspair's message when the ack of the last came; no sender", mode_pong },
	{ "deliver", "to one node as fast as it goes, each delivery acknowledged", mode_deliver },
	{ "fan", "the same to each of --nodes endpoints", mode_fan },
	{ "request", "a request and its reply; then the next", mode_request },
};
static const struct wire *const wires[] = { &wire_wsmsg, &wire_reference, &wire_mqtt, &wire_mqtt0 };
static struct hist lat;
static uint64_t began, warm, end;
static uint64_t counted;

void task_begin(struct task *t)
{
	began = now_ns();
	warm = began + (uint64_t)(t->warmup * 1e9);
	end = warm + (uint64_t)(t->secs * 1e9);
	t->lat = &lat;
}

bool task_goes_on(struct task *t, uint64_t now)
{
	if (warm && now >= warm) {
		began = now;
		warm = 0;
		counted = t->count;
		memset(&lat, 0, sizeof(lat));
		watch_start();
	}
	return now < end;
}

void task_count(struct task *t, uint64_t count)
{
	t->count += count;
}

void task_end(struct task *t)
{
	t->took = (double)(now_ns() - began) / 1e9;
	t->count -= counted;
	watch_sample();
}

static void help(void)
{
	puts("usage: msgbench MODE [options]\n"
	     "Sends and receives messages on loopback; prints one JSON line.\n");
	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++)
		printf("  %-10s %s\n", modes[i].name, modes[i].words);
	puts("\n"
	     "  --proto P       wsmsg | wsmsg-reference (the published server's order) | mqtt (QoS "
	     "1) |\n"
	     "                  mqtt-qos0 (deliveries want no ack)   (wsmsg)\n"
	     "  --port N        on 127.0.0.1 (1234)\n"
	     "  --size B        bytes of a message's text (100)\n"
	     "  --nodes N       fan: endpoints, each with a node (50)\n"
	     "  --window N      deliver, fan: the sender is at most so far ahead of the slowest "
	     "node (64)\n"
	     "  --bare          one: nobody subscribes: peers/lwspair.c knows who gets what\n"
	     "  --await         request: subscribe each reply first, as sc-node request does\n"
	     "  --secs S        measure for so long (2)   --warmup S  after so long (0.3)\n"
	     "  --pid NAME=PID  CPU seconds of that process while it is measured (repeatable)");
	exit(0);
}

static const struct wire *wire_arg(const char *name)
{
	for (size_t i = 0; i < sizeof(wires) / sizeof(*wires); i++)
		if (!strcmp(name, wires[i]->name))
			return wires[i];
	die("--proto: %s is not known", name);
}

static const struct mode *mode_arg(const char *name)
{
	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++)
		if (name && !strcmp(name, modes[i].name))
			return &modes[i];
	die("give a mode (see --help)");
}

static void options(struct task *t, int argc, char **argv)
{
	for (int i = 2; i < argc; i++) {
		const char *name = argv[i], *value;

		if (!strcmp(name, "--await") || !strcmp(name, "--bare")) {
			*(name[2] == 'a' ? &t->await : &t->bare) = true;
			continue;
		}
		if (++i == argc)
			die("%s needs a value", name);
		value = argv[i];
		if (!strcmp(name, "--proto"))
			t->wire = wire_arg(value);
		else if (!strcmp(name, "--port"))
			t->port = (int)num_arg(name, value);
		else if (!strcmp(name, "--size"))
			t->size = (size_t)num_arg(name, value);
		else if (!strcmp(name, "--nodes"))
			t->nodes = (unsigned)num_arg(name, value);
		else if (!strcmp(name, "--window"))
			t->window = (unsigned)num_arg(name, value);
		else if (!strcmp(name, "--secs"))
			t->secs = num_arg(name, value);
		else if (!strcmp(name, "--warmup"))
			t->warmup = num_arg(name, value);
		else if (!strcmp(name, "--pid"))
			watch_arg(value);
		else
			die("unknown option %s (see --help)", name);
	}
	if (t->size < NUMBER_DIGITS || t->size > 1 << 20 || t->nodes < 1 || t->nodes > 10000 ||
	    t->window < 2 || t->window > 1000)
		die("--size, --nodes or --window makes no sense");
}

int main(int argc, char **argv)
{
	struct task t = { .wire = &wire_wsmsg,
			  .port = 1234,
			  .size = 100,
			  .nodes = 50,
			  .window = 64,
			  .secs = 2,
			  .warmup = 0.3 };
	const struct mode *mode;

	if (argc > 1 && !strcmp(argv[1], "--help"))
		help();
	mode = mode_arg(argv[1]);
	options(&t, argc, argv);
	signal(SIGPIPE, SIG_IGN);
	raise_nofile();
	mode->run(&t);
	printf("{\"tool\":\"msgbench\",\"mode\":\"%s\",\"proto\":\"%s\",\"size\":%zu,\"count\":"
	       "%" PRIu64 ",\"secs\":%.3f,\"per_s\":%.0f,",
	       mode->name, t.wire->name, t.size, t.count, t.took, (double)t.count / t.took);
	if (lat.n) {
		hist_json_us(stdout, "lat_us", &lat);
		putchar(',');
	}
	watch_json(stdout);
	printf(",\"client_cpu_s\":%.3f}\n", self_cpu_s());
	return 0;
}
