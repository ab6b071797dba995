// open.c: opens the device of --device and --ordinal.
#include "cli.h"

#include <stdlib.h>
#include <string.h>

// libcusim reads its settings when it is opened.
static int set_frontend(const char *name, Error *err) {
  if (!name) return ExitOk;
  if (!strcmp(name, "nvrtc"))
    setenv("NNGEN_SIM_FRONTEND", "nvrtc", 1);
  else if (!strcmp(name, "cxx"))
    unsetenv("NNGEN_SIM_FRONTEND");
  else
    return err_set(err, ExitUsage, "--sim-frontend %s: expected cxx or nvrtc", name);
  return ExitOk;
}

int cli_device(const Cli *cli, Device **device, Error *err) {
  DeviceOptions options = {.cuda_path = cli->cuda_path, .log = log_to_stderr()};
  int64_t ordinal;
  const char *name = getenv("NNGEN_DEVICE");
  if (strcmp(cli->device, "auto") || !name) name = cli->device;
  if (!nvtx_parse(cli->nvtx, &options.nvtx))
    return err_set(err, ExitUsage, "--nvtx %s: expected off, model or layer", cli->nvtx);
  if (strcmp(cli->verb, "train")) options.nvtx = NvtxOff; // run_time uses the level instead
  if (!device_parse(name, &options.kind))
    return err_set(err, ExitUsage, "--device %s: expected auto, cuda or sim", name);
  if (cli->count) setenv("NNGEN_SIM_COUNT", "1", 1);
  int code = set_frontend(cli->sim_frontend, err);
  if (!code) code = cli_number("ordinal", cli->ordinal, 0, 0, &ordinal, err);
  options.ordinal = (int)ordinal;
  if (!code) code = device_open(&options, device, err);
  if (!code && cli->sim_frontend && device_info(*device)->kind == DeviceCuda)
    code = err_set(err, ExitUsage,
                   "--sim-frontend is for the simulator, and the device is a GPU: add "
                   "--device sim");
  return code;
}
