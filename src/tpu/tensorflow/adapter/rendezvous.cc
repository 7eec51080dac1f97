#include "tpu/tensorflow/adapter/rendezvous.h"

#include <cstring>
#include <string>
#include <utility>

#include "tensorflow/compiler/tf2xla/type_util.h"
#include "tensorflow/core/common_runtime/next_pluggable_device/c/outside_compilation_params.h"
#include "tensorflow/core/framework/rendezvous.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/util/device_name_utils.h"
#include "tpu/tensorflow/adapter/handles.h"

namespace torus::tensorflow {
namespace {

using ::tensorflow::DeviceNameUtils;
using ::tensorflow::Rendezvous;
using ::tensorflow::RendezvousInterface;
using ::tensorflow::Tensor;
using ::tensorflow::TensorShape;

Result<Tensor> NewTensor(const HostTransfer& transfer) {
  const auto type =
      ::tensorflow::EncodePrimitiveTypeAsDataType(static_cast<xla::PrimitiveType>(transfer.type));
  if (!type.ok()) return Error(FromAbsl(type.status()));
  return Tensor(*type, TensorShape(transfer.dimensions));
}

// Why the tensor is not what the program was compiled to receive.
Status Check(const HostTransfer& transfer, const Tensor& tensor, bool is_dead) {
  if (is_dead)
    return FailedPrecondition(
        "the host computation of \"{}\" was not run: its branch was not taken", transfer.name);
  TORUS_ASSIGN_OR_RETURN(const auto expected, NewTensor(transfer));
  if (tensor.shape() == expected.shape() && tensor.TotalBytes() == expected.TotalBytes())
    return Status();
  return InvalidArgument("the host computation of \"{}\" gave {}, and the program expects {}",
                         transfer.name, tensor.DebugString(0), expected.DebugString(0));
}

class RendezvousHost : public Host {
 public:
  explicit RendezvousHost(const SE_OutsideCompilationParams& params)
      : rendezvous_(static_cast<RendezvousInterface*>(params.rendezvous->rendezvous)),
        device_(params.device_name),
        key_(params.rendezvous_key) {
    DeviceNameUtils::ParsedName name;
    DeviceNameUtils::ParseFullName(device_, &name);
    name.type = "CPU";
    name.id = 0;
    cpu_ = DeviceNameUtils::ParsedNameToString(name);
    args_.alloc_attrs.set_on_host(true);  // as TensorFlow's tensors here are
  }

  Status Take(const HostTransfer& transfer, std::string_view data) override {
    TORUS_ASSIGN_OR_RETURN(const auto tensor, NewTensor(transfer));
    const auto bytes = tensor.tensor_data();
    if (bytes.size() != data.size())
      return Internal("\"{}\" is {} bytes where {} were expected", transfer.name, data.size(),
                      bytes.size());
    if (!data.empty()) std::memcpy(const_cast<char*>(bytes.data()), data.data(), data.size());
    TORUS_ASSIGN_OR_RETURN(const auto key, Key(device_, cpu_, transfer));
    return FromAbsl(rendezvous_->Send(key, args_, tensor, /*is_dead=*/false));
  }

  void Give(const HostTransfer& transfer, std::function<void(Result<std::string>)> give) override {
    const auto key = Key(cpu_, device_, transfer);
    if (!key) return give(Error(key.error()));
    rendezvous_->RecvAsync(
        *key, args_,
        [&transfer, give = std::move(give)](const absl::Status& status, const auto&, const auto&,
                                            const Tensor& tensor, bool is_dead) {
          auto received = FromAbsl(status);
          if (received.ok()) received = Check(transfer, tensor, is_dead);
          if (!received.ok()) return give(Error(received));
          give(std::string(tensor.tensor_data()));
        });
  }

  void Abort(const Status& status) override { rendezvous_->StartAbort(ToAbsl(status)); }

 private:
  // As TensorFlow's ops on the host make it, whatever step of a loop they are in.
  Result<RendezvousInterface::ParsedKey> Key(const std::string& from, const std::string& to,
                                             const HostTransfer& transfer) const {
    RendezvousInterface::ParsedKey parsed;
    const auto key = Rendezvous::CreateKey(from, /*src_incarnation=*/1, to, key_ + transfer.name,
                                           ::tensorflow::FrameAndIter(0, 0));
    TORUS_RETURN_IF_ERROR(FromAbsl(Rendezvous::ParseKey(key, &parsed)));
    return parsed;
  }

  RendezvousInterface* const rendezvous_;
  const std::string device_, key_;
  std::string cpu_;  // of the same host
  RendezvousInterface::Args args_;
};

}  // namespace

std::shared_ptr<Host> HostOf(const SE_OutsideCompilationParams* params) {
  if (params == nullptr || params->rendezvous == nullptr) return nullptr;
  return std::make_shared<RendezvousHost>(*params);
}

}  // namespace torus::tensorflow
