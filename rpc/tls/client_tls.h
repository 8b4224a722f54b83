/* client_tls - the TLS options of a client. */
#pragma once

/* Strings are borrowed as long as it is used; changed files are read again. */
struct rpc_client_tls {
    const char *ca; /* path of the CAs of the servers' certificates; "": the system's CAs */
    const char *certificate; /* paths of the client's certificate and key; "": none */
    const char *key;
    /* Not NULL: servers are processes of this cluster, and are checked by the role in their certificate,
     * whatever their address. NULL: servers are checked by their host name, and the files are read once. */
    const char *cluster;
};
