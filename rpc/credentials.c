/* credentials - see credentials.h. */
#include "rpc/credentials.h"

#include <grpc/grpc_security.h>

grpc_server_credentials *rpc_credentials_server(void)
{
    return grpc_insecure_server_credentials_create();
}

grpc_channel_credentials *rpc_credentials_channel(void)
{
    return grpc_insecure_credentials_create();
}
