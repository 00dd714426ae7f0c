# A driver is a folder: an object library that sees the public headers, base, its own folder and its service's client
# library. One that needs such a library can be a module (Library.cmake); builtin-*.c (backends/) list those that a
# library has built in.
function(locker_add_driver name)
    cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
    add_library(locker_driver_${name} OBJECT ${arg_SOURCES})
    target_include_directories(locker_driver_${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    target_link_libraries(locker_driver_${name}
        PRIVATE locker_headers locker_base locker_flags Threads::Threads ${arg_LIBRARIES})
    set_property(GLOBAL APPEND PROPERTY LOCKER_DRIVERS ${name})
    if(arg_LIBRARIES)
        set_property(GLOBAL APPEND PROPERTY LOCKER_CLIENT_DRIVERS ${name})
        set_property(GLOBAL APPEND PROPERTY LOCKER_PARTS_OF_${name} locker_driver_${name})
        set_property(GLOBAL PROPERTY LOCKER_LIBRARIES_OF_${name} ${arg_LIBRARIES})
    else()
        set_property(GLOBAL APPEND PROPERTY LOCKER_PARTS locker_driver_${name})
    endif()
endfunction()

# A part that drivers share (backends/tls, backends/hosts), for one that was added, and needs a client library: these targets
# of it see its header.
function(locker_driver_has part name)
    foreach(target IN LISTS ARGN)
        target_link_libraries(${target} PRIVATE ${part}) # between object libraries: how it is used, no objects
    endforeach()
    set_property(GLOBAL APPEND PROPERTY LOCKER_PARTS_OF_${name} ${part})
endfunction()

function(locker_driver_has_tls name)
    locker_driver_has(locker_tls ${name} ${ARGN})
    if(OPENSSL_FOUND)
        set_property(GLOBAL APPEND PROPERTY LOCKER_LIBRARIES_OF_${name} PkgConfig::OPENSSL)
    endif()
endfunction()
