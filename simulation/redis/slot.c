/* slot.c: the hash slot of a key, as Redis Cluster has it. CRC16-XMODEM:
 * https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#key-distribution-model */
#include "bytes.h"

#include <string.h>

static lk_sr_text tag_of(lk_sr_text key)
{
    const char *open = key.len > 0 ? memchr(key.data, '{', key.len) : NULL;
    const char *close = open != NULL ? memchr(open, '}', (size_t)(key.data + key.len - open)) : NULL;
    return close == NULL || close == open + 1 ? key : (lk_sr_text){open + 1, (size_t)(close - open) - 1};
}

unsigned lk_sr_slot_of(lk_sr_text key)
{
    const lk_sr_text tag = tag_of(key);
    unsigned crc = 0;
    for (size_t i = 0; i < tag.len; i++) {
        crc ^= (unsigned)(unsigned char)tag.data[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc & 0x8000) != 0 ? (crc << 1 ^ 0x1021) & 0xffff : crc << 1;
    }
    return crc % LK_SR_SLOTS;
}
