/* net/port.c: the options of a listening port. */
#include "net/port.h"

#include <stdlib.h>

int sc_port_opts_check(const struct sc_port_opts *opts, const char *tls, struct sc_err *err)
{
	if (!opts->cert != !opts->key) {
		sc_err_set(err, SC_E_USAGE, "cannot speak TLS", "--%s%s is missing", tls,
			   opts->cert ? "key" : "cert");
		return sc_err_next(err, "give both --%scert and --%skey", tls, tls);
	}
	if (opts->client_ca && !opts->cert) {
		sc_err_set(err, SC_E_USAGE, "cannot use --client-ca",
			   "there is no TLS without --%scert and --%skey", tls, tls);
		return sc_err_next(
			err, "give a certificate of the server's own, or leave out --client-ca");
	}
	return 0;
}

void sc_port_opts_listen(const struct sc_port_opts *opts, const char *const *standard,
			 const char *const **ret_listen, size_t *ret_count, bool *ret_activation)
{
	*ret_activation = getenv("LISTEN_FDS") != NULL;
	*ret_listen = opts->listen.items;
	*ret_count = opts->listen.count;
	if (opts->listen_given || *ret_activation)
		return;
	*ret_listen = standard;
	*ret_count = 1;
}

void sc_port_opts_fill(const struct sc_port_opts *opts, const char *const *standard,
		       struct sc_server_options *ret_options)
{
	sc_server_options_init(ret_options);
	sc_port_opts_listen(opts, standard, &ret_options->listen, &ret_options->listen_count,
			    &ret_options->activation);
	ret_options->cert = opts->cert;
	ret_options->key = opts->key;
	ret_options->client_ca = opts->client_ca;
	ret_options->origins = opts->origins.items;
	ret_options->origin_count = opts->origins.count;
	ret_options->clients_max = (size_t)opts->clients;
	ret_options->per_address_max = (size_t)opts->per_address;
	ret_options->handshake_ms = opts->handshake_ms;
	ret_options->ping_ms = opts->ping_ms;
	ret_options->pong_ms = opts->pong_ms;
}
