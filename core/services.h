/* services.h: what drivers call. */
#pragma once

#include <locker/driver.h>

extern const locker_services lk_services;
