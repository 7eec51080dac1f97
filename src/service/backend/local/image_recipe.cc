#include "service/backend/local/image_recipe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>

#include <cstdio>
#include <utility>

namespace torus::backend {
namespace {

constexpr char kBundle[] = "/etc/ssl/certs/ca-certificates.crt";

constexpr char kSshd[] =
    R"(# A TPU VM's sshd. The worker hands in host keys and the users' keys from metadata.
HostKey /run/torus/hostkeys/ssh_host_ed25519_key
HostKey /run/torus/hostkeys/ssh_host_ecdsa_key
AuthorizedKeysFile /run/torus/keys/%u .ssh/authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
PrintMotd no
UseDNS no
ClientAliveInterval 120
MaxStartups 100:30:200
)";

constexpr char kSudoers[] =
    R"(Defaults env_keep += "TPU_LIBRARY_PATH TORUS_ENGINE TPU_LOAD_LIBRARY"
Defaults env_keep += "TPU_NAME TPU_API_DISCOVERY_URL TORUS_AUTO_TPU"
Defaults env_keep += "SSL_CERT_FILE REQUESTS_CA_BUNDLE CURL_CA_BUNDLE PIP_CERT"
Defaults env_keep += "http_proxy https_proxy no_proxy"
%google-sudoers ALL=(ALL:ALL) NOPASSWD:ALL
)";

// torus_tpu for the system's Python; in a program that was started with the variable, its strategy.
constexpr char kPythonPath[] =
    "/opt/torus/python\n"
    "import os; os.environ.get('TORUS_AUTO_TPU', '0') in ('', '0') or "
    "__import__('torus_tpu.auto').auto.install()\n";

