std = "lua51"
globals = {"KEYS", "ARGV"} -- a recovery script takes the mark and the life away from them
read_globals = {"redis"}
max_line_length = 140
-- A script may use only some functions of a file of lib/, and their parameters may be called like its own names.
ignore = {"211", "43"}
