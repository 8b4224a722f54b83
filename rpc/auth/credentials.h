/*
 * credentials - gRPC's credentials: for channels to other processes they use TLS; for ports they do nothing,
 * as the relay ends TLS. Includes gRPC; for rpc/ only.
 *
 * With a cluster name a server is checked by the role in its certificate, not by its host name, and the core
 * watches the files. Without one it is checked by its host name, and the files are read when a channel
 * opens.
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
/* roles: TLS_ROLE_BITs; a server of the cluster must have one of them. The caller releases the result. NULL:
 * a file cannot be read, which the log says. */
grpc_channel_credentials *channel_credentials_for(struct channel_credentials *credentials,
                                                  uint32_t roles);
