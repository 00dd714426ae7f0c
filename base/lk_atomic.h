/* lk_atomic.h: what is written under a mutex, or is a hint, and is read without: single flags and numbers, which bring nothing
 * else, so in relaxed order. Plain accesses would be of the strictest, each as dear as taking a mutex. */
#pragma once

#include <stdatomic.h>

#define LK_READ(member)        atomic_load_explicit(&(member), memory_order_relaxed)
#define LK_WRITE(member, what) atomic_store_explicit(&(member), what, memory_order_relaxed)
