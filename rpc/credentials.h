/*
 * credentials - what every port and channel is secured with. For rpc/ only.
 *
 * Today: nothing (plain text), so ports belong on loopback. TLS arrives here and nowhere else.
 */
#pragma once

#include <grpc/grpc.h>

grpc_server_credentials *rpc_credentials_server(void);   /* caller releases */
grpc_channel_credentials *rpc_credentials_channel(void); /* caller releases */
