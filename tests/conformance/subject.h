/* subject.h: the driver under test: one of the tree, as it is or with an empty script of faults before it. */
#ifndef LK_CONFORMANCE_SUBJECT_H
#define LK_CONFORMANCE_SUBJECT_H

#include <locker/driver.h>
#include <locker/fault.h>

#ifdef LK_FAULTS_BEFORE
#define LK_SCHEME(scheme) "fault+" scheme
#define LK_TABLE(driver)  locker_fault_over(driver)
#else
#define LK_SCHEME(scheme) scheme
#define LK_TABLE(driver)  (driver)
#endif

#endif
