/* client_tls - with which TLS a client connects. */
#pragma once

/* Strings are borrowed for its life, files read again when they change. */
struct rpc_client_tls {
    const char *ca; /* path of the CAs that servers' certificates are of; "": the system's */
    const char *certificate; /* paths of what it shows itself; "": nothing */
    const char *key;
    /* Not NULL: servers are processes of that cluster, known by their role whatever their address. NULL: they
     * are known by their host name, and the files are read once. */
    const char *cluster;
};
