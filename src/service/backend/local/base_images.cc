#include "service/backend/local/base_images.h"

#include <spdlog/spdlog.h>

#include "hardware/catalogue.h"

namespace torus::backend {

BaseImages::BaseImages(std::string folder, const HostPackages& host,
                       const std::function<void()>& changed) {
  if (const Status status = ImageStore(folder).RemoveLeftovers(); !status.ok())
    spdlog::warn("images: {}", status.ToString());
  const auto add = [&](const std::string& tensorflow) {
    if (digests_.contains(tensorflow)) return;
    auto job = std::make_unique<ImageJob>(folder, TpuVmRecipe(host, tensorflow), changed);
    digests_[tensorflow] = job->digest();
    jobs_.try_emplace(job->digest(), std::move(job));
  };
  add("");
  for (const auto& version : hardware::Catalogue::BuiltIn().runtime_versions())
    add(version.tensorflow);
}

const std::string& BaseImages::DigestFor(std::string_view runtime_version) const {
  const auto* version = hardware::Catalogue::BuiltIn().FindRuntimeVersion(runtime_version);
  return digests_.find(version == nullptr ? std::string_view() : version->tensorflow)->second;
}

ImageJob::State BaseImages::Ask(const std::string& digest) {
  const auto job = jobs_.find(digest);
  // Of an image that no recipe of now makes, any job knows whether it is there.
  return (job == jobs_.end() ? jobs_.begin() : job)->second->Ask(digest);
}

std::string BaseImages::RootOf(const std::string& digest) const {
  return jobs_.begin()->second->RootOf(digest);
}

}  // namespace torus::backend
