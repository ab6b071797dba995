//@ local function body(entry)
//@   if #entry.steps > 0 then
  $(k.name) *net = run->net;
//@   end
//@   if entry.uses_memory then
  Tensors *at = &net->tensors;
//@   end
//@   for i, step in ipairs(entry.steps) do
//@     if step.kind ~= "memset" or i == 1 then

//@     end
//@     for _, t in ipairs(step.declares or {}) do
  CUdeviceptr $(t.ident) = $(t.space == "init" and "scratch" or "net->workspace") + $(t.offset); // $(t.what)
//@     end
//@     if step.comment then
$(step.comment)
//@     end
//@     for _, map in ipairs(step.maps or {}) do
$(map)
//@     end
//@     if step.args then
$(step.args)
//@     end
$(step.call)
//@     if step.kind == "launch" then
  }
//@     end
//@   end
  return $(k.NAME)_OK;
}
//@ end
//@ if #k.init.steps > 0 then
// ---- the work of create -------------------------------------------------------------------------

// Launched once, after the parameters are copied to `scratch` and net->memory.
static Status make_ready(Run *run$(#k.init.values > 0 and ", " .. k.address .. "scratch" or "")) {
//@   body(k.init)

//@ end
// ---- entries ----------------------------------------------------------------------------------
//@ for _, entry in ipairs(k.entries) do

//@   local in_ = #entry.inputs > 0 and ", " .. k.struct(entry, "inputs") .. " in" or ""
//@   local out_ = #entry.outputs > 0 and ", " .. k.struct(entry, "outputs") .. " out" or ""
static Status enqueue_$(entry.ident)(Run *run$(in_)$(out_)) {
//@   body(entry)
//@ end
