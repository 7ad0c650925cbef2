/* net/opts.c: see net/opts.h. */
#include "net/opts.h"

void sc_net_way_fill(const struct sc_net_way *way, struct sc_client_options *options)
{
	options->ca = way->ca;
	options->cert = way->cert;
	options->key = way->key;
	options->server_name = way->server_name;
	options->insecure = way->insecure;
	options->proxy = way->proxy;
	options->connect_ms = way->connect_ms;
}

void sc_net_opts_fill(const struct sc_net_opts *opts, struct sc_client_options *ret_options)
{
	struct sc_client_options o = SC_CLIENT_OPTIONS_STANDARD;

	o.headers = opts->headers.items;
	o.header_count = opts->headers.count;
	o.header_files = opts->header_files.items;
	o.header_file_count = opts->header_files.count;
	o.origin = opts->origin;
	o.subprotocol = opts->subprotocol;
	o.user_agent = opts->user_agent;
	o.token_file = opts->token_file;
	o.user_file = opts->user_file;
	sc_net_way_fill(&opts->way, &o);
	o.compress = opts->compress;
	o.upgrade_ms = opts->upgrade_ms;
	o.ping_ms = opts->ping_ms;
	o.pong_ms = opts->pong_ms;
	o.silence_ms = opts->idle_ms;
	o.message_max = opts->message_max;
	o.ahead_max = opts->ahead_max;
	o.retry.tries = opts->tries;
	o.retry.for_ms = opts->retry_for_ms;
	o.retry.ceiling_ms = opts->retry_wait_ms;
	if (o.retry.start_ms > o.retry.ceiling_ms && o.retry.ceiling_ms > 0)
		o.retry.start_ms = o.retry.ceiling_ms;
	o.retry.refused = opts->retry_refused;
	*ret_options = o;
}
