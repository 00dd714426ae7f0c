# The single-threaded C client of ZooKeeper, for which there is no .pc file: ZooKeeper::st, and ZooKeeper::archive where an
# archive of it lies beside that. Whether it has TLS and SASL is found out when a locker is opened.
find_path(ZooKeeper_INCLUDE_DIR zookeeper/zookeeper.h)
find_library(ZooKeeper_ST_LIBRARY zookeeper_st)
if(ZooKeeper_ST_LIBRARY)
    get_filename_component(ZooKeeper_DIRECTORY ${ZooKeeper_ST_LIBRARY} DIRECTORY)
    find_library(ZooKeeper_ST_ARCHIVE libzookeeper_st.a PATHS ${ZooKeeper_DIRECTORY} NO_DEFAULT_PATH)
endif()
mark_as_advanced(ZooKeeper_INCLUDE_DIR ZooKeeper_ST_LIBRARY ZooKeeper_ST_ARCHIVE)

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
if(ZooKeeper_FOUND AND ZooKeeper_ST_ARCHIVE AND NOT TARGET ZooKeeper::archive)
    add_library(ZooKeeper::archive STATIC IMPORTED)
    set_target_properties(ZooKeeper::archive PROPERTIES
        IMPORTED_LOCATION ${ZooKeeper_ST_ARCHIVE} INTERFACE_INCLUDE_DIRECTORIES ${ZooKeeper_INCLUDE_DIR})
endif()
