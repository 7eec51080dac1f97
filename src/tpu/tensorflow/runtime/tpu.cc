#include "tpu/tensorflow/runtime/tpu.h"

#include <utility>

#include "base/mutex.h"
#include "tpu/pjrt/args.h"

namespace torus::tensorflow {
namespace {

using pjrt::MakeArgs;

const PJRT_Api* the_api = nullptr;

struct Waiter {
  const Tpu* tpu;
  PJRT_Event* event;
  std::function<void(Status)> done;
};

void DestroyEvent(PJRT_Event* event) {
  auto args = MakeArgs<PJRT_Event_Destroy_Args>();
  args.event = event;
  Take(Tpu::api(), Tpu::api()->PJRT_Event_Destroy(&args)).ok();
}

void OnReady(PJRT_Error* error, void* user) {
  const std::unique_ptr<Waiter> waiter(static_cast<Waiter*>(user));
  auto status = waiter->tpu->Take(error);
  DestroyEvent(waiter->event);
  waiter->done(std::move(status));
}

}  // namespace

Status Take(const PJRT_Api* api, PJRT_Error* error) {
  if (error == nullptr) return Status();
  auto message = MakeArgs<PJRT_Error_Message_Args>();
  auto code = MakeArgs<PJRT_Error_GetCode_Args>();
  auto destroy = MakeArgs<PJRT_Error_Destroy_Args>();
  message.error = code.error = destroy.error = error;
  api->PJRT_Error_Message(&message);
  Take(api, api->PJRT_Error_GetCode(&code)).ok();
  Status status(static_cast<Code>(code.code), std::string(message.message, message.message_size));
  api->PJRT_Error_Destroy(&destroy);
  return status;
}

void Tpu::SetApi(const PJRT_Api* api) { the_api = api; }

const PJRT_Api* Tpu::api() { return the_api; }

Result<const Tpu*> Tpu::Get() {
  static Mutex mutex;
  static const Tpu* tpu = nullptr;
  const MutexLock lock(mutex);
  if (tpu != nullptr) return tpu;
  auto made = Make();
  if (made) tpu = *made;
  return made;
}

Result<const Tpu*> Tpu::Make() {
  auto initialize = MakeArgs<PJRT_Plugin_Initialize_Args>();
  TORUS_RETURN_IF_ERROR(tensorflow::Take(api(), api()->PJRT_Plugin_Initialize(&initialize)));
  const auto framework = pjrt::NamedString("ml_framework_name", "tensorflow");
  auto create = MakeArgs<PJRT_Client_Create_Args>();
  create.create_options = &framework;
  create.num_options = 1;
  TORUS_RETURN_IF_ERROR(tensorflow::Take(api(), api()->PJRT_Client_Create(&create)));
  auto devices = MakeArgs<PJRT_Client_AddressableDevices_Args>();
  devices.client = create.client;
  TORUS_RETURN_IF_ERROR(tensorflow::Take(api(), api()->PJRT_Client_AddressableDevices(&devices)));
  return new Tpu(create.client, {devices.addressable_devices,
                                 devices.addressable_devices + devices.num_addressable_devices});
}

Result<PJRT_Device*> Tpu::device(int ordinal) const {
  if (ordinal < 0 || std::cmp_greater_equal(ordinal, devices_.size()))
    return InvalidArgument("no TPU core {} on this host, which has {}", ordinal, devices_.size());
  return devices_[ordinal];
}

Result<int> Tpu::DeviceId(int ordinal) const {
  auto description = MakeArgs<PJRT_Device_GetDescription_Args>();
  TORUS_ASSIGN_OR_RETURN(description.device, device(ordinal));
  TORUS_RETURN_IF_ERROR(Take(api()->PJRT_Device_GetDescription(&description)));
  auto id = MakeArgs<PJRT_DeviceDescription_Id_Args>();
  id.device_description = description.device_description;
  TORUS_RETURN_IF_ERROR(Take(api()->PJRT_DeviceDescription_Id(&id)));
  return id.id;
}

void Tpu::WhenReady(PJRT_Event* event, std::function<void(Status)> done) const {
  if (event == nullptr) return done(Status());
  auto waiter = std::make_unique<Waiter>(this, event, std::move(done));
  auto args = MakeArgs<PJRT_Event_OnReady_Args>();
  args.event = event;
  args.callback = OnReady;
  args.user_arg = waiter.get();
  auto status = Take(api()->PJRT_Event_OnReady(&args));
  if (status.ok()) {
    static_cast<void>(waiter.release());
    return;
  }
  DestroyEvent(event);
  waiter->done(std::move(status));
}

}  // namespace torus::tensorflow
