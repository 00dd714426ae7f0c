/* services.h: what drivers call. */
#ifndef LK_SERVICES_H
#define LK_SERVICES_H

#include <locker/driver.h>

extern const locker_services lk_services;

#endif
