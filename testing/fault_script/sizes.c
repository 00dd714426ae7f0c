/* sizes.c: the size that a fault has had; see core/sizes.c. It never grows: it has none of its own. */
#include <locker/fault.h>

#include "lk_sized.h"

LK_SIZED_PIN(locker_fault, retry_ms, 56);
