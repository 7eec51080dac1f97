// A TPU VM's life, from create to delete, on this machine.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "base/file.h"
#include "vm_fixture.h"
#include "worker/network.h"
#include "worker/worker_main.h"

namespace torus::worker {
namespace {

using std::chrono::duration;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

ProcessIdentity InitOf(const VmPaths& paths) {
  const auto text = ReadFile(paths.sandbox_file());
  const auto json = nlohmann::json::parse(text ? *text : "{}");
  return {json.value("pid", int64_t{0}), json.value("start_ticks", uint64_t{0})};
}

// A server of the host's own on every address that it has.
class HostListener {
 public:
  HostListener() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    listen(fd_, 16);
    sockaddr_in name{};
    socklen_t size = sizeof(name);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&name), &size);
    port_ = ntohs(name.sin_port);
  }
  ~HostListener() { close(fd_); }
  int port() const { return port_; }
  bool Reachable(const std::string& address) const {
    const auto result = RunSubprocess(
        {"timeout", "2", "bash", "-c", fmt::format("exec 3<>/dev/tcp/{}/{}", address, port_)});
    return result && result->exit_code == 0;
  }

 private:
  const int fd_;
  int port_ = 0;
};

// The host's IPv4 addresses but loopback; the gateway of the VMs is among them.
std::vector<std::string> HostAddresses() {
  std::vector<std::string> addresses;
  const auto list = RunSubprocess({"ip", "-4", "-o", "addr"});
  std::istringstream lines(list ? list->output : "");
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string number, link, family, address;
    words >> number >> link >> family >> address;
    if (link != "lo") addresses.push_back(address.substr(0, address.find('/')));
  }
  return addresses;
}

TEST_F(VmTest, LivesFromCreateToDelete) {
  const auto begin = Clock::now();
  ASSERT_NO_FATAL_FAILURE(RunVm(Spec()));
  std::printf("create to sshd answering: %.3f s\n", duration<double>(Clock::now() - begin).count());

  EXPECT_EQ(Ssh("ann", "whoami").output, "ann");
  EXPECT_EQ(Ssh("ann", "sudo whoami").output, "root");
  EXPECT_EQ(Ssh("ann", "hostname").output, "t1v-n-test-w-0");
  EXPECT_EQ(Ssh("bob", "whoami").exit_code, 255);

  // New keys and users are in effect when the generation is reported; old ones are not.
  VmSpec vm = Spec();
  const std::string bobs = MakeKey("bob");
  (*vm.mutable_metadata())["ssh-keys"] = "bob:" + PublicKey(bobs);
  const auto update = Clock::now();
  Order(RUN, vm);
  ASSERT_TRUE(service_->Await(RUNNING, generation_));
  std::printf("new key in effect: %.3f s\n", duration<double>(Clock::now() - update).count());
  EXPECT_EQ(Ssh("bob", "sudo whoami", bobs).output, "root");
  EXPECT_EQ(Ssh("ann", "whoami").exit_code, 255);

  // The disk outlives stop and start; the host keys do too.
  ASSERT_EQ(Ssh("bob", "echo kept > ~/file; sudo touch /opt/mine", bobs).exit_code, 0);
  const auto before = service_->Await(RUNNING, generation_);
  Order(STOP);
  ASSERT_TRUE(service_->Await(STOPPED, generation_));
  EXPECT_THAT(Remains(*paths_), testing::ElementsAre(paths_->dir, "its parent"));
  Order(RUN, vm);
  const auto after = service_->Await(RUNNING, generation_);
  ASSERT_TRUE(before && after);
  EXPECT_EQ(Ssh("bob", "cat ~/file; ls /opt/mine", bobs).output, "kept\n/opt/mine");
  ASSERT_EQ(after->guest_attributes_size(), 2);
  EXPECT_EQ(after->guest_attributes(0).value(), before->guest_attributes(0).value());

  const auto worker = workers_->Find(uid_, 0);
  Order(DELETE);
  ASSERT_TRUE(service_->Await(DELETED, generation_));
  for (int i = 0; i < 500 && worker && IsAlive(*worker); ++i)
    std::this_thread::sleep_for(milliseconds(10));
  EXPECT_FALSE(worker && IsAlive(*worker));
  EXPECT_THAT(Remains(*paths_), IsEmpty());
}

