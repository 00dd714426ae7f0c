# Installed files: headers, libraries, the CMake package, locker.pc.
