#include "service/backend/local/local_backend.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "service/backend/local/host_packages.h"
#include "service/backend/local/vm_spec.h"

namespace torus::backend {
namespace {

using Phase = model::Observation::Phase;

// A worker dials within a second of the service's start, and of its own.
constexpr auto kSilence = std::chrono::seconds(20);
constexpr auto kEndTime = std::chrono::seconds(1);

// A program and the Debian package that brings it.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kPrograms = {
    {{"runc", "runc"},
     {"nft", "nftables"},
     {"ip", "iproute2"},
     {"mmdebstrap", "mmdebstrap"},
     {"ssh-keygen", "openssh-client"}}};

bool OnPath(std::string_view program) {
  for (const char* folder :
       {"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"})
    if (access((std::string(folder) + "/" + std::string(program)).c_str(), X_OK) == 0) return true;
  return false;
}

Status CheckHost(const LocalOptions& options) {
  if (geteuid() != 0)
    return FailedPrecondition(
        "The local backend needs root, to make TPU VMs. Run torus serve as root, or use "
        "--backend=fake for nodes without VMs.");
  for (const auto& [program, package] : kPrograms)
    if (!OnPath(program))
      return FailedPrecondition(
          "The local backend needs the program {}, which is not installed: apt-get install {}.",
          program, package);
  for (const auto& [what, path] :
       {std::pair("libtpu.so", options.libtpu), std::pair("its engine", options.engine)})
    if (access(path.c_str(), R_OK) != 0)
      return FailedPrecondition(
          "Cannot read {} at \"{}\". Build it (scripts/deps.sh fetches the engine), or say where "
          "it is with --libtpu and --engine.",
          what, path);
  return {};
}

// Trying again cannot help: something of the request or of the machine must change first.
bool IsPermanent(Code code) {
  return code == Code::kInvalidArgument || code == Code::kFailedPrecondition ||
         code == Code::kUnimplemented || code == Code::kResourceExhausted;
}

// The code of a worker's failure; what is no canonical code of one counts as an internal error.
Code FailureCode(int code) {
  const bool canonical = code > 0 && code <= static_cast<int>(Code::kUnauthenticated);
  return canonical ? static_cast<Code>(code) : Code::kInternal;
}

std::vector<model::Attribute> AttributesOf(const worker::Observed& seen) {
  std::vector<model::Attribute> attributes;
  for (const auto& from : seen.guest_attributes()) {
    auto& attribute = attributes.emplace_back();
    attribute.set_namespace_(from.namespace_());
    attribute.set_key(from.key());
    attribute.set_value(from.value());
  }
  return attributes;
}

std::vector<model::Symptom> SymptomsOf(const worker::Observed& seen) {
  std::vector<model::Symptom> symptoms;
  for (const auto& finding : seen.findings()) {
    auto& symptom = symptoms.emplace_back();
    symptom.mutable_create_time()->set_seconds(finding.since());
    symptom.set_details(fmt::format("{}: {}", finding.id(), finding.text()));
    symptom.set_is_error(finding.is_error());
  }
  return symptoms;
}

// The state of the whole slice: that of its least advanced VM.
model::Observation Together(const std::vector<worker::Observed>& vms, int64_t order) {
  model::Observation all{.phase = Phase::kUnknown, .generation = order};
  int running = 0, stopped = 0, deleted = 0;
  for (const auto& vm : vms) {
    all.generation = std::min(all.generation, vm.generation());
    all.guest_attributes.push_back(AttributesOf(vm));
    all.symptoms.push_back(SymptomsOf(vm));
    const bool current = vm.generation() >= order;
    running += vm.phase() == worker::RUNNING;
    stopped += vm.phase() == worker::STOPPED && current;
    deleted += vm.phase() == worker::DELETED;
    if (vm.phase() == worker::PREPARING && all.phase == Phase::kUnknown) {
      all.phase = Phase::kWorking;
      all.detail = vm.detail();
    }
    if (vm.phase() == worker::FAILED) {
      all.phase = Phase::kFailed;
      all.error = Status(FailureCode(vm.error_code()), vm.error());
      all.permanent |= IsPermanent(all.error.code());
    }
  }
  const int count = static_cast<int>(vms.size());
  if (running == count) all.phase = Phase::kRunning;
  if (stopped == count) all.phase = Phase::kStopped;
  if (deleted == count) all.phase = Phase::kDeleted;
  return all;
}

}  // namespace

Result<std::unique_ptr<LocalBackend>> LocalBackend::Create(LocalOptions options) {
  TORUS_RETURN_IF_ERROR(CheckHost(options));
  std::unique_ptr<LocalBackend> backend(new LocalBackend(std::move(options)));
  TORUS_RETURN_IF_ERROR(backend->hub_->Start(backend->options_.worker_socket));
  return backend;
}

LocalBackend::LocalBackend(LocalOptions options)
    : options_(std::move(options)),
      workers_(options_.vms_folder, options_.worker_socket),
      images_(std::make_unique<BaseImages>(options_.images_folder, ReadHostPackages(),
                                           [this] { WakeAll(); })),
      hub_(std::make_unique<WorkerHub>([this](const std::string& uid) { WakeUid(uid); })) {}

LocalBackend::~LocalBackend() {
  hub_.reset();
  images_.reset();
  orphans_ = {};
}

Status LocalBackend::Admit(const hardware::AcceleratorType& type) const {
  if (type.hosts == 1) return {};
  return InvalidArgument(
      "Cloud TPU received a bad request. The accelerator type \"{}\" is a slice of {} hosts, and "
      "this service has one machine: choose a type of one host, such as \"v2-8\", \"v4-8\", "
      "\"v5litepod-8\" or \"v6e-8\", or run the service with --backend=fake.",
      type.name, type.hosts);
}

