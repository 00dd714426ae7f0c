"""Has a ZooKeeper server write the classes that it loads to a file that Java maps: each server of the tests then takes a third
less of a processor to start. Argument: the file, made when it is not there. Prints Java's options for those who start servers
(JDK_JAVA_OPTIONS); Java goes without a file that does not fit."""
import os
import sys

import servers

archive = os.path.abspath(sys.argv[1])
os.makedirs(os.path.dirname(archive), exist_ok=True)
if not os.path.exists(archive):
    half = "%s.%d" % (archive, os.getpid())
    server = servers.ZooServer()
    server.options = ["-XX:ArchiveClassesAtExit=" + half]
    server.begin()
    server.process.terminate()
    server.process.wait()
    server.remove()
    os.replace(half, archive)
print('"-XX:SharedArchiveFile=%s" -Xlog:cds=off -Xlog:cds+dynamic=off' % archive)
