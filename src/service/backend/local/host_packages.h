// What a base image takes over from the host, and no more: where packages come from and whom to
// trust for it. Addresses lose user names and passwords; files, keys and tokens are never taken.
//
// Pure but for ReadHostPackages. Thread-safety: values.
#ifndef TORUS_SERVICE_BACKEND_LOCAL_HOST_PACKAGES_H_
#define TORUS_SERVICE_BACKEND_LOCAL_HOST_PACKAGES_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace torus::backend {

struct HostPackages {
  std::vector<std::string> apt_sources;    // "deb URI SUITE COMPONENTS…", Debian's own only
  std::map<std::string, std::string> pip;  // of pip.conf's [global]: "index-url" …
  std::map<std::string, std::string> environment;  // "http_proxy", "https_proxy", "no_proxy"
  std::string ca_bundle;                           // PEM, the certificates the host trusts
};

// Reads this host's. What cannot be read is left out.
HostPackages ReadHostPackages();

// The address without "user:password@"; empty unless it is http or https and its host is one that
// a VM can reach (no loopback).
std::string PublicAddress(std::string_view url);

// The one-line sources of `suite` that Debian's own keys sign, from a sources.list file or, with
// `deb822`, a .sources file.
std::vector<std::string> DebianSources(std::string_view text, bool deb822, std::string_view suite);

// The options of a pip.conf's [global] and [install] that tell where packages come from.
std::map<std::string, std::string> PipOptions(std::string_view pip_conf);

// Splits a PEM bundle into its certificates.
std::vector<std::string> Certificates(std::string_view pem);

}  // namespace torus::backend

#endif  // TORUS_SERVICE_BACKEND_LOCAL_HOST_PACKAGES_H_
