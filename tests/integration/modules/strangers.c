/* strangers.c: functions of the client libraries, as a program may bring along from copies of its own: of another version, or
 * ZooKeeper's with threads. Drivers must call none of them. */
#include <stdio.h>
#include <unistd.h>

#define STRANGER(name)                                                                                       \
    void name(void);                                                                                         \
    void name(void)                                                                                          \
    {                                                                                                        \
        (void)fputs("the program's own " #name " was called\n", stderr);                                     \
        _exit(99);                                                                                           \
    }

/* hiredis */
STRANGER(freeReplyObject)
STRANGER(redisReaderCreate)
STRANGER(redisReaderCreateWithFunctions)
STRANGER(redisReaderFeed)
STRANGER(redisReaderGetReply)
/* ZooKeeper's */
STRANGER(create_buffer_iarchive)
STRANGER(create_buffer_oarchive)
STRANGER(get_xid)
STRANGER(log_message)
STRANGER(zookeeper_close)
STRANGER(zookeeper_init2)
STRANGER(zookeeper_interest)
STRANGER(zookeeper_process)
/* protobuf-c */
STRANGER(protobuf_c_message_get_packed_size)
STRANGER(protobuf_c_message_pack)
STRANGER(protobuf_c_message_unpack)

/* OpenSSL 1.1.1, or BoringSSL, which calls itself that. */
unsigned long OpenSSL_version_num(void);
unsigned long OpenSSL_version_num(void)
{
    return 0x1010107fUL;
}
