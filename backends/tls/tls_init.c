/* tls_init.c: the settings of TLS that need no OpenSSL: copy, check and free them. */
#include <stdlib.h>
#include <string.h>

#include "tls.h"

/* The order of LK_TLS_PARAMETER_ROWS. */
enum { VERIFY, CA, CERT, KEY, NAME, COUNT };
_Static_assert(COUNT == (int)LK_TLS_PARAMETERS, "a driver finds its next parameter by this number");

/* NULL stays NULL. */
static bool copy(char **out, const char *text)
{
    *out = text != NULL ? strdup(text) : NULL;
    return text == NULL || *out != NULL;
}

/* The system's authorities have no file of their own, and are not looked at where none are. */
bool lk_tls_settings_copy(lk_tls_settings *s, const locker_value v[LK_TLS_PARAMETERS])
{
    const char *const ca = v[CA].text;
    const bool is_system = ca == NULL || strcmp(ca, "system") == 0;
    return copy(&s->ca, is_system ? NULL : ca) && copy(&s->cert, v[CERT].text) &&
           copy(&s->key, v[KEY].text) && copy(&s->name, v[NAME].text);
}

locker_status lk_tls_init(lk_tls_settings *s, const locker_value v[LK_TLS_PARAMETERS], locker_error *err)
{
    static const char *const words[] = {[LK_TLS_NAME] = "name", [LK_TLS_CA] = "ca", [LK_TLS_NONE] = "none"};
    const char *const text = v[VERIFY].text;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(text, words[i]) == 0) {
            s->verify = (lk_tls_verify)i;
            return lk_tls_open_files(s, err);
        }
    }
    return lk_misconfigured(err, "tls_verify is '%.40s'; set it to name, ca or none", text);
}

void lk_tls_clear(lk_tls_settings *s)
{
    lk_tls_close_files(s->files);
    free(s->ca);
    free(s->cert);
    free(s->key);
    free(s->name);
}
