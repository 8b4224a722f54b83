#include "process/self_check.h"

#include "base/log/log.h"
#include "base/stall.h"
#include "process/ports/port_probe.h"

#include <assert.h>
#include <stdlib.h>

struct self_check {
    uint64_t limit_ns;
    struct {
        const struct rpc_runtime *runtime;
        struct stall stall;
        bool is_stuck;
    } runtimes[SELF_CHECK_RUNTIMES_MAX];
    struct {
        char name[ADDRESS_TEXT_MAX];
        struct port_probe probe;
        bool is_dead;
    } ports[SELF_CHECK_PORTS_MAX];
    uint32_t n_runtimes;
    uint32_t n_ports;
};

enum status self_check_create(uint64_t limit_ns, struct self_check **check_out)
{
    struct self_check *check = calloc(1, sizeof *check);
    if (!check)
        return STATUS_NO_MEMORY;
    assert(limit_ns > 0 && "else whatever waits would be stuck");
    check->limit_ns = limit_ns;
    *check_out = check;
    return STATUS_OK;
}

void self_check_destroy(struct self_check *check)
{
    for (uint32_t i = 0; check && i < check->n_ports; i++)
        port_probe_finish(&check->ports[i].probe);
    free(check);
}

void self_check_add_runtime(struct self_check *check, const struct rpc_runtime *runtime)
{
    assert(check->n_runtimes < SELF_CHECK_RUNTIMES_MAX);
    assert(!rpc_runtime_is_current(runtime) && "main looks at it, from outside");
    check->runtimes[check->n_runtimes++].runtime = runtime;
}

enum status self_check_add_port(struct self_check *check, const struct address *bound,
                                struct error *error)
{
    assert(check->n_ports < SELF_CHECK_PORTS_MAX);
    assert((bound->is_unix || bound->port != 0) && "where it is, not what was asked for");
    TRY(port_probe_init(&check->ports[check->n_ports].probe, bound, rpc_failed_accepts(), error));
    address_format(bound, check->ports[check->n_ports++].name);
    return STATUS_OK;
}

static bool has_stuck_runtime(struct self_check *check, uint64_t now_ns)
{
    bool has_stuck = false;
    for (uint32_t i = 0; i < check->n_runtimes; i++) {
        const struct rpc_runtime *runtime = check->runtimes[i].runtime;
        uint64_t still_ns = stall_look(&check->runtimes[i].stall, rpc_runtime_progress(runtime),
                                       now_ns);
        bool is_stuck = still_ns > check->limit_ns;
        if (is_stuck && !check->runtimes[i].is_stuck)
            log_warn("no progress: thread %s stands still for %.1f s", rpc_runtime_name(runtime),
                     (double)still_ns / (double)NS_PER_S);
        else if (!is_stuck && check->runtimes[i].is_stuck)
            log_info("thread %s makes progress again", rpc_runtime_name(runtime));
        check->runtimes[i].is_stuck = is_stuck;
        has_stuck = has_stuck || is_stuck;
    }
    return has_stuck;
}

static bool has_dead_port(struct self_check *check, uint64_t now_ns)
{
    uint64_t n_failures = rpc_failed_accepts();
    bool has_dead = false;
    for (uint32_t i = 0; i < check->n_ports; i++) {
        bool is_dead = port_probe_is_dead(&check->ports[i].probe, n_failures, now_ns);
        if (is_dead && !check->ports[i].is_dead)
            log_error(
                "port %s accepts no connections since accept failed: not live until a restart",
                check->ports[i].name);
        else if (!is_dead && check->ports[i].is_dead)
            log_info("port %s accepts again", check->ports[i].name);
        check->ports[i].is_dead = is_dead;
        has_dead = has_dead || is_dead;
    }
    return has_dead;
}

bool self_check_is_live(struct self_check *check, uint64_t now_ns)
{
    bool has_stuck = has_stuck_runtime(check, now_ns);
    bool has_dead = has_dead_port(check, now_ns);
    return !has_stuck && !has_dead;
}
