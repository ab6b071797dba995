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
// ---- what create makes ready --------------------------------------------------------------------

// Once, when the parameters lie in `scratch` and in net->memory.
static Status make_ready(Run *run$(#k.init.values > 0 and ", " .. k.address .. "scratch" or "")) {
//@   body(k.init)

//@ end
// ---- entries ----------------------------------------------------------------------------------
//@ for _, entry in ipairs(k.entries) do

static Status enqueue_$(entry.ident)(Run *run$(#entry.inputs > 0 and ", " .. k.struct(entry, "inputs") .. " in" or "")$(#entry.outputs > 0 and ", " .. k.struct(entry, "outputs") .. " out" or "")) {
//@   body(entry)
//@ end
