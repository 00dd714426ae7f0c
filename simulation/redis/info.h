/* info.h: what the server says that it is. */
#pragma once

#define LK_SR_VERSION "7.0.15"
