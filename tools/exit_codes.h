/*
 * exit_codes.h: what the locker command answers. From 64 on they follow sysexits.h; the last three are a
 * shell's. Every subcommand takes its code from here or, in the case of run, from the command that it ran.
 */
#pragma once

typedef enum lk_exit {
    LK_EXIT_OK = 0,
    LK_EXIT_FREE = 1,          /**< break: nobody held the lock */
    LK_EXIT_BROKEN = 1,        /**< check-history, compare: a promise is broken */
    LK_EXIT_USAGE = 64,        /**< a wrong option, key or argument */
    LK_EXIT_DATA = 65,         /**< a history's line breaks the format */
    LK_EXIT_NO_INPUT = 66,     /**< a history can't be read */
    LK_EXIT_UNAVAILABLE = 69,  /**< the lock service can't be reached */
    LK_EXIT_INTERNAL = 70,     /**< the service's answer, or our own state, makes no sense */
    LK_EXIT_SYSTEM = 71,       /**< the operating system refused: memory, descriptors, processes */
    LK_EXIT_CONFLICT = 75,     /**< busy, or not free in time; run's -E changes it */
    LK_EXIT_LOST = 76,         /**< the lock was lost; run's --lost-exit-code changes it */
    LK_EXIT_DENIED = 77,       /**< the service refuses the credentials or the rights */
    LK_EXIT_CONFIG = 78,       /**< a wrong URI, profile or parameter, or a driver that is not built in */
    LK_EXIT_CANNOT_EXEC = 126, /**< the command was found but could not be started */
    LK_EXIT_NOT_FOUND = 127,   /**< the command was not found */
    LK_EXIT_SIGNAL = 128       /**< plus the number of the signal */
} lk_exit;
