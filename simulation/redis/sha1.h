/* sha1.h: SHA-1 (RFC 3174), by which scripts are named. */
#pragma once

#include "bytes.h"

enum { LK_SR_SHA1_LEN = 40 };

/** In hexadecimal digits. */
void lk_sr_sha1(lk_sr_text text, char hex[LK_SR_SHA1_LEN + 1]);
