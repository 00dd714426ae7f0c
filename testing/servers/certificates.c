/* certificates.c: see certificates.h. */
#include "servers/certificates.h"

#include <fcntl.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { HOUR_S = 3600, DAY_S = 24 * HOUR_S };

/* The file DIRECTORY/NAME.KIND; a new one is the user's alone. */
static FILE *open_file(const char *directory, const char *name, const char *kind, bool writes)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s.%s", directory, name, kind);
    if (!writes)
        return fopen(path, "re");
    (void)unlink(path);
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd >= 0 ? fdopen(fd, "w") : NULL;
}

static EVP_PKEY *make_key(void)
{
    EVP_PKEY_CTX *maker = EVP_PKEY_CTX_new_id(EVP_PKEY_EC, NULL);
    EVP_PKEY *key = NULL;
    if (maker == NULL || EVP_PKEY_keygen_init(maker) != 1 ||
        EVP_PKEY_CTX_set_ec_paramgen_curve_nid(maker, NID_X9_62_prime256v1) != 1 ||
        EVP_PKEY_keygen(maker, &key) != 1)
        key = NULL;
    EVP_PKEY_CTX_free(maker);
    return key;
}

static bool add_extension(X509 *certificate, X509 *issuer, int which, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, which, value);
    const bool added = extension != NULL && X509_add_ext(certificate, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return added;
}

static bool fill(X509 *certificate, const lk_certificate *wanted, EVP_PKEY *key, X509 *issuer)
{
    const bool lasts = wanted->from_s == 0 && wanted->to_s == 0;
    X509_NAME *const subject = X509_get_subject_name(certificate);
    uint32_t number;
    if (RAND_bytes((unsigned char *)&number, sizeof number) != 1)
        return false;
    return X509_set_version(certificate, 2) == 1 &&
           ASN1_INTEGER_set(X509_get_serialNumber(certificate), (long)(number >> 1) + 1) == 1 &&
           X509_gmtime_adj(X509_getm_notBefore(certificate), lasts ? -HOUR_S : wanted->from_s) != NULL &&
           X509_gmtime_adj(X509_getm_notAfter(certificate), lasts ? DAY_S : wanted->to_s) != NULL &&
           X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)wanted->name, -1,
                                      -1, 0) == 1 &&
           X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) == 1 &&
           X509_set_pubkey(certificate, key) == 1 &&
           add_extension(certificate, issuer, NID_basic_constraints,
                         wanted->authority ? "critical,CA:TRUE" : "CA:FALSE") &&
           add_extension(certificate, issuer, NID_subject_key_identifier, "hash") &&
           (wanted->usage == NULL || add_extension(certificate, issuer, NID_ext_key_usage, wanted->usage)) &&
           (wanted->names == NULL || add_extension(certificate, issuer, NID_subject_alt_name, wanted->names));
}

static bool write_files(const char *directory, const char *name, X509 *certificate, EVP_PKEY *key)
{
    FILE *file = open_file(directory, name, "crt", true);
    bool written = file != NULL && PEM_write_X509(file, certificate) == 1;
    if (file != NULL)
        written = fclose(file) == 0 && written;
    file = open_file(directory, name, "key", true);
    written = file != NULL && PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL) == 1 && written;
    if (file != NULL)
        written = fclose(file) == 0 && written;
    return written;
}

/* The authority that certifies; false: it isn't there. */
static bool read_files(const char *directory, const char *name, X509 **certificate, EVP_PKEY **key)
{
    FILE *file = open_file(directory, name, "crt", false);
    *certificate = file != NULL ? PEM_read_X509(file, NULL, NULL, NULL) : NULL;
    if (file != NULL)
        (void)fclose(file);
    file = open_file(directory, name, "key", false);
    *key = file != NULL ? PEM_read_PrivateKey(file, NULL, NULL, NULL) : NULL;
    if (file != NULL)
        (void)fclose(file);
    return *certificate != NULL && *key != NULL;
}

bool lk_certificate_make(const char *directory, const lk_certificate *wanted, char *why, size_t size)
{
    X509 *certificate = X509_new(), *issuer = NULL;
    EVP_PKEY *key = make_key(), *signer = NULL;
    ERR_clear_error();
    const bool made = certificate != NULL && key != NULL &&
                      (wanted->by == NULL || read_files(directory, wanted->by, &issuer, &signer)) &&
                      fill(certificate, wanted, key, issuer != NULL ? issuer : certificate) &&
                      X509_sign(certificate, signer != NULL ? signer : key, EVP_sha256()) > 0 &&
                      write_files(directory, wanted->name, certificate, key);
    if (!made) {
        const char *const reason = ERR_reason_error_string(ERR_peek_last_error());
        (void)snprintf(why, size, "can't make the certificate %s in %s: %s", wanted->name, directory,
                       reason != NULL ? reason : "no file can be written there");
    }
    X509_free(certificate);
    X509_free(issuer);
    EVP_PKEY_free(key);
    EVP_PKEY_free(signer);
    return made;
}
