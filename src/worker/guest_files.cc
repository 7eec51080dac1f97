#include "worker/guest_files.h"

#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <set>
#include <sstream>

#include "base/fault.h"
#include "base/file.h"
#include "hardware/host_devices.h"
#include "slice/description.h"
#include "worker/pci_tree.h"

namespace torus::worker {
namespace {

namespace fs = std::filesystem;

// Process 1 is tini, which reaps; this is its child and ends with the VM.
constexpr char kBoot[] = R"sh(#!/bin/sh
umask 022
mkdir -p /var/log
log=/var/log/torus-boot.log
true >>$log || log=/dev/null
exec >>$log 2>&1 </dev/null
mkdir -p /run/lock
chmod 1777 /run/lock
mkdir -p /run/torus-counters
chmod 1777 /run/torus-counters
cat /run/torus/hostname >/etc/hostname
cat /run/torus/hosts >/etc/hosts
cat /run/torus/resolv.conf >/etc/resolv.conf
/bin/sh /run/torus/accounts boot
# Plain files in the place of the chips' devices: programs count them, libtpu.so holds them open.
mkdir -p /dev/vfio
while read -r name; do
  : >"/dev/$name"
done </run/torus/devices

# Processes get a moment to end by themselves, as at the shutdown of a machine.
stop() {
  trap '' TERM
  if [ -f /run/torus/shutdown-script ]; then
    timeout 60 /bin/sh /run/torus/script shutdown
  fi
  kill -TERM -1
  tries=200
  while [ $tries -gt 0 ]; do
    set -- /proc/[0-9]*
    [ $# -le 2 ] && break
    sleep 0.01
    tries=$((tries - 1))
  done
  exit 0
}
trap stop TERM

if [ -f /run/torus/startup-script ]; then
  /bin/sh /run/torus/script startup &
fi
# TensorFlow's worker, where the image has one.
tensorflow_worker() {
  . /etc/profile.d/torus.sh
  export HOME=/root
  while :; do
    /opt/tensorflow-worker/bin/python /run/torus/tensorflow_worker.py
    sleep 10
  done
}
if [ -x /opt/tensorflow-worker/bin/python ]; then
  tensorflow_worker &
fi
# A package's upgrade may restart sshd: it is here again at once. Its configuration is the image's;
# what the VM's owner did to /etc/ssh, /run or /var/log keeps nobody out.
while :; do
  log=/var/log/auth.log
  mkdir -p /run/sshd /var/log
  true >>$log || log=/dev/null
  /usr/sbin/sshd -D -f /run/torus/sshd_config -o PidFile=/run/torus-sshd.pid -E $log &
  wait $!
  sleep 1 &
  wait $!
done
)sh";

// Runs the start-up or shutdown script of the metadata as root.
constexpr char kScript[] = R"sh(#!/bin/sh
name=$1-script
exec >>"/var/log/$name.log" 2>&1
export HOME=/root USER=root LOGNAME=root SHELL=/bin/bash
. /etc/profile.d/torus.sh
cd /root
echo "$(date -u +%Y-%m-%dT%H:%M:%SZ) $name begins"
if [ "$(head -c 2 "/run/torus/$name")" = '#!' ]; then
  "/run/torus/$name"
else
  /bin/sh "/run/torus/$name"
fi
echo "$(date -u +%Y-%m-%dT%H:%M:%SZ) $name ends with exit status $?"
)sh";

// Makes the users that have keys; those without keys any more lose sudo, not their files.
constexpr char kAccounts[] = R"sh(#!/bin/sh
group=google-sudoers
mark=/var/lib/torus-making-users
# A VM that was killed in the middle left locks and half a user.
if [ -e $mark ] && [ "$1" = boot ]; then
  rm -f /etc/passwd.lock /etc/shadow.lock /etc/group.lock /etc/gshadow.lock /etc/sub?id.lock
  pwconv
  grpconv
fi
make() {
  : >$mark
  own=
  getent group "$1" >/dev/null && own="-g $1"
  useradd --badname -m -s /bin/bash -p '*' -G $group $own "$1" || echo "cannot make $1"
}
while read -r user; do
  if ! getent passwd "$user" >/dev/null; then
    make "$user"
  elif [ "$user" != root ]; then
    id -nG "$user" | grep -qw $group || gpasswd -a "$user" $group
  fi
  [ ! -e $mark ] || mkhomedir_helper "$user"
done </run/torus/users
rm -f $mark
getent group $group | cut -d: -f4 | tr , '\n' | while read -r user; do
  [ -z "$user" ] || grep -qxF "$user" /run/torus/users || gpasswd -d "$user" $group
done
exit 0
)sh";

