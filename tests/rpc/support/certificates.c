#include "certificates.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define N_PATHS 16

const char *certificate_path(const char *folder, const char *name, const char *suffix)
{
    static char paths[N_PATHS][256];
    static unsigned next;
    char *path = paths[next++ % N_PATHS];
    snprintf(path, sizeof paths[0], "%s/%s.%s", folder, name, suffix);
    return path;
}

static void write_pem(const char *path, X509 *certificate, EVP_PKEY *key)
{
    char other[300];
    snprintf(other, sizeof other, "%s.new", path);
    FILE *file = fopen(other, "w");
    cr_assert_not_null(file, "%s", other);
    cr_assert(certificate ? PEM_write_X509(file, certificate)
                          : PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL));
    cr_assert_eq(fclose(file), 0);
    cr_assert_eq(rename(other, path), 0);
}

static void add_extension(X509 *certificate, int nid, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, certificate, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    cr_assert_not_null(extension, "%s", value);
    cr_assert(X509_add_ext(certificate, extension, -1));
    X509_EXTENSION_free(extension);
}

static void add_names(X509 *certificate, const struct certificate *from)
{
    char names[512] = "";
    if (from->uri)
        snprintf(names, sizeof names, "URI:%s", from->uri);
    if (from->host) {
        size_t n = strlen(names);
        int is_number = from->host[strspn(from->host, "0123456789.")] == '\0';
        snprintf(names + n, sizeof names - n, "%s%s:%s", n ? "," : "", is_number ? "IP" : "DNS",
                 from->host);
    }
    if (names[0])
        add_extension(certificate, NID_subject_alt_name, names);
    if (from->is_ca)
        add_extension(certificate, NID_basic_constraints, "critical,CA:TRUE");
}

static void read_issuer(const char *folder, const char *name, X509 **certificate_out,
                        EVP_PKEY **key_out)
{
    FILE *file = fopen(certificate_path(folder, name, "pem"), "r");
    cr_assert_not_null(file);
    *certificate_out = PEM_read_X509(file, NULL, NULL, NULL);
    fclose(file);
    file = fopen(certificate_path(folder, name, "key"), "r");
    cr_assert_not_null(file);
    *key_out = PEM_read_PrivateKey(file, NULL, NULL, NULL);
    fclose(file);
    cr_assert(*certificate_out && *key_out);
}

void certificate_make(const char *folder, const struct certificate *from)
{
    static long serial = 1;
    /* As tls_process_init has it, for the tests: gRPC's threads may end behind main's end. */
    cr_assert(OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL));
    X509 *issuer = NULL, *certificate = X509_new();
    EVP_PKEY *issuer_key = NULL, *key = EVP_EC_gen("P-256");
    cr_assert(certificate && key);
    X509_NAME *name = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)from->name, -1, -1,
                               0);
    if (from->issuer)
        read_issuer(folder, from->issuer, &issuer, &issuer_key);
    int is_dated = from->from_h || from->to_h;
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial++);
    X509_gmtime_adj(X509_getm_notBefore(certificate), 3600L * (is_dated ? from->from_h : -1));
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600L * (is_dated ? from->to_h : 24));
    X509_set_issuer_name(certificate, issuer ? X509_get_subject_name(issuer) : name);
    X509_set_pubkey(certificate, key);
    add_names(certificate, from);
    cr_assert(X509_sign(certificate, issuer_key ? issuer_key : key, EVP_sha256()));
    write_pem(certificate_path(folder, from->name, "key"), NULL, key);
    write_pem(certificate_path(folder, from->name, "pem"), certificate, NULL);
    X509_free(issuer);
    X509_free(certificate);
    EVP_PKEY_free(issuer_key);
    EVP_PKEY_free(key);
}

void certificates_make_cluster(const char *folder)
{
    static const char *const ROLES[] = {"router", "context", "generation", "operator"};
    certificate_make(folder, &(struct certificate){.name = "ca", .is_ca = 1});
    for (size_t i = 0; i < sizeof ROLES / sizeof *ROLES; i++) {
        char uri[64];
        snprintf(uri, sizeof uri, "kvferry://test/role/%s", ROLES[i]);
        certificate_make(folder,
                         &(struct certificate){
                             .name = ROLES[i], .issuer = "ca", .uri = uri, .host = "127.0.0.1"});
    }
}

void certificates_remove(const char *folder)
{
    char path[600];
    DIR *dir = opendir(folder);
    cr_assert_not_null(dir);
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.')
            cr_assert_eq(unlink(path), 0, "%s", path);
    }
    closedir(dir);
    cr_assert_eq(rmdir(folder), 0);
}
