/* module_load.h: load one module. */
#pragma once

#include <locker/driver.h>

/** The driver of the module in the file `path`, an absolute one, whose schemes are to be `schemes`, separated
 * by one space. OK, UNSUPPORTED, or what lk_module_refuse() answers. Again and from many threads: the same driver. */
locker_status lk_module_load(const char *path, const char *schemes, const locker_driver **driver,
                             locker_error *err);

/** Whether it is for want of descriptors or memory, which passes. */
bool lk_module_lacks(int os_error);

/** Say what can't be done, why, and what to do: UNAVAILABLE or NOMEM for want of something, else UNSUPPORTED. */
locker_status lk_module_refuse(locker_error *err, int os_error, const char *what);