// Ends an sshd that does not answer, for boot to start another, and says what is known of it.
// Sessions are processes of their own: they live on.
constexpr char kSshdAgain[] = R"sh(#!/bin/sh
exec 2>/dev/null
pid=$(cat /run/torus-sshd.pid)
[ "$(cat "/proc/$pid/comm")" = sshd ] && kill -KILL "$pid"
if [ -x /usr/sbin/sshd ]; then
  tail -n 1 /var/log/auth.log
else
  echo '/usr/sbin/sshd is missing'
fi
exit 0
)sh";

constexpr char kTensorFlowWorker[] =
#include "tensorflow_worker.inc"
    ;

mode_t ModeOf(const std::string& name) { return name.ends_with("-script") ? 0755 : 0644; }

// Makes a folder as the VM's sshd wants it: its root's, and nobody else's to write.
Status MakeOwned(const std::string& path, uint32_t owner) {
  TORUS_RETURN_IF_ERROR(MakeFolders(path, 0755));
  if (chown(path.c_str(), owner, owner) != 0)
    return ErrnoStatus(errno, "change the owner of", path);
  return {};
}

Status RemoveOthers(const std::string& folder, const std::map<std::string, std::string>& files) {
  std::error_code error;
  std::vector<fs::path> others;
  for (auto it = fs::recursive_directory_iterator(folder, error); !error && it != fs::end(it);
       it.increment(error)) {
    const fs::path name = it->path().filename();
    if (name == "hostkeys" || name == kPciBus) it.disable_recursion_pending();
    if (it->is_directory()) continue;
    if (!files.contains(fs::path(it->path()).lexically_relative(folder))) others.push_back(*it);
  }
  if (error) return ErrnoStatus(error.value(), "read the folder", folder);
  for (const fs::path& path : others)
    if (unlink(path.c_str()) != 0) return ErrnoStatus(errno, "remove", path);
  return {};
}

}  // namespace

Metadata NodeMetadata(const VmSpec& vm) { return {vm.metadata().begin(), vm.metadata().end()}; }

Metadata ProjectMetadata(const VmSpec& vm) {
  return {vm.project_metadata().begin(), vm.project_metadata().end()};
}

std::string FullHostName(const VmSpec& vm) {
  return fmt::format("{}.{}.c.{}.internal", vm.host_name(), vm.zone(), vm.project());
}

std::string HostsFile(const VmSpec& vm) {
  return fmt::format(
      "127.0.0.1 localhost\n"
      "{} {} {}\n"
      "169.254.169.254 metadata.google.internal metadata\n",
      vm.address(), FullHostName(vm), vm.host_name());
}