void LocalBackend::WakeUid(const std::string& uid) {
  std::string name;
  {
    const MutexLock lock(mutex_);
    const auto found = names_.find(uid);
    if (found == names_.end()) return;
    name = found->second;
  }
  Wake(name);
}

void LocalBackend::WakeAll() {
  std::map<std::string, std::string> names;
  {
    const MutexLock lock(mutex_);
    names = names_;
  }
  for (const auto& [uid, name] : names) Wake(name);
}

model::Observation LocalBackend::Converge(const model::NodeRecord& node,
                                          const model::ProjectRecord& project) {
  {
    const MutexLock lock(mutex_);
    names_[node.uid()] = node.name();
  }
  const model::Desired desired = model::DesiredOf(node.state());
  std::string image_root;
  if (desired == model::Desired::kRun) {
    image_root = images_->RootOf(node.image());
    // A VM that runs needs no image to be there; one that is to start does.
    const ImageJob::State image = AllRun(node) ? ImageJob::State() : images_->Ask(node.image());
    if (!image.error.ok())
      return {.phase = Phase::kFailed,
              .error = image.error,
              .permanent = IsPermanent(image.error.code())};
    if (!image.detail.empty()) return {.phase = Phase::kWorking, .detail = image.detail};
  }
  std::vector<worker::Observed> vms;
  for (int i = 0; i < node.hosts_size(); ++i) {
    worker::WorkerOrder order = OrderFor(node, project, i);
    if (order.has_vm()) {
      order.mutable_vm()->set_image_root(image_root);
      order.mutable_vm()->set_libtpu_path(options_.libtpu);
      order.mutable_vm()->set_engine_path(options_.engine);
    }
    vms.push_back(StepVm({node.uid(), i}, order));
  }
  model::Observation seen = Together(vms, node.generation() + project.generation());
  seen.generation = NodeGenerationAt(seen.generation, node, project);
  if (seen.phase == Phase::kDeleted) {
    const MutexLock lock(mutex_);
    names_.erase(node.uid());
  }
  return seen;
}

bool LocalBackend::AllRun(const model::NodeRecord& node) const {
  for (int i = 0; i < node.hosts_size(); ++i) {
    const auto seen = hub_->Seen({node.uid(), i});
    if (!seen || seen->phase() != worker::RUNNING) return false;
  }
  return true;
}

worker::Observed LocalBackend::StepVm(const VmKey& key, const worker::WorkerOrder& order) {
  hub_->Order(key, order);
  const bool connected = hub_->Connected(key);
  if (connected) {
    const MutexLock lock(mutex_);
    silent_since_.erase(key);
  }
  if (const auto seen = hub_->Seen(key)) {
    if (seen->phase() == worker::DELETED) hub_->Forget(key);
    return *seen;
  }
  worker::Observed unknown;  // PHASE_UNSPECIFIED: no news yet
  if (connected) return unknown;
  if (workers_.Find(key.node_uid, key.index)) return AwaitWorker(key);
  // No worker lives. Where nothing is left of the VM either, there is nothing to take down.
  const std::string folder = fmt::format("{}/{}/{}", options_.vms_folder, key.node_uid, key.index);
  const bool nothing_left = !std::filesystem::exists(folder);
  worker::Observed settled;
  settled.set_generation(order.generation());
  if (order.desired() == worker::DELETE && nothing_left) {
    hub_->Forget(key);
    workers_.RemoveEmptyFolder(key.node_uid);
    settled.set_phase(worker::DELETED);
    return settled;
  }
  if (order.desired() == worker::STOP && nothing_left) {
    settled.set_phase(worker::STOPPED);
    return settled;
  }
  if (const Status started = workers_.Start(key.node_uid, key.index); !started.ok()) {
    settled.set_phase(worker::FAILED);
    settled.set_error_code(static_cast<int>(started.code()));
    settled.set_error(started.message());
    return settled;
  }
  return unknown;
}

worker::Observed LocalBackend::AwaitWorker(const VmKey& key) {
  worker::Observed seen;
  const auto now = std::chrono::steady_clock::now();
  {
    const MutexLock lock(mutex_);
    const auto since = silent_since_.try_emplace(key, now).first;
    if (now - since->second < kSilence) return seen;
    silent_since_.erase(since);
  }
  spdlog::warn(
      "worker {} of node {} lives but has not dialled for {} s: it is ended, and another adopts "
      "its VM",
      key.index, key.node_uid, kSilence.count());
  if (workers_.End(key.node_uid, key.index, kEndTime)) return seen;
  seen.set_phase(worker::FAILED);
  seen.set_error_code(static_cast<int>(Code::kUnavailable));
  seen.set_error(
      "The VM's worker hangs and cannot be ended, most likely because a disk does not answer. The "
      "VM itself is left as it is; the worker is ended again every while.");
  return seen;
}

void LocalBackend::RemoveOrphans(std::set<std::string> known) {
  orphans_ = std::jthread([this, known = std::move(known)](const std::stop_token& stop) {
    for (const auto& [uid, index] : workers_.List()) {
      if (stop.stop_requested()) return;
      if (known.contains(uid)) continue;
      spdlog::info("removing what is left of worker {} of the unknown node {}", index, uid);
      if (const Status status = workers_.RemoveLeftovers(uid, index, stop); !status.ok())
        spdlog::error("worker {} of {}: {}", index, uid, status.ToString());
    }
    std::error_code error;
    for (const auto& node : std::filesystem::directory_iterator(options_.vms_folder, error))
      workers_.RemoveEmptyFolder(node.path().filename().string());
  });
}

}  // namespace torus::backend
