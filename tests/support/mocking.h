/*
 * mocking.h: a mock with one locker on it, and its calls checked: for tests of core and of the mock.
 */
#pragma once

#include <locker/mock.h>

#include "expect.h"

/** Makes a mock, NULL: with the usual options but for patience, and opens a locker on it. */
locker_mock *lk_mock_begin(const locker_mock_options *options, locker **l);

/** Opens another locker on it. */
locker *lk_mock_host(locker_mock *mock, const char *owner);

/** Closes the locker (NULL: it is closed already), checks that nothing is left behind, and frees the mock. */
void lk_mock_end(locker_mock *mock, locker *l);

/** Adds faults; fails the test when the text is wrong. */
void lk_mock_faults(locker_mock *mock, const char *text);

/** Moves the clock on; fails the test when the threads don't come to rest. */
void lk_mock_advance_by(locker_mock *mock, int64_t ms);

/** Waits until so many calls stand waiting for the key (NULL: any), or fails the test. */
void lk_mock_await(locker_mock *mock, const char *key, size_t count);

/** How many operations of that kind the service was asked for, on any key. */
size_t lk_mock_calls(locker_mock *mock, locker_op op);

/** How many of them were answered so. */
size_t lk_mock_answers(locker_mock *mock, locker_op op, locker_status status);
