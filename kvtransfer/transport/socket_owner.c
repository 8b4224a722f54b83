#include "kvtransfer/transport/socket_owner.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The kernel's number of the state. The header with its name conflicts with netinet/tcp.h. */
enum { ESTABLISHED = 1 };

/* One end of a connection. IPv4 is stored as IPv4, for sockets of both families. */
struct end {
    int family;
    uint8_t bytes[16];
    uint16_t port; /* in the order of the wire */
};

struct found {
    uint32_t state, user, inode; /* inode 0: no process has it */
};

static struct end end_of(const struct sockaddr_storage *address)
{
    struct end end = {.family = address->ss_family};
    if (address->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)address;
        end.port = in->sin_port;
        memcpy(end.bytes, &in->sin_addr, 4);
        return end;
    }
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)address;
    bool is_mapped = IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr);
    end.port = in6->sin6_port;
    end.family = is_mapped ? AF_INET : AF_INET6;
    memcpy(end.bytes, in6->sin6_addr.s6_addr + (is_mapped ? 12 : 0), is_mapped ? 4 : 16);
    return end;
}

/* ---- sock_diag ---- */

/* 0: found; else what the kernel says. */
static int ask(int fd, const struct end *theirs, const struct end *ours, struct found *found_out)
{
    struct {
        struct nlmsghdr header;
        struct inet_diag_req_v2 body;
    } request = {.header = {.nlmsg_len = sizeof request,
                            .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                            .nlmsg_flags = NLM_F_REQUEST},
                 .body = {.sdiag_family = (uint8_t)theirs->family,
                          .sdiag_protocol = IPPROTO_TCP,
                          .idiag_states = UINT32_MAX,
                          .id = {.idiag_sport = theirs->port,
                                 .idiag_dport = ours->port,
                                 .idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}}};
    union {
        struct nlmsghdr header;
        uint8_t bytes[1024];
    } reply;
    memcpy(request.body.id.idiag_src, theirs->bytes, sizeof theirs->bytes);
    memcpy(request.body.id.idiag_dst, ours->bytes, sizeof ours->bytes);
    if (send(fd, &request, sizeof request, 0) != (ssize_t)sizeof request)
        return errno;
    ssize_t n = recv(fd, &reply, sizeof reply, MSG_DONTWAIT); /* the answer comes within send */
    if (n < (ssize_t)sizeof reply.header)
        return EIO;
    if (reply.header.nlmsg_type == NLMSG_ERROR &&
        n >= (ssize_t)NLMSG_LENGTH(sizeof(struct nlmsgerr)))
        return -((const struct nlmsgerr *)NLMSG_DATA(&reply.header))->error;
    if (reply.header.nlmsg_type != SOCK_DIAG_BY_FAMILY ||
        n < (ssize_t)NLMSG_LENGTH(sizeof(struct inet_diag_msg)))
        return EIO;
    const struct inet_diag_msg *message = NLMSG_DATA(&reply.header);
    *found_out = (struct found){message->idiag_state, message->idiag_uid, message->idiag_inode};
    return 0;
}

static bool find_by_diag(const struct end *theirs, const struct end *ours, bool *has_answer_out,
                         struct found *found_out)
{
    /* A kernel without the module answers for every socket that it does not exist. */
    static atomic_bool has_found;
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    int result = fd >= 0 ? ask(fd, theirs, ours, found_out) : errno;
    if (fd >= 0)
        close(fd);
    if (result == 0)
        atomic_store(&has_found, true);
    *has_answer_out = result == 0 || (result == ENOENT && atomic_load(&has_found));
    return result == 0;
}

/* ---- /proc/net/tcp ---- */

/* "0100007F:C350": the words of the address in this machine's byte order, then the port. */
static void format_end(const struct end *end, bool as_ipv6, char text_out[40])
{
    uint32_t words[4];
    struct end wide = *end;
    if (as_ipv6 && end->family == AF_INET) {
        memset(wide.bytes, 0, sizeof wide.bytes);
        wide.bytes[10] = wide.bytes[11] = 0xff;
        memcpy(wide.bytes + 12, end->bytes, 4);
    }
    memcpy(words, wide.bytes, sizeof words);
    if (as_ipv6)
        snprintf(text_out, 40, "%08X%08X%08X%08X:%04X", words[0], words[1], words[2], words[3],
                 ntohs(end->port));
    else
        snprintf(text_out, 40, "%08X:%04X", words[0], ntohs(end->port));
}

static bool find_in(const char *path, bool as_ipv6, const struct end *theirs,
                    const struct end *ours, struct found *found_out)
{
    char line[512], wanted[2][40], local[40], remote[40];
    bool is_found = false;
    format_end(theirs, as_ipv6, wanted[0]);
    format_end(ours, as_ipv6, wanted[1]);
    FILE *file = fopen(path, "re");
    while (file && !is_found && fgets(line, sizeof line, file)) {
        struct found found;
        is_found = sscanf(line, " %*u: %39s %39s %x %*s %*s %*s %u %*u %u", local, remote,
                          &found.state, &found.user, &found.inode) == 5 &&
                   strcmp(local, wanted[0]) == 0 && strcmp(remote, wanted[1]) == 0;
        if (is_found)
            *found_out = found;
    }
    if (file)
        fclose(file);
    return is_found;
}

bool socket_owner_is(const struct sockaddr_storage *theirs, const struct sockaddr_storage *ours,
                     uid_t user)
{
    const struct end their_end = end_of(theirs), our_end = end_of(ours);
    struct found found = {0};
    bool has_answer;
    bool is_found = find_by_diag(&their_end, &our_end, &has_answer, &found);
    if (!has_answer)
        is_found = (their_end.family == AF_INET &&
                    find_in("/proc/self/net/tcp", false, &their_end, &our_end, &found)) ||
                   find_in("/proc/self/net/tcp6", true, &their_end, &our_end, &found);
    return is_found && found.state == ESTABLISHED && found.inode != 0 && found.user == user;
}

bool socket_owner_is_us(int fd)
{
    struct ucred credentials;
    socklen_t bytes = sizeof credentials;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) == 0 &&
           credentials.uid == geteuid();
}
