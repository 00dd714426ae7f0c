-- Numbers that several scripts use (embed.cmake puts them in place of their names). Those that reach the server stay below 2^53, so
-- Lua's doubles hold them exactly. But tostring() does not print them exactly, so the scripts format them with %.0f.

-- 2^52: above every time in us at which a waiter can have come. It marks two things. In a queue, a score above it belongs to the entry
-- 'free'. In the state that acquire.lua answers, it means that the lock is a hash.
local FREE_BASE = 4503599627370496
local NUMBER_END = 9007199254740992 -- 2^53: fencing numbers stay below it
-- A lock is handed on for DIRECT_US without being free in between. Then it is left free for FREE_US: more than the 5 ms after which
-- many clients poll. ASK_US stands for a lock that is free already: no lock is handed on for 30 years.
local DIRECT_US = 400000
local FREE_US = 8000
local ASK_US = 1e15
