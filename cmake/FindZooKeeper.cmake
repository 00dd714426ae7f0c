# The single-threaded C client of ZooKeeper, for which there is no .pc file: ZooKeeper::st. Whether it has TLS and SASL
# is found out when a locker is opened.
find_path(ZooKeeper_INCLUDE_DIR zookeeper/zookeeper.h)
find_library(ZooKeeper_ST_LIBRARY zookeeper_st)
mark_as_advanced(ZooKeeper_INCLUDE_DIR ZooKeeper_ST_LIBRARY)

# Before 3.6 the version is three numbers, after that one text.
if(EXISTS ${ZooKeeper_INCLUDE_DIR}/zookeeper/zookeeper_version.h)
    file(STRINGS ${ZooKeeper_INCLUDE_DIR}/zookeeper/zookeeper_version.h ZooKeeper_LINES REGEX "define ZOO_.*VERSION")
    string(REGEX MATCHALL "[0-9]+" ZooKeeper_NUMBERS "${ZooKeeper_LINES}")
    string(REPLACE ";" "." ZooKeeper_VERSION "${ZooKeeper_NUMBERS}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ZooKeeper
    REQUIRED_VARS ZooKeeper_ST_LIBRARY ZooKeeper_INCLUDE_DIR VERSION_VAR ZooKeeper_VERSION)

if(ZooKeeper_FOUND AND NOT TARGET ZooKeeper::st)
    add_library(ZooKeeper::st UNKNOWN IMPORTED)
    set_target_properties(ZooKeeper::st PROPERTIES
        IMPORTED_LOCATION ${ZooKeeper_ST_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${ZooKeeper_INCLUDE_DIR})
endif()
