# One target that carries the warnings, sanitizers and feature macros of every part of ours.
add_library(locker_flags INTERFACE)
target_compile_options(locker_flags INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes
    -Wpointer-arith -Wwrite-strings -Wvla -fno-common)
target_compile_definitions(locker_flags INTERFACE _GNU_SOURCE)
# The file driver locks bytes that lie beyond 32 bits. Not _TIME_BITS: client libraries take a struct timeval of their own.
if(CMAKE_SIZEOF_VOID_P EQUAL 4)
    target_compile_definitions(locker_flags INTERFACE _FILE_OFFSET_BITS=64)
endif()
if(LOCKER_WERROR)
    target_compile_options(locker_flags INTERFACE -Werror)
endif()
if(LOCKER_SANITIZE)
    target_compile_options(locker_flags INTERFACE -UNDEBUG -fsanitize=${LOCKER_SANITIZE} # and with asserts
        -fno-omit-frame-pointer -fno-sanitize-recover=all)
    add_link_options(-fsanitize=${LOCKER_SANITIZE})
endif()
