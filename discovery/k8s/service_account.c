#include "discovery/k8s/service_account.h"

#include "base/regular_file.h"
#include "base/secret.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CA_BYTES_MAX        (1u << 20)
#define NAMESPACE_BYTES_MAX 256u

/* Links are followed wherever they lead: the kubelet's folder is made of them. */
static enum status read_file(const char *folder, const char *name, uint64_t bytes_max,
                             char **text_out, size_t *bytes_out, struct error *error)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return error_set(error, STATUS_CORRUPT, "%.200s: the path is too long", folder);
    return regular_file_read(path, bytes_max, text_out, bytes_out, error);
}

static void cut_blanks(char *text, size_t bytes)
{
    while (bytes > 0 && strchr(" \t\r\n", text[bytes - 1]))
        text[--bytes] = '\0';
}

/* What may stand in a header: the letters of RFC 6750. */
static enum status check_token(const char *folder, const char *token, size_t bytes,
                               struct error *error)
{
    static const char LETTERS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                  "0123456789-._~+/=";
    if (bytes > 0 && strspn(token, LETTERS) == bytes)
        return STATUS_OK;
    return error_set(error, STATUS_CORRUPT, "%.200s/token holds no token", folder);
}

enum status service_account_token(const char *folder, char **token_out, struct error *error)
{
    char *token = NULL;
    size_t bytes = 0;
    TRY(read_file(folder, "token", SERVICE_ACCOUNT_TOKEN_MAX, &token, &bytes, error));
    size_t length = bytes;
    while (length > 0 && strchr("\r\n", token[length - 1]))
        length--;
    token[length] = '\0';
    enum status status = check_token(folder, token, length, error);
    if (status != STATUS_OK) {
        secret_wipe(token, bytes);
        free(token);
        return status;
    }
    *token_out = token;
    return STATUS_OK;
}

enum status service_account_ca(const char *folder, char **pem_out, size_t *bytes_out,
                               struct error *error)
{
    return read_file(folder, "ca.crt", CA_BYTES_MAX, pem_out, bytes_out, error);
}

enum status service_account_namespace(const char *folder, char name_out[K8S_LABEL_MAX + 1],
                                      struct error *error)
{
    char *text = NULL;
    size_t bytes = 0;
    struct error why;
    TRY(read_file(folder, "namespace", NAMESPACE_BYTES_MAX, &text, &bytes, error));
    cut_blanks(text, strlen(text));
    enum status status = k8s_label_check("namespace", text, &why);
    if (status == STATUS_OK)
        memcpy(name_out, text, strlen(text) + 1);
    else
        status = error_set(error, STATUS_CORRUPT, "%.150s/namespace: %.150s", folder, why.text);
    free(text);
    return status;
}
