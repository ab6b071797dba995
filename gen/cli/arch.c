// arch.c: describes the present GPU to the scheduler; path of its measured tiles.
#include "cli.h"

#include <stdlib.h>
#include <string.h>

// The driver's figures if available, else those of the architecture.
void arch_of_device(const DeviceInfo *info, Arch *arch) {
  const Arch *known = arch_find(info->arch);
  *arch = known ? *known : *arch_default();
  if (info->kind == DeviceSim && known) return; // the simulator models these figures
  arch->name = info->arch;
  arch->gpu = info->name;
  arch->l2_rate *= (double)info->sm_count / arch->sms;
  arch->sms = info->sm_count;
  arch->regs = info->regs_per_sm;
  arch->smem = info->smem_per_sm;
  arch->l2 = info->l2_bytes;
  if (!known && info->major != 9 && info->major != 10)
    arch->mma_share = arch_find("sm_80")->mma_share;
  if (info->clock_ghz > 0) arch->clock = info->clock_ghz;
  if (info->dram_gbs > 0) arch->dram = info->dram_gbs * 1e9;
  if (info->peak_fp32 > 0) arch->fp32 = info->peak_fp32 * 1e12;
  if (info->peak_tf32 > 0) arch->tf32 = info->peak_tf32 * 1e12;
  if (info->peak_fp16 > 0) arch->tensor16 = info->peak_fp16 * 1e12;
}

char *tuning_default_path(const char *cache_dir) {
  char path[4096], *found = cache_dir ? NULL : cache_default_dir();
  if (!cache_dir && !found) return NULL;
  snprintf(path, sizeof path, "%s/tuning.json", cache_dir ? cache_dir : found);
  free(found);
  return strdup(path);
}
