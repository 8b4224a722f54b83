/*
 * certificates - CAs, certificates and keys for tests, as PEM files of a folder.
 *
 * Asserts (Criterion) on anything unexpected.
 */
#pragma once

struct certificate {
    const char *name;   /* of the files: NAME.pem, NAME.key */
    const char *issuer; /* name of one made before in the folder; NULL: itself */
    const char *uri;    /* "kvferry://test/role/router"; NULL: none */
    const char *host;   /* "localhost" or "127.0.0.1"; NULL: none */
    int from_h, to_h;   /* hours from now: valid; both 0: from an hour ago, for a day */
    int is_ca;
};

void certificate_make(const char *folder, const struct certificate *certificate);
/* The CA `ca` of cluster `test`, and of it router, context, generation and operator, all for localhost and
 * 127.0.0.1. */
void certificates_make_cluster(const char *folder);
/* The folder, and all in it. */
void certificates_remove(const char *folder);
/* FOLDER/NAME.SUFFIX; valid until the 16th call after it. */
const char *certificate_path(const char *folder, const char *name, const char *suffix);
