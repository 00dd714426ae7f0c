/*
 * sqlite_lock.h: a driver for liblocker that keeps locks in a SQLite database, for processes of one host.
 *
 *     locker_driver_options how = LOCKER_DRIVER_OPTIONS_INIT;
 *
 *     how.uri = "sqlite:///var/lib/shop/locks.db?namespace=shop&ttl=10s";
 *     status = locker_open_driver(&sqlite_lock_driver, &how, &l, &err);
 */
#pragma once

#include <locker/driver.h>

extern const locker_driver sqlite_lock_driver;
