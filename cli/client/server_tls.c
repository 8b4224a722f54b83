#include "cli/client/server_tls.h"

#include "base/regular_file.h"
#include "base/secret.h"

#include <stdlib.h>

#define FILE_BYTES_MAX (1u << 20)

static enum status check_file(const char *row, const char *path, struct error *error)
{
    struct error why = {""};
    char *text = NULL;
    size_t bytes;
    if (!path[0])
        return STATUS_OK;
    enum status status = regular_file_read(path, FILE_BYTES_MAX, &text, &bytes, &why);
    if (status != STATUS_OK)
        return error_set(error, status, "%s: %s", row, why.text);
    secret_wipe(text, bytes);
    free(text);
    return STATUS_OK;
}

enum status server_tls_read(const struct server_tls_options *options,
                            struct rpc_client_tls *tls_out, bool *is_on_out, struct error *error)
{
    *is_on_out = options->tls || options->ca[0] || options->certificate[0] || options->key[0];
    if (!*is_on_out)
        return STATUS_OK;
    if (!options->certificate[0] != !options->key[0])
        return error_set(error, STATUS_INVALID_ARGUMENT, "%s needs %s",
                         options->key[0] ? "tls_key" : "tls_certificate",
                         options->key[0] ? "tls_certificate" : "tls_key");
    TRY(check_file("tls_ca", options->ca, error));
    TRY(check_file("tls_certificate", options->certificate, error));
    TRY(check_file("tls_key", options->key, error));
    *tls_out = (struct rpc_client_tls){
        .ca = options->ca, .certificate = options->certificate, .key = options->key};
    return STATUS_OK;
}
