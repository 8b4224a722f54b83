/* bearer - whatever stands in `authorization`, who enters has written the one token, behind its scheme in any
 * case.
 *
 *     input: [which method 1][the value...]
 */
#include "router/admission/bearer.h"
#include "router/admission/tenants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#define TOKEN "kvf_of_nobody_else"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static struct tenants *open_tenants(void)
{
    struct sha256 hash;
    char text[SHA256_TEXT], path[64];
    struct error error;
    struct tenants *tenants;
    int descriptor = memfd_create("tokens", MFD_CLOEXEC);
    if (sha256_of(TOKEN, sizeof TOKEN - 1, &hash) != STATUS_OK)
        abort();
    sha256_format(&hash, text);
    dprintf(descriptor, "tokens: [{tenant: acme, sha256: %s, methods: [Generate]}]", text);
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    if (tenants_create(&(struct tenants_options){.path = path}, 0, &error, &tenants) != STATUS_OK)
        abort();
    close(descriptor);
    return tenants;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    static struct tenants *tenants;
    struct tenant_refusal refusal;
    struct tenant_pass *pass;
    if (!tenants)
        tenants = open_tenants();
    if (n_bytes == 0)
        return 0;
    enum tenant_method method = bytes[0] % (TENANT_N_METHODS + 1);
    size_t n_value = n_bytes - 1;
    char *value = malloc(n_bytes); /* so that the sanitizer sees its end */
    if (!value)
        return 0;
    memcpy(value, bytes + 1, n_value);
    struct tenant_claim claim = {.tenant = ""};
    claim.token = bearer_token(value, n_value, &claim.token_bytes);
    bool is_token = n_value == sizeof "Bearer " TOKEN - 1 &&
                    strncasecmp(value, "Bearer ", 7) == 0 &&
                    memcmp(value + 7, TOKEN, sizeof TOKEN - 1) == 0;
    enum status status = tenants_enter(tenants, &claim, method, 0, &pass, &refusal);
    if (status == STATUS_OK)
        tenant_pass_destroy(pass, 0);
    if (status != (!is_token                   ? STATUS_UNAUTHENTICATED
                   : method == TENANT_GENERATE ? STATUS_OK
                                               : STATUS_NOT_ALLOWED))
        abort();
    free(value);
    return 0;
}
