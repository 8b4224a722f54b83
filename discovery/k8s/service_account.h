/*
 * service_account - the folder with the credentials of a pod for the API server.
 *
 *     /var/run/secrets/kubernetes.io/serviceaccount/{token, ca.crt, namespace}
 *
 * Files are read when they are needed and not kept: a projected token is replaced about every hour,
 * the CA sometimes, and requests are rare.
 *
 * Bounds: a token of SERVICE_ACCOUNT_TOKEN_MAX bytes, a CA file of 1 MiB.
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"
#include "discovery/k8s/k8s_target.h"

#include <stddef.h>

#define SERVICE_ACCOUNT_FOLDER    "/var/run/secrets/kubernetes.io/serviceaccount"
#define SERVICE_ACCOUNT_TOKEN_MAX 16384u

/* All fail as regular_file_read, with a sentence that names the file; CORRUPT: invalid content. */

/* The caller wipes and frees. */
MUST_CHECK enum status service_account_token(const char *folder, char **token_out,
                                             struct error *error);
/* The caller frees. */
MUST_CHECK enum status service_account_ca(const char *folder, char **pem_out, size_t *bytes_out,
                                          struct error *error);
MUST_CHECK enum status service_account_namespace(const char *folder,
                                                 char name_out[K8S_LABEL_MAX + 1],
                                                 struct error *error);
