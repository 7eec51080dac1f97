// One VM of the test's own: a fake service, a worker process, a key to log in with; and eyes for
// what a VM leaves on the host.
#ifndef TORUS_TESTS_WORKER_VM_FIXTURE_H_
#define TORUS_TESTS_WORKER_VM_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/subprocess.h"
#include "fake_service.h"
#include "service/backend/local/worker_process.h"
#include "worker/vm_paths.h"

namespace torus::worker {

class VmTest : public testing::Test {
 protected:
  static void SetUpTestSuite();  // the base image
  void SetUp() override;
  void TearDown() override;

  // A spec of VM number `n` of this test, with the test's key for user ann.
  VmSpec Spec(int n = 0) const;
  static std::string Address(int n) { return "10.128.200." + std::to_string(10 + n); }

  void Order(Desired desired, const VmSpec& vm = {});  // with the next generation
  // Orders RUN and waits until the VM runs.
  void RunVm(const VmSpec& vm);
  void KillWorker();

  // Runs a command in the VM by ssh.
  SubprocessResult Ssh(const std::string& user, const std::string& command,
                       const std::string& key = "", const std::string& address = Address(0)) const;
  std::string MakeKey(const std::string& name) const;  // its path
  static std::string PublicKey(const std::string& path);

  // What is there of this VM in the kernel and on disk, one line a thing; empty: nothing.
  std::vector<std::string> Remains(const VmPaths& paths) const;

  static std::string image_root_;
  std::string folder_;
  std::string uid_;
  std::string key_;
  std::unique_ptr<FakeService> service_;
  std::unique_ptr<backend::WorkerProcess> workers_;
  std::unique_ptr<VmPaths> paths_;
  int64_t generation_ = 0;
};

}  // namespace torus::worker

#endif  // TORUS_TESTS_WORKER_VM_FIXTURE_H_
