/*
 * credentials - what gRPC's core itself secures: nothing of a port (the relay ends TLS), the channels to other
 * processes. Includes gRPC; for rpc/ only.
 *
 * With a cluster a server is known by the role in its certificate, not by its host name; the core watches
 * the files. Else by its host name, with files as they are when a channel opens.
 *
 * Thread: any.
 */
#pragma once

#include "base/status.h"
#include "rpc/tls/client_tls.h"

#include <grpc/grpc.h>

grpc_server_credentials *rpc_credentials_server(void); /* caller releases */

struct channel_credentials;

/* tls NULL: clear text. Borrowed. NO_MEMORY. */
MUST_CHECK enum status channel_credentials_create(const struct rpc_client_tls *tls,
                                                  struct channel_credentials **credentials_out);
void channel_credentials_destroy(struct channel_credentials *credentials); /* NULL is fine */
/* roles: TLS_ROLE_BITs, one of which a server of the cluster must have. The caller releases it. NULL: a file
 * cannot be read, as the log says. */
grpc_channel_credentials *channel_credentials_for(struct channel_credentials *credentials,
                                                  uint32_t roles);
