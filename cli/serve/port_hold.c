#include "cli/serve/port_hold.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

/* -1: the port cannot be bound. */
static int hold(const char *text)
{
    struct address address;
    struct error ignored;
    struct sockaddr_in where = {.sin_family = AF_INET};
    const int on = 1;
    if (!text[0] || address_parse(text, &address, &ignored) != STATUS_OK ||
        inet_pton(AF_INET, address.host, &where.sin_addr) != 1)
        return -1;
    where.sin_port = htons(address.port);
    int held = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (held < 0)
        return -1;
    (void)setsockopt(held, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    (void)setsockopt(held, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    if (bind(held, (const struct sockaddr *)&where, sizeof where) == 0)
        return held;
    close(held);
    return -1;
}

void port_hold_begin(struct port_hold *hold_out, const struct ports *ports)
{
    const char *const addresses[PORT_HOLD_MAX] = {ports->grpc,    ports->http,   ports->engine,
                                                  ports->control, ports->health, ports->metrics};
    assert(hold_out->n == 0);
    for (int i = 0; i < PORT_HOLD_MAX; i++) {
        int held = hold(addresses[i]);
        if (held >= 0)
            hold_out->sockets[hold_out->n++] = held;
    }
}

void port_hold_end(struct port_hold *hold)
{
    assert(hold->n <= PORT_HOLD_MAX);
    while (hold->n > 0)
        close(hold->sockets[--hold->n]);
}
