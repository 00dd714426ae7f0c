# A driver is a folder: an object library that sees the public headers, base, its own folder and its service's client
# library. builtin.c (backends/) lists those that this build has.
function(locker_add_driver name)
    cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
    add_library(locker_driver_${name} OBJECT ${arg_SOURCES})
    target_include_directories(locker_driver_${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    target_link_libraries(locker_driver_${name}
        PRIVATE locker_headers locker_base locker_flags Threads::Threads ${arg_LIBRARIES})
    set_property(GLOBAL APPEND PROPERTY LOCKER_PARTS locker_driver_${name})
    set_property(GLOBAL APPEND PROPERTY LOCKER_PART_LIBRARIES ${arg_LIBRARIES})
    set_property(GLOBAL APPEND PROPERTY LOCKER_DRIVERS ${name})
endfunction()
