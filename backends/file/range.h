/* range.h: locking a byte of a file that a sweep may be removing. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* As lk_file_range_lock(), but a sweep that has the file is waited for: EAGAIN is about somebody who holds,
 * waits or breaks, whose type of lock *met is. (F_UNLCK: the sweep was stopped in the middle.) */
int lk_file_range_take(int fd, short type, off_t byte, short *met);
/* Between two attempts at what a sweep was in the way of: yields, and then sleeps. `round`: from 0 on. False: it has lasted 100 ms. */
bool lk_file_sweep_await(int round);