TEST_F(VmTest, AWorkerThatWasKilledIsFollowedByOneThatAdopts) {
  ASSERT_NO_FATAL_FAILURE(RunVm(Spec()));
  const ProcessIdentity init = InitOf(*paths_);
  ASSERT_TRUE(IsAlive(init));
  ASSERT_NO_FATAL_FAILURE(KillWorker());
  EXPECT_TRUE(IsAlive(init)) << "the VM lives without its worker";
  EXPECT_EQ(Ssh("ann", "whoami").output, "ann");
  ASSERT_NO_FATAL_FAILURE(RunVm(Spec()));
  EXPECT_EQ(InitOf(*paths_), init) << "adopted, not started again";
  EXPECT_EQ(Ssh("ann",
                "curl -sf -H 'Metadata-Flavor: Google' "
                "http://metadata.google.internal/computeMetadata/v1/project/project-id")
                .output,
            "my-project");
}

TEST_F(VmTest, AFollowingWorkerStopsAndDeletesWithoutASpec) {
  for (const bool stop_first : {true, false}) {
    ASSERT_NO_FATAL_FAILURE(RunVm(Spec()));
    if (stop_first) {
      ASSERT_NO_FATAL_FAILURE(KillWorker());
      Order(STOP);
      ASSERT_TRUE(workers_->Start(uid_, 0).ok());
      ASSERT_TRUE(service_->Await(STOPPED, generation_));
      EXPECT_THAT(Remains(*paths_), testing::ElementsAre(paths_->dir, "its parent"));
    }
    ASSERT_NO_FATAL_FAILURE(KillWorker());
    Order(DELETE);
    ASSERT_TRUE(workers_->Start(uid_, 0).ok());
    ASSERT_TRUE(service_->Await(DELETED, generation_));
    EXPECT_THAT(Remains(*paths_), IsEmpty());
    while (workers_->Find(uid_, 0)) std::this_thread::sleep_for(milliseconds(2));
  }
}

TEST_F(VmTest, TheServiceMayGoAndComeBack) {
  ASSERT_NO_FATAL_FAILURE(RunVm(Spec()));
  const ProcessIdentity init = InitOf(*paths_);
  service_->Stop();
  EXPECT_EQ(Ssh("ann", "whoami").output, "ann");
  service_->Start();
  Order(RUN, Spec());
  EXPECT_TRUE(service_->Await(RUNNING, generation_));
  EXPECT_EQ(InitOf(*paths_), init);
  EXPECT_GE(service_->hellos(), 2);
}

TEST_F(VmTest, AWorkerIsFollowedTheMomentItIsKilled) {
  ASSERT_NO_FATAL_FAILURE(RunVm(Spec()));
  const ProcessIdentity init = InitOf(*paths_);
  for (int i = 0; i < 20; ++i) {
    ASSERT_NO_FATAL_FAILURE(KillWorker());
    ASSERT_NO_FATAL_FAILURE(RunVm(Spec())) << i;
  }
  EXPECT_EQ(InitOf(*paths_), init);
  ASSERT_TRUE(workers_->RemoveLeftovers(uid_, 0).ok());
  EXPECT_THAT(Remains(*paths_), IsEmpty());
}

TEST_F(VmTest, ASandboxThatDiesIsStartedAgain) {
  ASSERT_NO_FATAL_FAILURE(RunVm(Spec()));
  const ProcessIdentity init = InitOf(*paths_);
  kill(static_cast<pid_t>(init.pid), SIGKILL);
  ASSERT_TRUE(service_->Await([](const Observed& o) { return o.phase() != RUNNING; }));
  ASSERT_TRUE(service_->Await(RUNNING, generation_));
  EXPECT_EQ(Ssh("ann", "whoami").output, "ann");
}

