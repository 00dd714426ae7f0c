/* secret.h: a password in a file, which a thread reads again before a login. A thread, because a file
 * system that hangs may take any time, and the holder of the driver's mutex cannot wait. */
#pragma once

#include <locker/driver.h>

#include "lk_mutex.h"

typedef struct lk_etcd_secret lk_etcd_secret;

/* Return NULL without memory. */
lk_etcd_secret *lk_etcd_secret_new(const char *file) LK_UNCHECKED;
/* Drop the instance's use. NULL is allowed. Does not wait for a thread that reads. */
void lk_etcd_secret_drop(lk_etcd_secret *secret);
/* Begin to read. When it ends, core calls `attend`. Return false if there is no thread, or an earlier one
 * still reads. */
bool lk_etcd_secret_read(lk_etcd_secret *secret, const locker_services *svc);
/* Take what was read: allocated; NULL: the file could not be read. Return false if the thread has not
 * ended. */
bool lk_etcd_secret_take(lk_etcd_secret *secret, char **password);
