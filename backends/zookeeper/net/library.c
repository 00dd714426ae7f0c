/*
 * library.c: what the client library can: TLS and SASL, or not. Debian's build of the library has
 * neither, others have both, and the program that runs may find another library than the one it was linked
 * with. So what the library has is looked up when a locker is opened, and is declared in tls_sasl.h, because its
 * header shows it only to those who have OpenSSL's and Cyrus' headers too.
 */
#include <dlfcn.h>
#include <stddef.h>

#include "tls_sasl.h"

/* Another library of the same names may be loaded, libzookeeper_mt: what it has is of no use to a handle of
 * this one. */
static bool same_library(void *a, void *b)
{
    Dl_info of_a, of_b;
    return dladdr(a, &of_a) != 0 && dladdr(b, &of_b) != 0 && of_a.dli_fbase == of_b.dli_fbase;
}

static void *find(const char *name)
{
    void *known = dlsym(RTLD_DEFAULT, "zookeeper_init2"), *found = dlsym(RTLD_DEFAULT, name);
    return known != NULL && found != NULL && same_library(known, found) ? found : NULL;
}

void lk_zk_library_look(lk_zk_library *library)
{
    void *const ssl = find("zookeeper_init_ssl"), *const sasl = find("zookeeper_init_sasl");
    *library = (lk_zk_library){.ssl_connecting = find("ZOO_SSL_CONNECTING_STATE")};
    if (library->ssl_connecting != NULL)
        *(void **)&library->init_ssl = ssl; /* POSIX's way to make a function of it */
    *(void **)&library->init_sasl = sasl;
}
