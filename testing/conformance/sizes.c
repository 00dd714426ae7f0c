/* sizes.c: the size that the kit's subject has had; see core/sizes.c. It tells its size, and may grow. */
#include <locker/conformance.h>

#include "lk_sized.h"

LK_SIZED_PIN(locker_conformance_subject, hang_ms, 104);
