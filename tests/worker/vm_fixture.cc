#include "vm_fixture.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "base/file.h"
#include "service/backend/local/image_store.h"

namespace torus::worker {

namespace fs = std::filesystem;
using std::chrono::seconds;

std::string VmTest::image_root_;

// Far from those that a service on this machine gives out, as the addresses are.
constexpr uint32_t kUidBase = 3'000'000'000;

void VmTest::SetUpTestSuite() {
  if (geteuid() != 0) return;
  const char* images = std::getenv("TORUS_TEST_IMAGES");
  backend::ImageStore store(images ? images : TEST_DATA "/images");
  const auto root = store.Ensure(backend::TpuVmRecipe(backend::ReadHostPackages()),
                                 [](const std::string& line) { std::puts(line.c_str()); });
  ASSERT_TRUE(root) << root.error().ToString();
  image_root_ = *root;
}

void VmTest::SetUp() {
  if (geteuid() != 0) GTEST_SKIP() << "a TPU VM needs root: run this test as root";
  char name[] = "/tmp/torus-vm-test-XXXXXX";
  folder_ = mkdtemp(name);
  uid_ = "test-" + folder_.substr(folder_.size() - 6);
  key_ = MakeKey("ann");
  // Any file will do for libtpu.so and its engine here.
  ASSERT_TRUE(WriteFile(folder_ + "/libtpu.so", "libtpu").ok());
  ASSERT_TRUE(WriteFile(folder_ + "/engine.so", "engine").ok());
  service_ = std::make_unique<FakeService>(folder_ + "/socket");
  service_->Start();
  workers_ = std::make_unique<backend::WorkerProcess>(folder_ + "/vms", folder_ + "/socket");
  paths_ = std::make_unique<VmPaths>(folder_ + "/vms/" + uid_ + "/0", uid_, 0);
}

void VmTest::TearDown() {
  if (!workers_) return;
  if (HasFailure()) {
    const auto log = ReadFile(paths_->log() + "/worker.log");
    std::printf("--- worker.log\n%s\n", log ? log->c_str() : "none");
  }
  std::set<int> indices = {0, 1};
  for (const auto& [uid, index] : workers_->List()) indices.insert(index);
  for (const int index : indices) {
    const Status removed = workers_->RemoveLeftovers(uid_, index);
    EXPECT_TRUE(removed.ok()) << removed.ToString();
  }
  service_->Stop();
  EXPECT_TRUE(RemoveTree(folder_).ok());
}

VmSpec VmTest::Spec(int n) const {
  VmSpec vm;
  vm.set_project("my-project");
  vm.set_project_number(123456789);
  vm.set_zone("us-central1-a");
  vm.set_node_id("my-first-tpu");
  vm.set_node_uid(uid_);
  vm.set_instance_id(4242);
  vm.set_worker_index(n);
  vm.set_host_name("t1v-n-test-w-" + std::to_string(n));
  vm.set_accelerator_type("v2-8");
  vm.set_runtime_version("tpu-vm-base");
  vm.set_address(Address(n));
  vm.add_worker_addresses(Address(n));
  vm.set_service_account_email("test@my-project.iam.gserviceaccount.com");
  vm.set_image_root(image_root_);
  vm.set_libtpu_path(folder_ + "/libtpu.so");
  vm.set_engine_path(folder_ + "/engine.so");
  vm.set_uid_base(kUidBase + 65536 * static_cast<uint32_t>(n));
  (*vm.mutable_metadata())["ssh-keys"] = "ann:" + PublicKey(key_);
  return vm;
}

void VmTest::Order(Desired desired, const VmSpec& vm) {
  WorkerOrder order;
  order.set_generation(++generation_);
  order.set_desired(desired);
  if (desired == RUN) *order.mutable_vm() = vm;
  service_->Order(order);
}

void VmTest::RunVm(const VmSpec& vm) {
  Order(RUN, vm);
  // Again and again, as the service does: a start that is slow may fail, or its worker end, only
  // after Start has returned.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  Status started;
  do {
    started = workers_->Start(uid_, vm.worker_index());
    if (service_->Await(RUNNING, generation_, std::chrono::seconds(1))) return;
  } while (std::chrono::steady_clock::now() < deadline);
  FAIL() << started.ToString() << "; " << service_->last_report();
}

void VmTest::KillWorker() {
  const auto worker = workers_->Find(uid_, 0);
  ASSERT_TRUE(worker);
  kill(static_cast<pid_t>(worker->pid), SIGKILL);
  while (IsAlive(*worker)) std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

SubprocessResult VmTest::Ssh(const std::string& user, const std::string& command,
                             const std::string& key, const std::string& address) const {
  const auto result = RunSubprocess(
      {"ssh", "-i", key.empty() ? key_ : key, "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes",
       "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o",
       "LogLevel=ERROR", "-o", "ConnectTimeout=5", "-F", "none", user + "@" + address, command},
      {.timeout = seconds(120)});
  if (!result) return {.exit_code = -1, .output = result.error().ToString()};
  SubprocessResult trimmed = *result;
  while (trimmed.output.ends_with('\n')) trimmed.output.pop_back();
  return trimmed;
}

std::string VmTest::MakeKey(const std::string& name) const {
  const std::string path = folder_ + "/" + name;
  EXPECT_TRUE(RunChecked({"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path}));
  return path;
}

std::string VmTest::PublicKey(const std::string& path) {
  const auto text = ReadFile(path + ".pub");
  return text ? text->substr(0, text->find('\n')) : "";
}

std::vector<std::string> VmTest::Remains(const VmPaths& paths) const {
  std::vector<std::string> found;
  const auto look = [&](const std::string& what, const std::string& text) {
    if (text.find(paths.tag) != std::string::npos) found.push_back(what + " has " + paths.tag);
  };
  std::error_code error;
  if (fs::exists(paths.dir, error)) found.push_back(paths.dir);
  if (fs::exists(fs::path(paths.dir).parent_path(), error)) found.push_back("its parent");
  for (const char* command : {"ip addr", "nft list tables", "find /sys/fs/cgroup -name torus-*",
                              "cat /proc/mounts", "ls /run/runc"}) {
    const auto result = RunSubprocess({"sh", "-c", std::string("set -f; ") + command});
    if (result) look(command, result->output);
  }
  const auto loops = RunSubprocess({"sh", "-c", "cat /sys/block/loop*/loop/backing_file"});
  if (loops && loops->output.find(paths.dir + "/") != std::string::npos)
    found.push_back("a loop device");
  const auto routes = RunSubprocess({"ip", "route"});
  if (routes && routes->output.find(Address(0) + " ") != std::string::npos)
    found.push_back("a route to " + Address(0));
  // Processes by their uid: the VM's range begins at uid_base.
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    std::ifstream status(entry.path() / "status");
    for (std::string line; std::getline(status, line);) {
      // A dead process that the host's init has yet to reap is gone.
      if (line.starts_with("State:\tZ")) break;
      if (!line.starts_with("Uid:")) continue;
      const long uid = std::strtol(line.c_str() + 4, nullptr, 10);
      if (uid >= kUidBase && uid < kUidBase + 65536 * 16)
        found.push_back("process " + entry.path().string());
    }
  }
  return found;
}

}  // namespace torus::worker
