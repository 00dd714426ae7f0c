/* sha1.c: SHA-1 (RFC 3174), by which scripts are named. */
#include "bytes.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK = 64, LENGTH_AT = 56 };

static uint32_t roll(uint32_t word, unsigned by)
{
    return word << by | word >> (32 - by);
}

static void add_block(uint32_t state[5], const unsigned char block[BLOCK])
{
    static const uint32_t constant[] = {0x5A827999, 0x6ED9EBA1, 0x8F1BBCDC, 0xCA62C1D6};
    uint32_t w[80], a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
    for (size_t i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 80; i++)
        w[i] = roll(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    for (int i = 0; i < 80; i++) {
        const uint32_t f = i < 20              ? (b & c) | (~b & d)
                           : i >= 40 && i < 60 ? (b & c) | (b & d) | (c & d)
                                               : b ^ c ^ d;
        const uint32_t next = roll(a, 5) + f + e + w[i] + constant[i / 20];
        e = d;
        d = c;
        c = roll(b, 30);
        b = a;
        a = next;
    }
    const uint32_t sums[] = {a, b, c, d, e};
    for (int i = 0; i < 5; i++)
        state[i] += sums[i];
}

/* What is left of the text, a one, zeros, and how many bits there were. */
static void add_end(uint32_t state[5], lk_sr_text rest, uint64_t bits)
{
    unsigned char block[BLOCK] = {0};
    if (rest.len > 0)
        memcpy(block, rest.data, rest.len);
    block[rest.len] = 0x80;
    if (rest.len >= LENGTH_AT) {
        add_block(state, block);
        memset(block, 0, sizeof block);
    }
    for (int i = 0; i < 8; i++)
        block[LENGTH_AT + i] = (unsigned char)(bits >> (56 - 8 * i));
    add_block(state, block);
}

void lk_sr_sha1(lk_sr_text text, char hex[LK_SR_SHA1_LEN + 1])
{
    uint32_t state[5] = {0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0};
    const uint64_t bits = (uint64_t)text.len * 8;
    for (; text.len >= BLOCK; text.data += BLOCK, text.len -= BLOCK)
        add_block(state, (const unsigned char *)text.data);
    add_end(state, text, bits);
    for (size_t i = 0; i < 5; i++)
        (void)snprintf(hex + 8 * i, 9, "%08x", (unsigned)state[i]);
}