// Debian's pip refuses to install outside a virtual environment; upstream's images do not.
// Keys made at installation would be the same in every VM; a host's name is not the VM's.
// A capability on a file that its sandbox cannot have makes the file unusable.
constexpr char kScript[] = R"(set -e
rm -f /usr/lib/python3*/EXTERNALLY-MANAGED
rm -f /etc/ssh/ssh_host_* /etc/resolv.conf /etc/hostname
: >/etc/machine-id
setcap -r /usr/bin/ping 2>/dev/null || :
groupadd -f google-sudoers
mkdir -p /opt/torus
ln -sfn /opt/torus/libtpu.so /usr/lib/libtpu.so
{ printf '. /etc/profile.d/torus.sh\n'; cat /etc/bash.bashrc; } >/etc/bash.bashrc.new
mv /etc/bash.bashrc.new /etc/bash.bashrc
chmod 0644 /etc/bash.bashrc
rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /tmp/* /var/tmp/*
)";

// tensorflow-tpu of this version is what the worker runs, and runs in a user's process as well.
// Other versions are stock: their wheels have no kernels for TPUs, and they use the worker.
constexpr char kWorkerPins[] =
#include "tensorflow_worker_pins.inc"
    ;
bool HasTpuKernels(std::string_view tensorflow) { return tensorflow == "2.20.0"; }

// The first TensorFlow with a wheel for the image's Python 3.11 that a worker of today serves is
// 2.13.
bool HasWheel(std::string_view tensorflow) {
  int major = 0, minor = 0;
  return sscanf(std::string(tensorflow).c_str(), "%d.%d", &major, &minor) == 2 &&
         std::pair(major, minor) >= std::pair(2, 13);
}

std::vector<PythonPackages> TensorFlow(std::string_view version) {
  if (version.empty()) return {};
  PythonPackages worker{
      .environment = "/opt/tensorflow-worker", .requirements = kWorkerPins, .locked = true};
  PythonPackages users{.requirements = fmt::format("tensorflow=={}\n", version)};
  if (HasTpuKernels(version)) {
    users = worker;
    users.environment = {};
  }
  return {std::move(users), std::move(worker)};
}

// What every process of a VM finds in its environment, however it was started.
std::map<std::string, std::string> Environment(const HostPackages& host,
                                               std::string_view tensorflow) {
  std::map<std::string, std::string> variables = host.environment;
  variables["TPU_LIBRARY_PATH"] = "/opt/torus/libtpu.so";
  variables["TORUS_ENGINE"] = "/opt/torus/engine/xla_cpu.so";
  // TensorFlow has a lock of its own in /tmp, which outlives a crash; libtpu.so's tells who has the
  // TPU.
  variables["TPU_LOAD_LIBRARY"] = "1";
  // Where TensorFlow asks what a TPU's name stands for: the metadata server tells, for this node.
  variables["TPU_API_DISCOVERY_URL"] =
      "http://metadata.google.internal/discovery/tpu?version={apiVersion}";
  // The TPU of those who name none.
  if (!tensorflow.empty())
    variables["TPU_NAME"] = HasTpuKernels(tensorflow) ? "local" : "grpc://127.0.0.1:8470";
  variables["LANG"] = "C.UTF-8";
  // Python packages bring their own bundles, which know nothing of a CA of the host's.
  for (const char* name : {"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT"})
    if (!host.ca_bundle.empty()) variables[name] = kBundle;
  return variables;
}

std::string SshdConfig(const std::map<std::string, std::string>& environment) {
  std::string text = kSshd;
  text += "SetEnv";
  for (const auto& [name, value] : environment) text += fmt::format(" \"{}={}\"", name, value);
  return text + "\n";
}

std::string EnvironmentFile(const std::map<std::string, std::string>& environment) {
  std::string text;
  for (const auto& [name, value] : environment) text += fmt::format("{}=\"{}\"\n", name, value);
  return text;
}

// Also read by bash that sshd started without a terminal: then /etc/bash.bashrc has it.
std::string Profile(const std::map<std::string, std::string>& environment) {
  std::string text;
  for (const auto& [name, value] : environment)
    text += fmt::format("export {}='{}'\n", name, value);
  text +=
      "case \":$PATH:\" in\n"
      "  *\":$HOME/.local/bin:\"*) ;;\n"
      "  *) PATH=\"$HOME/.local/bin:$PATH\" ;;\n"
      "esac\n"
      "export PATH\n";
  return text;
}

std::string PipConf(const HostPackages& host) {
  std::string text = "[global]\n";
  for (const auto& [name, value] : host.pip) text += fmt::format("{} = {}\n", name, value);
  if (!host.ca_bundle.empty()) text += fmt::format("cert = {}\n", kBundle);
  return text + "root-user-action = ignore\ndisable-pip-version-check = true\n";
}

std::string AptConf(const HostPackages& host) {
  std::string text = "APT::Install-Recommends \"false\";\n";
  for (const auto& [name, value] : host.environment) {
    if (name == "no_proxy") continue;
    text += fmt::format("Acquire::{}::Proxy \"{}\";\n", name.substr(0, name.find('_')), value);
  }
  return text;
}

}  // namespace

std::string ImageRecipe::Digest() const {
  std::string all = fmt::format("1\n{}\n{}\n{}\n{}\n{}\n", suite, fmt::join(packages, ","),
                                fmt::join(apt_sources, "\n"), ca_bundle, script);
  for (const PythonPackages& each : python)
    all += fmt::format("pip {} {}\n{}\n", each.environment, each.locked, each.requirements);
  for (const ImageFile& file : files)
    all += fmt::format("{} {:o} {}\n{}\n", file.path, file.mode, file.content.size(), file.content);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_Digest(all.data(), all.size(), digest, &size, EVP_sha256(), nullptr);
  return fmt::format("{:02x}", fmt::join(digest, digest + size, ""));
}

ImageRecipe TpuVmRecipe(const HostPackages& host, std::string_view tensorflow) {
  if (!HasWheel(tensorflow)) tensorflow = {};
  const auto environment = Environment(host, tensorflow);
  return {
      .suite = "bookworm",
      // libpython is PyTorch/XLA's.
      .packages = {"python3", "python3-pip", "python3-venv", "python-is-python3", "openssh-server",
                   "sudo", "ca-certificates", "iproute2", "iputils-ping", "libcap2-bin", "netbase",
                   "tini", "curl", "wget", "git", "procps", "less", "vim-tiny", "libpython3.11"},
      .apt_sources = host.apt_sources,
      .files = {{"/etc/ssh/sshd_config.d/10-torus.conf", 0644, SshdConfig(environment)},
                {"/etc/sudoers.d/10-torus", 0440, kSudoers},
                {"/etc/environment", 0644, EnvironmentFile(environment)},
                {"/etc/profile.d/torus.sh", 0644, Profile(environment)},
                {"/usr/lib/python3/dist-packages/torus.pth", 0644, kPythonPath},
                {"/etc/pip.conf", 0644, PipConf(host)},
                {"/etc/apt/apt.conf.d/90torus", 0644, AptConf(host)},
                {"/etc/hosts", 0644, "127.0.0.1 localhost\n"}},
      .ca_bundle = host.ca_bundle,
      .python = TensorFlow(tensorflow),
      .script = kScript};
}

}  // namespace torus::backend
