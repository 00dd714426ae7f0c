/* host_name.h: this host's own name, for a test program that logs in by SASL. Cyrus' library looks it up when a login begins,
 * which takes seconds where only a resolver knows it. */
#ifndef LK_HOST_NAME_H
#define LK_HOST_NAME_H

/** From now on threads other than this one get the name so late. Not while one of them asks for it. */
void lk_host_name_delay(int seconds);

#endif