TEST_F(VmTest, NoFileOfTheUsersShutsEverybodyOut) {
  ASSERT_NO_FATAL_FAILURE(RunVm(Spec()));
  const ProcessIdentity init = InitOf(*paths_);
  // Broken, and then one that is well formed and locks out.
  for (const char* text : {"Nonsense yes", "DenyUsers *", "Port 2222"}) {
    SCOPED_TRACE(text);
    ASSERT_EQ(Ssh("ann", fmt::format("echo {} | sudo tee /etc/ssh/sshd_config.d/00.conf; "
                                     "sudo rm -rf /run/sshd /var/log/auth.log; "
                                     "sudo mkdir -p /var/log/auth.log; "
                                     "sudo kill -9 $(cat /run/torus-sshd.pid)",
                                     text))
                  .exit_code,
              0);
    SubprocessResult result;
    for (int i = 0; i < 50 && result.output != "ann"; ++i) {
      std::this_thread::sleep_for(milliseconds(200));
      result = Ssh("ann", "whoami");
    }
    EXPECT_EQ(result.output, "ann");
  }
  EXPECT_EQ(InitOf(*paths_), init);
  EXPECT_THAT(Ssh("ann", "echo pwd | sftp -D /usr/lib/openssh/sftp-server").output,
              HasSubstr("/home/ann"));
  Order(STOP);
  ASSERT_TRUE(service_->Await(STOPPED, generation_));
  ASSERT_NO_FATAL_FAILURE(RunVm(Spec()));
  EXPECT_EQ(Ssh("ann", "whoami").output, "ann");
}

TEST_F(VmTest, AnSshdThatHangsIsReplacedAndTheJobLivesOn) {
  ASSERT_NO_FATAL_FAILURE(RunVm(Spec()));
  const ProcessIdentity init = InitOf(*paths_);
  ASSERT_EQ(Ssh("ann",
                "setsid sleep 5000 </dev/null >/dev/null 2>&1 & "
                "sudo kill -STOP $(cat /run/torus-sshd.pid)")
                .exit_code,
            0);
  const auto told = service_->Await([](const Observed& o) { return o.phase() == PREPARING; });
  ASSERT_TRUE(told);
  EXPECT_THAT(told->detail(), HasSubstr("sshd"));
  ASSERT_TRUE(service_->Await(RUNNING, generation_));
  EXPECT_EQ(InitOf(*paths_), init);
  EXPECT_EQ(Ssh("ann", "pgrep -c sleep").output, "1");
}

TEST_F(VmTest, AnSshdThatCannotComeBackIsToldAndTheJobLivesOn) {
  ASSERT_NO_FATAL_FAILURE(RunVm(Spec()));
  const ProcessIdentity init = InitOf(*paths_);
  // The user's job: it takes sshd away, waits, and puts it back.
  ASSERT_EQ(Ssh("ann",
                "sudo setsid sh -c 'mv /usr/sbin/sshd /usr/sbin/away; "
                "kill -9 $(cat /run/torus-sshd.pid); sleep 60; mv /usr/sbin/away /usr/sbin/sshd; "
                "sleep 5000' </dev/null >/dev/null 2>&1 &")
                .exit_code,
            0);
  const auto failed = service_->Await([](const Observed& o) { return o.phase() == FAILED; });
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->error_code(), static_cast<int>(Code::kUnavailable));
  for (const char* text : {"sshd", "/usr/sbin/sshd is missing", "runs on", "/var/log/auth.log",
                           "stop the node and start it"})
    EXPECT_THAT(failed->error(), HasSubstr(text));
  ASSERT_TRUE(service_->Await(RUNNING, generation_));
  EXPECT_EQ(InitOf(*paths_), init);
  EXPECT_EQ(Ssh("ann", "pgrep -c sleep").output, "1");
}

