-- Entries and states whose names meet those of an emitted network's own functions and constants.
local nn = require "nn"
local x = nn.input("x", {4})
local entries = {"next", "next_host", "host", "memory_bytes", "graph_destroy", "next_inputs",
                 "Next", "workspace_bytes", "state_bytes", "x_capture", "x_profile", "x",
                 "Network", "Graph", "get", "synchronize"}
for i, name in ipairs(entries) do nn.entry(name, function() nn.output("y" .. i, x * i) end) end
for i, name in ipairs{"count", "Count", "s", "S"} do
  local state = nn.state(name, {1})
  nn.update(state, state + i)
end
