// The base images of this service: which one a runtime version asks for, and a job for each that
// makes it when the first node needs it.
//
// Thread-safe.
#ifndef TORUS_SERVICE_BACKEND_LOCAL_BASE_IMAGES_H_
#define TORUS_SERVICE_BACKEND_LOCAL_BASE_IMAGES_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "service/backend/local/host_packages.h"
#include "service/backend/local/image_job.h"

namespace torus::backend {

class BaseImages {
 public:
  // `folder` is <data>/images. `changed` is called from the jobs' threads, without a lock held.
  BaseImages(std::string folder, const HostPackages& host, const std::function<void()>& changed);

  // The digest of the image for a node of this runtime version, by the recipes of now. Versions of
  // one TensorFlow share an image, and so do all without one.
  const std::string& DigestFor(std::string_view runtime_version) const;
  // How the image of this digest stands (ImageJob::Ask).
  ImageJob::State Ask(const std::string& digest);
  // Where the image of this digest is, or would be.
  std::string RootOf(const std::string& digest) const;

 private:
  std::map<std::string, std::string, std::less<>> digests_;  // by TensorFlow's version
  std::map<std::string, std::unique_ptr<ImageJob>> jobs_;    // by digest
};

}  // namespace torus::backend

#endif  // TORUS_SERVICE_BACKEND_LOCAL_BASE_IMAGES_H_