std::string SliceText(const VmSpec& vm, int64_t memory_limit) {
  slice::Description slice{
      .accelerator_type = vm.accelerator_type(),
      .topology = vm.topology(),
      .node_id = vm.node_id(),
      .node_uid = vm.node_uid(),
      .zone = vm.zone(),
      .runtime_version = vm.runtime_version(),
      .worker_id = vm.worker_index(),
      .worker_addresses = {vm.worker_addresses().begin(), vm.worker_addresses().end()},
      .memory_limit_bytes = memory_limit};
  if (const auto* type =
          hardware::Catalogue::BuiltIn().FindAcceleratorType(vm.accelerator_type())) {
    const auto host = type->host_topology.chips;
    auto hosts = hardware::ParseTopology(vm.topology()).value_or(type->topology).chips;
    for (size_t axis = 0; axis < hosts.size(); ++axis) hosts[axis] /= host[axis];
    slice.chips_per_host = fmt::format("{}", fmt::join(host, ","));
    slice.hosts = fmt::format("{}", fmt::join(hosts, ","));
  }
  return slice::Format(slice);
}

Result<std::string> ImageSshdConfig(const std::string& image_root) {
  const std::string folder = image_root + "/etc/ssh";
  const auto main = ReadFile(folder + "/sshd_config");
  if (!main && main.error().code() != Code::kNotFound) return main;
  if (!main) return NotFound("the base image {} is missing or has no sshd", image_root);
  std::set<fs::path> parts;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder + "/sshd_config.d", error))
    if (entry.path().extension() == ".conf") parts.insert(entry.path());
  std::string text = "# The VM's sshd runs on this file; /etc/ssh/sshd_config is not read.\n";
  std::istringstream lines(*main);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("Include ")) {
      text += line + "\n";
      continue;
    }
    for (const fs::path& part : parts) {
      TORUS_ASSIGN_OR_RETURN(const std::string included, ReadFile(part));
      text += included + "\n";
    }
  }
  return text;
}

std::string DeviceList(const VmSpec& vm) {
  std::string list = "vfio/vfio\n";
  const auto* type = hardware::Catalogue::BuiltIn().FindAcceleratorType(vm.accelerator_type());
  for (int chip = 0; type && chip < type->host_topology.count(); ++chip)
    for (const std::string& name : hardware::DeviceFiles(*type->generation, chip))
      list += name + "\n";
  return list;
}

std::map<std::string, std::string> GuestFiles(const VmSpec& vm, const Accounts& accounts,
                                              int64_t memory_limit, const std::string& resolvers) {
  std::map<std::string, std::string> files = {
      {"boot", kBoot},
      {"script", kScript},
      {"sshd-again", kSshdAgain},
      {"tensorflow_worker.py", kTensorFlowWorker},
      {"accounts", kAccounts},
      {"devices", DeviceList(vm)},
      {"slice", SliceText(vm, memory_limit)},
      {"hosts", HostsFile(vm)},
      {"hostname", vm.host_name() + "\n"},
      {"resolv.conf", resolvers},
      {"users", ""},
  };
  for (const auto& [user, keys] : accounts.keys) {
    files["users"] += user + "\n";
    files["keys/" + user] = fmt::format("{}\n", fmt::join(keys, "\n"));
  }
  const Metadata project = ProjectMetadata(vm), node = NodeMetadata(vm);
  for (const char* name : {"startup-script", "shutdown-script"}) {
    for (const Metadata* metadata : {&project, &node}) {
      const auto found = metadata->find(name);
      if (found != metadata->end() && !found->second.empty()) files[name] = found->second;
    }
  }
  return files;
}

Status WriteGuestFiles(const std::string& folder, const std::map<std::string, std::string>& files,
                       uint32_t owner) {
  TORUS_RETURN_IF_ERROR(MakeOwned(folder, owner));
  TORUS_RETURN_IF_ERROR(MakeOwned(folder + "/keys", owner));
  // First what goes: a key that is gone must not outlive a crash here.
  TORUS_RETURN_IF_ERROR(RemoveOthers(folder, files));
  FaultPoint("worker.guest_files");
  for (const auto& [name, content] : files) {
    const std::string path = folder + "/" + name;
    const auto present = ReadFile(path);
    if (present && *present == content) continue;
    TORUS_RETURN_IF_ERROR(WriteFile(path, content, {.mode = ModeOf(name), .owner = owner}));
  }
  return {};
}

}  // namespace torus::worker