TEST_F(VmTest, KeysThatDoNotCountAreTold) {
  VmSpec vm = Spec();
  (*vm.mutable_metadata())["ssh-keys"] +=
      "\nbob:no key\neve:ssh-rsa AAAA google-ssh "
      "{\"userName\":\"eve\",\"expireOn\":\"2020-01-01T00:00:00+0000\"}";
  ASSERT_NO_FATAL_FAILURE(RunVm(vm));
  const auto running = service_->Await(RUNNING, generation_);
  ASSERT_TRUE(running);
  EXPECT_THAT(running->detail(), HasSubstr("line 2: not a public key"));
  EXPECT_THAT(running->detail(), HasSubstr("line 3: expired"));
  Order(RUN, Spec());
  const auto clean = service_->Await(RUNNING, generation_);
  ASSERT_TRUE(clean);
  EXPECT_EQ(clean->detail(), "");
}

TEST_F(VmTest, ACommandInsideThatHangsHoldsUpNoDelete) {
  ASSERT_NO_FATAL_FAILURE(RunVm(Spec()));
  // A program of the VM's owner in the way of the one that makes users.
  ASSERT_EQ(Ssh("ann",
                "printf '#!/bin/sh\nsleep 1000\n' | sudo tee /usr/local/sbin/useradd >/dev/null; "
                "sudo chmod 755 /usr/local/sbin/useradd")
                .exit_code,
            0);
  VmSpec vm = Spec();
  (*vm.mutable_metadata())["ssh-keys"] += "\nbob:" + PublicKey(key_);
  Order(RUN, vm);
  ASSERT_TRUE(service_->Await(RUNNING, generation_)) << "a user's useradd is no failure of ours";
  EXPECT_EQ(Ssh("ann", "pgrep -c sleep").output, "0") << "what hung is gone";
  Order(DELETE);
  ASSERT_TRUE(service_->Await(DELETED, generation_));
  EXPECT_THAT(Remains(*paths_), IsEmpty());
}

TEST_F(VmTest, KilledAtEveryStepItEndsWellAllTheSame) {
  for (const char* point : {"worker.lock",        "worker.pin",           "worker.host_key",
                            "worker.guest_files", "worker.files",         "worker.user_namespace",
                            "worker.disk_made",   "worker.disk_attached", "worker.disk_mounted",
                            "worker.mount_lower", "worker.mount_root",    "worker.config",
                            "worker.create",      "worker.rules",         "worker.link",
                            "worker.vm_network",  "worker.metadata",      "worker.plumbed",
                            "worker.start",       "worker.started"}) {
    SCOPED_TRACE(point);
    setenv("TORUS_FAULT", point, 1);
    Order(RUN, Spec());
    // It may die before it has told that it started.
    (void)workers_->Start(uid_, 0);
    unsetenv("TORUS_FAULT");
    for (int i = 0; i < 1000; ++i) {
      std::this_thread::sleep_for(milliseconds(10));
      if (i > 5 && !workers_->Find(uid_, 0)) break;
    }
    ASSERT_FALSE(workers_->Find(uid_, 0)) << "the point was not reached";
    ASSERT_NO_FATAL_FAILURE(RunVm(Spec()));
    EXPECT_EQ(Ssh("ann", "whoami").output, "ann");
    Order(DELETE);
    ASSERT_TRUE(service_->Await(DELETED, generation_));
    EXPECT_THAT(Remains(*paths_), IsEmpty());
  }
}

TEST_F(VmTest, KilledWhileItIsDeletedNothingIsLeft) {
  for (const char* point :
       {"worker.killed", "worker.deleted", "worker.cgroups", "worker.unlink", "worker.unplumbed",
        "worker.down", "worker.remove", "worker.disk_removed", "worker.folder_removed"}) {
    SCOPED_TRACE(point);
    ASSERT_NO_FATAL_FAILURE(RunVm(Spec()));
    ASSERT_NO_FATAL_FAILURE(KillWorker());
    setenv("TORUS_FAULT", point, 1);
    Order(DELETE);
    // It may die before it has told that it started.
    (void)workers_->Start(uid_, 0);
    unsetenv("TORUS_FAULT");
    for (int i = 0; i < 1000; ++i) {
      std::this_thread::sleep_for(milliseconds(10));
      if (i > 5 && !workers_->Find(uid_, 0)) break;
    }
    ASSERT_TRUE(workers_->RemoveLeftovers(uid_, 0).ok());
    EXPECT_THAT(Remains(*paths_), IsEmpty());
  }
}

