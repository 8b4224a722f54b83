/*
 * port_needs - the table of what a port needs (key, TLS), by what it serves and from where it can be
 * reached.
 *
 * HOST: a loopback or a Unix socket; NETWORK: every other address. --insecure permits ports without TLS;
 * nothing permits a control port without a key. The metrics port and the engine port have no TLS.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdio.h>

/*    port     reached from  needs            explanation, for docs/reference/ports.md             */
#define PORT_NEEDS_TABLE(X)                                                                        \
    X(PUBLIC, HOST, NOTHING, "nothing; GetState needs the cluster key")                            \
    X(PUBLIC, NETWORK, TLS, "TLS, or `--insecure` for clear text; GetState needs the cluster key") \
    X(ENGINE, HOST, NOTHING,                                                                       \
      "nothing, also with a `tokens_file`: the port takes no tokens and speaks clear text")        \
    X(ENGINE, NETWORK, TRUST,                                                                      \
      "`--insecure`, because gateways speak clear text to it and send no tokens")                  \
    X(CONTROL, HOST, OWN_KEY, "the cluster key; the key of this user if `cluster_key` is empty")   \
    X(CONTROL, NETWORK, KEY_AND_TLS,                                                               \
      "`cluster_key`, and TLS or `--insecure` for clear text; `--insecure` never replaces the "    \
      "key")                                                                                       \
    X(HEALTH, HOST, NOTHING, "nothing; the port serves only `grpc.health.v1`")                     \
    X(HEALTH, NETWORK, TLS, "TLS, or `--insecure` for clear text")                                 \
    X(METRICS, HOST, NOTHING, "nothing; the port serves `/`, `/metrics`, `/healthz`, `/readyz`")   \
    X(METRICS, NETWORK, TLS, "`--insecure`, because the port speaks clear text")

enum port_use {
    PORT_USE_PUBLIC,
    PORT_USE_ENGINE,
    PORT_USE_CONTROL,
    PORT_USE_HEALTH,
    PORT_USE_METRICS
};
enum port_reach { PORT_REACH_HOST, PORT_REACH_NETWORK };
enum port_need {
    PORT_NEEDS_NOTHING,
    PORT_NEEDS_TLS,
    PORT_NEEDS_TRUST,
    PORT_NEEDS_OWN_KEY,
    PORT_NEEDS_KEY_AND_TLS
};

/* What the configuration of a process has. */
struct port_given {
    bool has_key; /* a cluster key of its own configuration; the user's key always exists */
    bool has_tls; /* on the grpc and health ports */
    bool has_clear_health; /* then the health port has no TLS */
    bool has_peer_tls;     /* mutual TLS on the control port */
    bool is_insecure;
};

bool port_has_tls(enum port_use use, const struct port_given *given);
enum port_need port_needs(enum port_use use, enum port_reach reach);

/* INVALID_ARGUMENT: the sentence has the configuration's key, the address, and what is missing. */
MUST_CHECK enum status port_needs_check(enum port_use use, enum port_reach reach,
                                        const struct port_given *given, const char *key,
                                        const char *address, struct error *error);

void port_needs_print(FILE *out); /* docs/reference/ports.md */
