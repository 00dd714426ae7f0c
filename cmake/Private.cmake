# Private copies of the client libraries. A program, or another library of it, may have a copy of its own: another version,
# or ZooKeeper's with threads, whose names are the same. The dynamic linker would take the functions of that copy for the
# calls of a module, and for the client library's own calls. So each client library whose archive is there is linked into
# what is loaded, with hidden symbols.
option(LOCKER_PRIVATE_CLIENTS "Link the client libraries' archives, where they are there, into the modules" ON)
include(CheckCSourceCompiles)

# Set `out` to true if a shared object can be made of the archive and the libraries that follow.
function(locker_can_embed out archive)
    string(MAKE_C_IDENTIFIER "LOCKER_CAN_EMBED_${archive}_${ARGN}" fits)
    set(CMAKE_REQUIRED_QUIET ON)
    set(CMAKE_REQUIRED_FLAGS -fPIC)
    set(CMAKE_REQUIRED_LINK_OPTIONS -shared -Wl,-z,defs
        -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/locker-module.map)
    set(CMAKE_REQUIRED_LIBRARIES -Wl,--whole-archive ${archive} -Wl,--no-whole-archive ${ARGN})
    check_c_source_compiles("int nothing(void) { return 0; }" ${fits})
    set(${out} ${${fits}} PARENT_SCOPE)
endfunction()

# Have what is loaded link `archive` in place of the library `target`. The arguments after it are lists of libraries: the
# archive may need the first of them that suffices.
function(locker_embed target archive)
    if(LOCKER_PRIVATE_CLIENTS AND archive)
        foreach(needs "" ${ARGN})
            string(REPLACE "+" ";" needs "${needs}")
            locker_can_embed(fits ${archive} ${needs})
            if(fits)
                set_property(GLOBAL PROPERTY LOCKER_EMBEDDED_${target} ${archive} ${needs})
                return()
            endif()
        endforeach()
    endif()
    if(LOCKER_PRIVATE_CLIENTS)
        message(STATUS "No archive to embed for ${target}: a program's own copy of that library would be called")
    endif()
endfunction()

function(locker_embed_pkg name file)
    if(${name}_FOUND)
        list(GET ${name}_LINK_LIBRARIES 0 library)
        get_filename_component(directory ${library} DIRECTORY)
        find_library(${name}_ARCHIVE ${file} PATHS ${directory} NO_DEFAULT_PATH)
        mark_as_advanced(${name}_ARCHIVE)
        locker_embed(PkgConfig::${name} "${${name}_ARCHIVE}")
    endif()
endfunction()

# Set `out` to what a shared object links in place of these libraries.
function(locker_embedded out)
    set(all "")
    foreach(library IN LISTS ARGN)
        get_property(archive GLOBAL PROPERTY LOCKER_EMBEDDED_${library})
        if(archive)
            list(APPEND all ${archive})
        else()
            list(APPEND all ${library})
        endif()
    endforeach()
    set(${out} ${all} PARENT_SCOPE)
endfunction()

locker_embed_pkg(HIREDIS libhiredis.a)
locker_embed_pkg(NGHTTP2 libnghttp2.a)
locker_embed_pkg(PROTOBUF_C libprotobuf-c.a)

# ZooKeeper's archive goes into liblocker.a's programs too: its request number has to be replaced (net/request_number.c), which
# the linker can do in an archive alone. It may have been built with OpenSSL and Cyrus SASL.
set(LOCKER_ZOOKEEPER_LIBRARIES ZooKeeper::st)
set(LOCKER_ZOOKEEPER_OPTIONS "")
if(LOCKER_ZOOKEEPER)
    locker_embed(ZooKeeper::st "${ZooKeeper_ST_ARCHIVE}" -lssl+-lcrypto -lsasl2 -lssl+-lcrypto+-lsasl2)
    get_property(LOCKER_ZOOKEEPER_ARCHIVE GLOBAL PROPERTY LOCKER_EMBEDDED_ZooKeeper::st)
    if(LOCKER_ZOOKEEPER_ARCHIVE)
        list(POP_FRONT LOCKER_ZOOKEEPER_ARCHIVE)
        set(LOCKER_ZOOKEEPER_LIBRARIES ZooKeeper::archive ${LOCKER_ZOOKEEPER_ARCHIVE})
        set(LOCKER_ZOOKEEPER_OPTIONS -Wl,--wrap=get_xid,--undefined=__wrap_get_xid)
    endif()
endif()
