-- Part of a script: the views whose parked keys were looked at in this call.
local looked_at = {}

