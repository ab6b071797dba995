// self.c: the CUDA thread running on this OS thread, and the list of modules.
#include "sim/state/state.h"

#include <dlfcn.h>

__thread CusimThread *cusim_self __attribute__((visibility("default")));
__thread Worker *sim_worker;
CUmodule sim_modules;

const struct CUmod_st *module_of_address(const void *pc) {
  Dl_info info;
  if (!dladdr(pc, &info)) return NULL;
  for (CUmodule m = sim_modules; m; m = m->next)
    if (m->base == (uintptr_t)info.dli_fbase) return m;
  return NULL;
}
