#include "service/backend/local/image_job.h"

#include <spdlog/spdlog.h>

namespace torus::backend {
namespace {

using namespace std::chrono_literals;

constexpr auto kTellFailure = 10s;

}  // namespace

ImageJob::ImageJob(std::string images_folder, ImageRecipe recipe, std::function<void()> changed)
    : store_(std::move(images_folder)),
      recipe_(std::move(recipe)),
      digest_(recipe_.Digest()),
      changed_(std::move(changed)) {}

ImageJob::~ImageJob() = default;

ImageJob::State ImageJob::Ask(const std::string& digest) {
  if (store_.Has(digest)) return {store_.RootOf(digest), "", {}};
  if (digest != digest_)
    return {"", "",
            FailedPrecondition("The base image {} that this node was made with is gone from {}. "
                               "Put it back, or delete the node and make it anew.",
                               digest.substr(0, 12), store_.RootOf(digest))};
  const MutexLock lock(mutex_);
  if (running_) return {"", detail_, {}};
  const bool fresh_failure =
      !error_.ok() && std::chrono::steady_clock::now() - failed_at_ < kTellFailure;
  if (fresh_failure) return {"", "", error_};
  running_ = true;
  error_ = {};
  detail_ = "making the base image";
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
  return {"", detail_, {}};
}

void ImageJob::Run(const std::stop_token& stop) {
  const auto show = [this](const std::string& line) {
    {
      const MutexLock lock(mutex_);
      detail_ = line;
    }
    changed_();
  };
  const auto image = store_.Ensure(recipe_, show, stop);
  if (stop.stop_requested()) return;
  if (!image) spdlog::error("the base image could not be made: {}", image.error().ToString());
  {
    const MutexLock lock(mutex_);
    running_ = false;
    if (!image) {
      error_ = image.error();
      failed_at_ = std::chrono::steady_clock::now();
    }
  }
  changed_();
}

}  // namespace torus::backend
