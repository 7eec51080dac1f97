/* A C program that runs a StableHLO program on libtpu.so with the PJRT C API and nothing else.
   usage: axpy LIBTPU; prints a * x + 1 for a = 1 2 3 and x = 10 20 30. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrt_c_api.h"

static const PJRT_Api* api;

static void check(PJRT_Error* error) {
  if (error == NULL) return;
  PJRT_Error_Message_Args message = {PJRT_Error_Message_Args_STRUCT_SIZE, NULL, error};
  api->PJRT_Error_Message(&message);
  fprintf(stderr, "error: %.*s\n", (int)message.message_size, message.message);
  exit(1);
}

static PJRT_Buffer* from_host(PJRT_Client* client, PJRT_Device* device, const float* values) {
  const int64_t three = 3;
  PJRT_Client_BufferFromHostBuffer_Args args = {PJRT_Client_BufferFromHostBuffer_Args_STRUCT_SIZE};
  args.client = client;
  args.data = values;
  args.type = PJRT_Buffer_Type_F32;
  args.dims = &three;
  args.num_dims = 1;
  args.device = device;
  check(api->PJRT_Client_BufferFromHostBuffer(&args));
  return args.buffer;
}

static PJRT_LoadedExecutable* compile(PJRT_Client* client) {
  static char code[] =
      "module { func.func public @main(%a: tensor<3xf32>, %x: tensor<3xf32>) -> tensor<3xf32> {\n"
      "  %one = stablehlo.constant dense<1.0> : tensor<3xf32>\n"
      "  %p = stablehlo.multiply %a, %x : tensor<3xf32>\n"
      "  %s = stablehlo.add %p, %one : tensor<3xf32>\n"
      "  return %s : tensor<3xf32> } }";
  /* CompileOptionsProto{executable_build_options{num_replicas: 1 num_partitions: 1}} */
  static const char options[] = "\x1a\x04\x20\x01\x28\x01";
  PJRT_Program program = {PJRT_Program_STRUCT_SIZE, NULL, code, strlen(code), "mlir", 4};
  PJRT_Client_Compile_Args args = {PJRT_Client_Compile_Args_STRUCT_SIZE};
  args.client = client;
  args.program = &program;
  args.compile_options = options;
  args.compile_options_size = 6;
  check(api->PJRT_Client_Compile(&args));
  return args.executable;
}

int main(int argc, char** argv) {
  void* library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (library == NULL) return fprintf(stderr, "usage: axpy LIBTPU (%s)\n", dlerror()), 1;
  const PJRT_Api* (*get)(void);
  *(void**)&get = dlsym(library, "GetPjrtApi");
  api = get();
  PJRT_Plugin_Initialize_Args initialize = {PJRT_Plugin_Initialize_Args_STRUCT_SIZE};
  check(api->PJRT_Plugin_Initialize(&initialize));
  PJRT_Client_Create_Args create = {PJRT_Client_Create_Args_STRUCT_SIZE};
  check(api->PJRT_Client_Create(&create));
  PJRT_Client_Devices_Args devices = {PJRT_Client_Devices_Args_STRUCT_SIZE, NULL, create.client};
  check(api->PJRT_Client_Devices(&devices));

  const float a[] = {1, 2, 3}, x[] = {10, 20, 30};
  PJRT_Buffer* arguments[] = {from_host(create.client, devices.devices[0], a),
                              from_host(create.client, devices.devices[0], x)};
  PJRT_Buffer* const* argument_list = arguments;
  PJRT_Buffer* output = NULL;
  PJRT_Buffer** output_list = &output;
  PJRT_ExecuteOptions options = {PJRT_ExecuteOptions_STRUCT_SIZE};
  PJRT_LoadedExecutable_Execute_Args run = {PJRT_LoadedExecutable_Execute_Args_STRUCT_SIZE};
  run.executable = compile(create.client);
  run.options = &options;
  run.argument_lists = &argument_list;
  run.num_devices = 1;
  run.num_args = 2;
  run.output_lists = &output_list;
  check(api->PJRT_LoadedExecutable_Execute(&run));

  float result[3];
  PJRT_Buffer_ToHostBuffer_Args copy = {PJRT_Buffer_ToHostBuffer_Args_STRUCT_SIZE};
  copy.src = output;
  copy.dst = result;
  copy.dst_size = sizeof(result);
  check(api->PJRT_Buffer_ToHostBuffer(&copy));
  PJRT_Event_Await_Args await = {PJRT_Event_Await_Args_STRUCT_SIZE, NULL, copy.event};
  check(api->PJRT_Event_Await(&await));
  printf("%g %g %g\n", result[0], result[1], result[2]);
  return 0;
}
