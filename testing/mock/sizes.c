/* sizes.c: the sizes that the mock's public structs have had; see core/sizes.c. */
#include <locker/mock.h>

#include "lk_sized.h"

/* What tells its size, and may grow. */
LK_SIZED_PIN(locker_mock_options, patience_ms, 40);

/* What never grows: it has no size. */
LK_SIZED_PIN(locker_mock_call, together, 64);
