/* secret.h: a password that stands in a file, read again by a thread: a file system that hangs takes any time, and who has the driver's
 * mutex can't wait for that. */
#pragma once

#include <locker/driver.h>

#include "lk_mutex.h"

typedef struct lk_etcd_secret lk_etcd_secret;

/* NULL: no memory. */
lk_etcd_secret *lk_etcd_secret_new(const char *file) LK_UNCHECKED;
/* NULL is allowed. A thread that reads has its own use of it: nothing waits for that. */
void lk_etcd_secret_drop(lk_etcd_secret *secret);
/* Begin to read; core attends when that has ended. False: there is no thread, or one still reads since before. */
bool lk_etcd_secret_read(lk_etcd_secret *secret, const locker_services *svc);
/* Take what was read: malloc'ed; NULL: it can't be read. False: that has not ended yet. */
bool lk_etcd_secret_take(lk_etcd_secret *secret, char **password);