TEST_F(VmTest, FindsItsTpuHoweverAProgramIsStarted) {
  VmSpec vm = Spec();
  (*vm.mutable_metadata())["startup-script"] = "#! /bin/bash\nenv; echo from the start";
  ASSERT_NO_FATAL_FAILURE(RunVm(vm));
  const std::string path = "TPU_LIBRARY_PATH=/opt/torus/libtpu.so";
  for (const char* command : {"env", "bash -lc env", "sudo env", "sudo -i env", "bash -ic env"})
    EXPECT_THAT(Ssh("ann", command).output, HasSubstr(path)) << command;
  EXPECT_EQ(Ssh("ann", "cat $TPU_LIBRARY_PATH /usr/lib/libtpu.so $TORUS_ENGINE").output,
            "libtpulibtpuengine");
  EXPECT_THAT(Ssh("ann", "echo $PATH").output, HasSubstr("/home/ann/.local/bin"));
  EXPECT_THAT(Ssh("ann", "cat /run/torus/slice").output, HasSubstr("ACCELERATOR_TYPE: 'v2-8'"));
  const auto log = Ssh("ann", "sleep 1; cat /var/log/startup-script.log").output;
  EXPECT_THAT(log, HasSubstr(path));
  EXPECT_THAT(log, HasSubstr("from the start"));
  EXPECT_THAT(log, HasSubstr("ends with exit status 0"));
}

TEST_F(VmTest, ServesMetadata) {
  ASSERT_NO_FATAL_FAILURE(RunVm(Spec()));
  const auto get = [&](const std::string& path) {
    return Ssh("ann", "curl -s -H 'Metadata-Flavor: Google' http://169.254.169.254" + path).output;
  };
  EXPECT_EQ(get("/computeMetadata/v1/instance/attributes/accelerator-type"), "v2-8");
  EXPECT_THAT(get("/computeMetadata/v1/instance/attributes/tpu-env"), HasSubstr("v2-8"));
  EXPECT_THAT(get("/computeMetadata/v1/instance/service-accounts/default/token"),
              HasSubstr("access_token"));
  EXPECT_EQ(Ssh("ann",
                "curl -s -o /dev/null -w '%{http_code}' "
                "http://metadata.google.internal/computeMetadata/v1/instance/id")
                .output,
            "403");
  // Port 80 is the user's own.
  EXPECT_EQ(Ssh("ann", "sudo timeout 1 python3 -m http.server 80 >/dev/null 2>&1; echo $?").output,
            "124");
}

