/* tls_files.h: what TLS is done with: the files that the settings name, and what is asked of every connection. */
#pragma once

#include <openssl/ssl.h>

#include "tls_settings.h"

/* NULL: err says what is wrong with which option. For SSL_CTX_free(). */
SSL_CTX *lk_tls_read_files(const lk_tls_settings *settings, locker_error *err);
