#include "process/ports/port_probe.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

static enum status look_up(const struct address *address, struct port_probe *probe,
                           struct error *error)
{
    char port[8];
    snprintf(port, sizeof port, "%u", address->port);
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found;
    int code = getaddrinfo(address->host, port, &hints, &found);
    if (code != 0)
        return error_set(error, STATUS_INVALID_ARGUMENT, "address \"%s\": %s", address->host,
                         gai_strerror(code));
    assert(found->ai_addrlen <= sizeof probe->address);
    memcpy(&probe->address, found->ai_addr, found->ai_addrlen);
    probe->address_bytes = found->ai_addrlen;
    freeaddrinfo(found);
    return STATUS_OK;
}

static enum status set_path(const struct address *address, struct port_probe *probe,
                            struct error *error)
{
    struct sockaddr_un *unix_address = (struct sockaddr_un *)&probe->address;
    assert(strncmp(address->host, "unix:", 5) == 0 && "the scheme is part of its host");
    const char *path = address->host + strlen("unix:");
    if (strlen(path) >= sizeof unix_address->sun_path)
        return error_set(error, STATUS_INVALID_ARGUMENT, "address \"%s\": path too long",
                         address->host);
    unix_address->sun_family = AF_UNIX;
    snprintf(unix_address->sun_path, sizeof unix_address->sun_path, "%s", path);
    probe->address_bytes = sizeof *unix_address;
    return STATUS_OK;
}

enum status port_probe_init(struct port_probe *probe, const struct address *address,
                            uint64_t n_accept_failures, struct error *error)
{
    *probe = (struct port_probe){.fd = -1, .n_failures_known = n_accept_failures};
    return address->is_unix ? set_path(address, probe, error) : look_up(address, probe, error);
}

static void end_probe(struct port_probe *probe)
{
    assert(probe->fd >= 0);
    close(probe->fd);
    probe->fd = -1;
}

void port_probe_finish(struct port_probe *probe)
{
    if (probe->fd >= 0)
        end_probe(probe);
}

/* HTTP/2's preface with empty SETTINGS. */
static const char PREFACE[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0";

enum answer { ANSWER_NONE, ANSWER_BYTES, ANSWER_UNKNOWN };

/* A reset can only come from a process that had accepted the connection. */
static bool is_cut(void)
{
    return errno == ECONNRESET || errno == EPIPE;
}

/* A second connect is harmless, and the only way for a Unix socket with a full backlog; until it
 * succeeds recv fails with EINVAL. */
static enum answer look(struct port_probe *probe)
{
    if (connect(probe->fd, (const struct sockaddr *)&probe->address, probe->address_bytes) != 0 &&
        errno != EINPROGRESS && errno != EALREADY && errno != EISCONN && errno != EAGAIN)
        return is_cut() ? ANSWER_BYTES : ANSWER_UNKNOWN;
    char byte;
    ssize_t n = recv(probe->fd, &byte, sizeof byte, MSG_DONTWAIT);
    if (n >= 0 || is_cut())
        return ANSWER_BYTES; /* an end of the stream also shows that the connection was accepted */
    if (errno != EAGAIN && errno != EINVAL)
        return ANSWER_UNKNOWN;
    if (!probe->has_spoken &&
        send(probe->fd, PREFACE, sizeof PREFACE, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof PREFACE)
        probe->has_spoken = true;
    return ANSWER_NONE;
}

bool port_probe_is_dead(struct port_probe *probe, uint64_t n_accept_failures, uint64_t now_ns)
{
    assert(n_accept_failures >= probe->n_failures_known && "failures are counted for ever");
    if (n_accept_failures == probe->n_failures_known)
        return false;
    if (probe->fd < 0) {
        probe->fd = socket(probe->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        probe->began_ns = now_ns;
        probe->has_spoken = false;
        probe->n_failures_begun = n_accept_failures;
    }
    if (probe->fd < 0)
        return probe->n_silent >= PORT_PROBES_SILENT;

    assert(probe->n_failures_begun > probe->n_failures_known);
    enum answer answer = look(probe);
    if (answer == ANSWER_BYTES) {
        probe->n_silent = 0;
        probe->n_failures_known = probe->n_failures_begun;
    } else if (answer == ANSWER_NONE && now_ns - probe->began_ns >= PORT_PROBE_LIMIT_NS) {
        probe->n_silent++;
    } else if (answer == ANSWER_NONE) {
        return probe->n_silent >= PORT_PROBES_SILENT;
    }
    end_probe(probe);
    return probe->n_silent >= PORT_PROBES_SILENT;
}