TEST_F(VmTest, WhatTheVmWritesOfItselfIsReported) {
  ASSERT_NO_FATAL_FAILURE(RunVm(Spec()));
  const auto curl = [&](const std::string& rest) {
    return Ssh("ann",
               "curl -sf -H 'Metadata-Flavor: Google' http://169.254.169.254/computeMetadata/v1/"
               "instance/guest-attributes/" +
                   rest)
        .exit_code;
  };
  const auto value = [](const Observed& observed, const std::string& space,
                        const std::string& key) {
    for (const GuestAttribute& attribute : observed.guest_attributes())
      if (attribute.namespace_() == space && attribute.key() == key) return attribute.value();
    return std::string();
  };
  const auto before = service_->Await(RUNNING, generation_);
  ASSERT_TRUE(before);
  const std::string key = value(*before, "hostkeys", "ssh-ed25519");
  EXPECT_NE(key, "");
  ASSERT_EQ(curl("mine/state -X PUT -d ready"), 0);
  EXPECT_TRUE(service_->Await([&](const Observed& o) {
    return o.phase() == RUNNING && o.generation() == generation_ &&
           value(o, "mine", "state") == "ready";
  }));
  // Nobody in the VM speaks for its sshd.
  ASSERT_EQ(curl("hostkeys/ssh-ed25519 -X PUT -d forged"), 0);
  ASSERT_EQ(curl("mine/more -X PUT -d 1"), 0);
  const auto more =
      service_->Await([&](const Observed& o) { return value(o, "mine", "more") == "1"; });
  ASSERT_TRUE(more);
  EXPECT_EQ(value(*more, "hostkeys", "ssh-ed25519"), key);
  ASSERT_EQ(curl("mine/state -X DELETE"), 0);
  EXPECT_TRUE(
      service_->Await([&](const Observed& o) { return value(o, "mine", "state").empty(); }));
  // They outlive the worker; what is no text would break its stream, and is refused.
  EXPECT_NE(curl("mine/bad -X PUT --data-binary $'\\xff\\xfe'"), 0);
  ASSERT_NO_FATAL_FAILURE(KillWorker());
  Order(RUN, Spec());
  ASSERT_TRUE(workers_->Start(uid_, 0).ok());
  const auto after = service_->Await(RUNNING, generation_);
  ASSERT_TRUE(after);
  EXPECT_EQ(value(*after, "mine", "more"), "1");
}

TEST_F(VmTest, PipInstallsAsTheTutorialsTypeIt) {
  ASSERT_NO_FATAL_FAILURE(RunVm(Spec()));
  if (Ssh("ann", "curl -sf -o /dev/null https://pypi.org/simple/six/").exit_code != 0)
    GTEST_SKIP() << "the package index cannot be reached from here";
  const auto pip = Ssh("ann",
                       "pip install --upgrade pip && pip install six && "
                       "python3 -c 'import six; print(six.__name__)'");
  EXPECT_THAT(pip.output, HasSubstr("\nsix"));
  EXPECT_EQ(Ssh("ann",
                "sudo apt-get update >/dev/null && sudo apt-get install -y tree >/dev/null "
                "2>&1; tree --version | head -c 4")
                .output,
            "tree");
}

TEST_F(VmTest, OurTpuWinsOverTheOneThatJaxBrings) {
  const char* libtpu = std::getenv("TORUS_TEST_LIBTPU");
  const char* engine = std::getenv("TORUS_TEST_ENGINE");
  if (libtpu == nullptr || engine == nullptr)
    GTEST_SKIP() << "set TORUS_TEST_LIBTPU and TORUS_TEST_ENGINE to the built files";
  VmSpec vm = Spec();
  vm.set_libtpu_path(libtpu);
  vm.set_engine_path(engine);
  ASSERT_NO_FATAL_FAILURE(RunVm(vm));
  const auto pip = Ssh("ann", "pip install --upgrade pip && pip install 'jax[tpu]'");
  if (pip.output.find("No matching distribution") != std::string::npos)
    GTEST_SKIP() << "the package index cannot be reached from here";
  ASSERT_EQ(pip.exit_code, 0) << pip.output;
  const auto jax = Ssh("ann",
                       "python3 -c 'import jax, jax.numpy as jnp, libtpu\n"
                       "print(len(jax.devices()), jax.devices()[0].device_kind)\n"
                       "print(float(jnp.ones((64, 64)).dot(jnp.ones((64, 64))).sum()))'");
  EXPECT_THAT(jax.output, HasSubstr("8 TPU v2")) << jax.output;
  EXPECT_THAT(jax.output, HasSubstr("262144.0")) << jax.output;
}

