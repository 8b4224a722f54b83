#include "process/ports/port_needs.h"

#include <assert.h>
#include <stddef.h>

struct row {
    enum port_use use;
    enum port_reach reach;
    enum port_need need;
    const char *meaning;
};

static const struct row ROWS[] = {
#define X(use, reach, need, meaning)                                                               \
    {PORT_USE_##use, PORT_REACH_##reach, PORT_NEEDS_##need, meaning},
    PORT_NEEDS_TABLE(X)
#undef X
};

enum port_need port_needs(enum port_use use, enum port_reach reach)
{
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        if (ROWS[i].use == use && ROWS[i].reach == reach)
            return ROWS[i].need;
    assert(false && "the table has every pair");
    return PORT_NEEDS_KEY_AND_TLS;
}

bool port_has_tls(enum port_use use, const struct port_given *given)
{
    if (use == PORT_USE_CONTROL)
        return given->has_peer_tls;
    if (use == PORT_USE_HEALTH && given->has_clear_health)
        return false;
    return given->has_tls && use != PORT_USE_METRICS && use != PORT_USE_ENGINE;
}

enum status port_needs_check(enum port_use use, enum port_reach reach,
                             const struct port_given *given, const char *key, const char *address,
                             struct error *error)
{
    enum port_need need = port_needs(use, reach);
    bool is_clear = !port_has_tls(use, given) && !given->is_insecure;
    assert(
        (reach == PORT_REACH_NETWORK || need == PORT_NEEDS_NOTHING || need == PORT_NEEDS_OWN_KEY) &&
        "a loopback works without a file");
    if (need == PORT_NEEDS_KEY_AND_TLS && !given->has_key)
        return error_set(
            error, STATUS_INVALID_ARGUMENT,
            "%s \"%s\" is not a loopback address and needs a cluster_key, even with --insecure: "
            "anyone who reaches it could use it (`kvferry key FILE` makes a key)",
            key, address);
    if (need == PORT_NEEDS_TRUST && !given->is_insecure)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "%s \"%s\" is not a loopback address: gateways speak clear text to this "
                         "port and send no tokens, so anyone on the network could use it and read "
                         "its requests; --insecure allows that",
                         key, address);
    if ((need == PORT_NEEDS_KEY_AND_TLS || need == PORT_NEEDS_TLS) && is_clear)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "%s \"%s\" is not a loopback address and has no TLS: anyone on the "
                         "network could read it%s; --insecure allows that",
                         key, address,
                         need == PORT_NEEDS_TLS ? " and anyone who reaches it could use it" : "");
    return STATUS_OK;
}

void port_needs_print(FILE *out)
{
    static const char *const USES[] = {"grpc", "engine", "control", "health", "metrics"};
    static const char *const REACHES[] = {"this host", "a network"};
    fputs("# Ports\n\nMade by `make reference`. What each port needs: one that only this host can "
          "reach (a loopback address or a\nunix socket), and one on a network. See [the cluster "
          "key](../cluster-key.md).\n\n"
          "| port | reached from | needs |\n| --- | --- | --- |\n",
          out);
    _Static_assert(PORT_USE_METRICS + 1 == sizeof USES / sizeof *USES, "a word for each use");
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        fprintf(out, "| %s | %s | %s |\n", USES[ROWS[i].use], REACHES[ROWS[i].reach],
                ROWS[i].meaning);
}
