/* privileged_sasl.c: a program that an administrator makes set-user-ID, and that logs in to ZooKeeper by SASL. It prepares such a login,
 * connects to nobody, and says what privileged.c says. Cyrus' library is linked, as it is with a client library that has SASL. */
#include <locker/driver.h>
#include <sasl/sasl.h>
#include <stdio.h>
#include <sys/auxv.h>

#include "../../../backends/zookeeper/net/tls_sasl.h"

int main(void)
{
    const locker_driver_config config = {.size = sizeof config, .user = "u", .password = "p"};
    locker_error err = {LOCKER_OK, 0, ""};
    const char *made = NULL;
    sasl_version_info(&made, NULL, NULL, NULL, NULL, NULL); /* so that the linker keeps the library */
    lk_zk_sasl_params *const login = lk_zk_sasl_new(&config, "digest-md5", NULL, NULL, &err);
    printf("%s|%s|%s\n", getauxval(AT_SECURE) != 0 ? "secure" : "plain",
           locker_status_name(login != NULL ? LOCKER_OK : err.status), err.text);
    printf("%s\n", made != NULL ? made : "");
    lk_zk_sasl_free(login);
    return 0;
}