TEST_F(VmTest, AnAttackerInsideFindsNoWayOut) {
  ASSERT_NO_FATAL_FAILURE(RunVm(Spec()));
  const auto as_root = [&](const std::string& command) {
    return Ssh("ann", "sudo sh -c '" + command + "' 2>&1; echo $?").output;
  };
  // Root inside is nobody outside.
  EXPECT_THAT(Ssh("ann", "cat /proc/self/uid_map").output, HasSubstr("3000000000"));
  for (const char* command :
       {"mount -t tmpfs none /mnt", "unshare -Ur true", "unshare -m true",
        "chroot /proc/1/root/.. "
        "ls /work",
        "mknod /tmp/disk b 8 0", "echo 1 >/proc/sys/kernel/sysrq", "echo b >/proc/sysrq-trigger",
        "cat /proc/kcore", "dmesg", "ip link set eth0 down", "ip addr add 10.128.0.77/32 dev eth0",
        "nft list ruleset", "echo x >/run/torus/users", "mount -o remount,rw /run/torus",
        "touch /opt/torus/x", "mkdir /sys/fs/cgroup/memory/x", "date -s 2000-01-01"})
    EXPECT_THAT(as_root(command), Not(testing::EndsWith("\n0"))) << command;
  EXPECT_EQ(Ssh("ann", "ls / | grep -c work").output, "0");
  EXPECT_THAT(Ssh("ann", "cat /proc/mounts").output, Not(HasSubstr(folder_)));
  EXPECT_THAT(Ssh("ann", "sudo ls /proc").output, Not(HasSubstr(std::to_string(getpid()))));

  // The network: not the host's addresses, not another VM's, not a real cloud's link-local ones.
  const auto reach = [&](const std::string& address, int port) {
    return Ssh("ann",
               fmt::format("timeout 2 bash -c 'exec 3<>/dev/tcp/{}/{}'; echo $?", address, port))
        .output;
  };
  HostListener listener;
  for (const std::string& address : HostAddresses()) {
    EXPECT_TRUE(listener.Reachable(address)) << address;
    EXPECT_NE(reach(address, listener.port()), "0") << address;
  }
  EXPECT_NE(reach("169.254.169.253", 80), "0");

  // Another VM beside it.
  VmSpec other = Spec(1);
  FakeService second(folder_ + "/socket1");
  second.Start();
  WorkerOrder order;
  order.set_generation(1);
  order.set_desired(RUN);
  *order.mutable_vm() = other;
  second.Order(order);
  const backend::WorkerProcess workers(folder_ + "/vms", folder_ + "/socket1");
  ASSERT_TRUE(workers.Start(uid_, 1).ok());
  ASSERT_TRUE(second.Await(RUNNING, 1));
  EXPECT_EQ(Ssh("ann", "whoami", "", Address(1)).output, "ann") << "the host reaches both";
  EXPECT_NE(reach(Address(1), 22), "0") << "they do not reach each other";
  ASSERT_TRUE(workers.RemoveLeftovers(uid_, 1).ok());
}

TEST_F(VmTest, ManyAtOnce) {
  constexpr int kMany = 8;
  std::vector<std::unique_ptr<FakeService>> services;
  std::vector<VmPaths> vms;
  const auto begin = Clock::now();
  for (int i = 0; i < kMany; ++i) {
    const std::string socket = fmt::format("{}/socket{}", folder_, i);
    services.push_back(std::make_unique<FakeService>(socket));
    services.back()->Start();
    WorkerOrder order;
    order.set_generation(1);
    order.set_desired(RUN);
    *order.mutable_vm() = Spec(i);
    services.back()->Order(order);
    ASSERT_TRUE(backend::WorkerProcess(folder_ + "/vms", socket).Start(uid_, i).ok());
    vms.emplace_back(fmt::format("{}/vms/{}/{}", folder_, uid_, i), uid_, i);
  }
  for (auto& service : services) ASSERT_TRUE(service->Await(RUNNING, 1));
  std::printf("%d VMs at once: %.3f s\n", kMany, duration<double>(Clock::now() - begin).count());
  for (int i = 0; i < kMany; ++i) EXPECT_EQ(Ssh("ann", "whoami", "", Address(i)).output, "ann");
  WorkerOrder order;
  order.set_generation(2);
  order.set_desired(DELETE);
  for (auto& service : services) service->Order(order);
  for (auto& service : services) ASSERT_TRUE(service->Await(DELETED, 2));
  for (const VmPaths& vm : vms) EXPECT_THAT(Remains(vm), IsEmpty());
}

