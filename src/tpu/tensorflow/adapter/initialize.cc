// What libtpu.so calls when it opens the adapter.
#include "tpu/tensorflow/adapter/handles.h"
#include "tpu/tensorflow/runtime/tpu.h"

TORUS_TFTPU void torus_adapter_set_api(const PJRT_Api* api) { torus::tensorflow::Tpu::SetApi(api); }
