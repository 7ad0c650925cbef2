/* net/address.c: see net/address.h. */
#include "net/address.h"

#include <netinet/in.h>
#include <stdint.h>
#include <string.h>

struct net4 {
	uint32_t net;
	unsigned bits;
};

static bool in_net4(uint32_t ip, const struct net4 *nets, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if ((ip ^ nets[i].net) >> (32 - nets[i].bits) == 0)
			return true;
	return false;
}

static bool public4(uint32_t ip)
{
	static const struct net4 special[] = {
		{ 0x00000000, 8 },  /* this network */
		{ 0x0a000000, 8 },  /* private */
		{ 0x64400000, 10 }, /* shared, behind a carrier's NAT */
		{ 0x7f000000, 8 },  /* loopback */
		{ 0xa9fe0000, 16 }, /* link-local, where clouds keep their metadata */
		{ 0xac100000, 12 }, /* private */
		{ 0xc0000000, 24 }, /* of the IETF */
		{ 0xc0000200, 24 }, /* documents */
		{ 0xc0586300, 24 }, /* 6to4 relays, once */
		{ 0xc0a80000, 16 }, /* private */
		{ 0xc6120000, 15 }, /* benchmarks */
		{ 0xc6336400, 24 }, /* documents */
		{ 0xcb007100, 24 }, /* documents */
		{ 0xe0000000, 4 },  /* groups */
		{ 0xf0000000, 4 },  /* reserved, and to all */
	};

	return !in_net4(ip, special, sizeof(special) / sizeof(*special));
}

static uint32_t ip4_at(const unsigned char *bytes)
{
	return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
	       bytes[3];
}

/* Of 2000::/3, which is all that is given out; without what carries an IPv4 address, a tunnel's or
 * a document's. */
static bool public6(const unsigned char *b)
{
	static const unsigned char mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };
	static const unsigned char nat64[12] = { 0, 0x64, 0xff, 0x9b };

	if (memcmp(b, mapped, 12) == 0 || memcmp(b, nat64, 12) == 0)
		return public4(ip4_at(b + 12));
	if ((b[0] & 0xe0) != 0x20)
		return false;
	if (b[0] == 0x20 && b[1] == 0x02)
		return public4(ip4_at(b + 2)); /* 6to4 */
	if (b[0] == 0x20 && b[1] == 0x01 && (b[2] & 0xfe) == 0)
		return false; /* 2001::/23: Teredo, ORCHID and others of a use of their own */
	if (b[0] == 0x20 && b[1] == 0x01 && b[2] == 0x0d && b[3] == 0xb8)
		return false;
	return !(b[0] == 0x3f && b[1] == 0xff && (b[2] & 0xf0) == 0); /* 3fff::/20: documents */
}

bool sc_address_public(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET)
		return public4(ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr));
	if (address->sa_family == AF_INET6)
		return public6(((const struct sockaddr_in6 *)address)->sin6_addr.s6_addr);
	return false;
}

bool sc_address_loopback(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
	return address->sa_family == AF_INET6 &&
	       IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
}