TEST_F(VmTest, ABadOrderIsToldAndTheNextOneWorks) {
  VmSpec vm = Spec();
  vm.set_image_root("/nonexistent");
  Order(RUN, vm);
  ASSERT_TRUE(workers_->Start(uid_, 0).ok());
  const auto failed = service_->Await([](const Observed& o) { return o.phase() == FAILED; });
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->error_code(), 5);
  EXPECT_THAT(failed->error(), HasSubstr("/nonexistent"));
  ASSERT_NO_FATAL_FAILURE(RunVm(Spec()));
}

TEST_F(VmTest, AnAddressThatAnotherLinkHasIsNotTakenFromIt) {
  // As another service's VM has it.
  const std::string add = fmt::format(
      "ip link add tvother type veth peer name tvother1 && ip link set tvother up && "
      "ip link set tvother1 up && ip route add {}/32 dev tvother",
      Address(0));
  const auto added = RunChecked({"sh", "-c", add});
  EXPECT_TRUE(added) << added.error().ToString();
  Order(RUN, Spec());
  EXPECT_TRUE(workers_->Start(uid_, 0).ok());
  const auto failed = service_->Await([](const Observed& o) { return o.phase() == FAILED; });
  EXPECT_EQ(LinkOf(Address(0)), "tvother");
  EXPECT_TRUE(RunChecked({"ip", "link", "delete", "tvother"}));
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->error_code(), static_cast<int>(Code::kFailedPrecondition));
  EXPECT_THAT(failed->error(), HasSubstr(Address(0)));
  EXPECT_THAT(failed->error(), HasSubstr("tvother"));
  EXPECT_THAT(failed->error(), HasSubstr("Delete that VM"));
  ASSERT_TRUE(service_->Await(RUNNING, generation_)) << "tried again by itself";
  EXPECT_EQ(Ssh("ann", "whoami").output, "ann");
  EXPECT_EQ(LinkOf(Address(0)), paths_->link());
}

TEST_F(VmTest, TheServicesUmaskIsNotTheVms) {
  const mode_t before = umask(0077);
  ASSERT_NO_FATAL_FAILURE(RunVm(Spec()));
  umask(before);
  EXPECT_EQ(Ssh("ann", "cat $TPU_LIBRARY_PATH $TORUS_ENGINE").output, "libtpuengine");
  EXPECT_THAT(Ssh("ann", "cat /run/torus/slice").output, HasSubstr("v2-8"));
  EXPECT_EQ(Ssh("ann", "stat -c %a / /run /run/torus /run/torus/keys /opt/torus /tmp").output,
            "755\n755\n755\n755\n755\n1777");
  EXPECT_EQ(Ssh("ann", "sudo sh -c umask").output, "0022");
}

TEST_F(VmTest, StartsWithinASecond) {
  ASSERT_NO_FATAL_FAILURE(RunVm(Spec()));  // warm
  Order(DELETE);
  ASSERT_TRUE(service_->Await(DELETED, generation_));
  while (workers_->Find(uid_, 0)) std::this_thread::sleep_for(milliseconds(2));
  std::vector<double> seconds;
  for (int i = 0; i < 7; ++i) {
    const auto begin = Clock::now();
    ASSERT_NO_FATAL_FAILURE(RunVm(Spec()));
    seconds.push_back(duration<double>(Clock::now() - begin).count());
    Order(DELETE);
    ASSERT_TRUE(service_->Await(DELETED, generation_));
    while (workers_->Find(uid_, 0)) std::this_thread::sleep_for(milliseconds(2));
  }
  std::ranges::sort(seconds);
  std::printf("create to sshd answering, 7 times: median %.3f s, %.3f to %.3f s\n", seconds[3],
              seconds.front(), seconds.back());
  EXPECT_LE(seconds[3], 1.0);
}

}  // namespace
}  // namespace torus::worker

// The program is its own worker, as torus is.
int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "worker") == 0)
    return torus::worker::WorkerMain(argc - 1, argv + 1);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
