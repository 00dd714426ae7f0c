/*
 * test_disks.h: disks of a test's own that can be frozen: whoever writes to one then waits until it is thawed, and what needs no disk
 * goes on. Each is ext4 in a file, by a loop device; they are mounted where only the test and its servers see it, and thawed
 * when the test ends, however that is. Needs root and loop devices.
 */
#pragma once

#include "servers/ensemble.h"

/** Puts the data of each member of an ensemble of etcd, which serves, on a disk of its own, and starts it again. Where that can't be
 * done the program ends as skipped, or as failed where skips are refused. Once in a process, which has one thread. */
void lk_test_put_on_disks(lk_server *members);

/** Freezes a member's disk; thaws it, before the member is killed: it would not end. */
void lk_test_disk_freeze(const lk_server *member);
void lk_test_disk_thaw(const lk_server *member);
