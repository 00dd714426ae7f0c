/* record.h: the value of a key of ours: whose it is, since when it has been held, and by whom. */
#pragma once

#include "instance.h"

enum { LK_ETCD_RECORD_MAX = LK_ETCD_ID_LEN + 24 + LOCKER_OWNER_MAX + 1 };

typedef struct {
    char id[LK_ETCD_ID_LEN + 1]; /* "": it is a foreign client's */
    int64_t unix_ms;             /* since when it has been held; -1: it isn't told */
    char owner[LOCKER_OWNER_MAX + 1];
} lk_etcd_record;

/* A time of the driver's clock in ms since 1970. */
int64_t lk_etcd_unix_ms(const lk_etcd *e, int64_t at);
void lk_etcd_record_write(const char *id, int64_t unix_ms, const char *owner, char text[LK_ETCD_RECORD_MAX]);
/* What a foreign client has there is an owner, if it can be read. */
void lk_etcd_record_read(const ProtobufCBinaryData *value, lk_etcd_record *record);
