// The base images of TPU VMs: root file systems under <data>/images/<digest>/rootfs, each made once
// and never changed, the read-only lower layer of every VM that was made with it.
//
// An image is made in a folder beside and renamed when it is whole, so a crash leaves at most a
// folder that the next start removes. One process at a time makes images (a lock file).
//
// Thread-safe.
#ifndef TORUS_SERVICE_BACKEND_LOCAL_IMAGE_STORE_H_
#define TORUS_SERVICE_BACKEND_LOCAL_IMAGE_STORE_H_

#include <functional>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/status.h"
#include "service/backend/local/image_recipe.h"

namespace torus::backend {

// Told about each step: "making base image 1a2b3c4d5e6f: 12 s, installing packages".
using ImageProgress = std::function<void(const std::string& line)>;

class ImageStore {
 public:
  // `folder` is <data>/images; it is made, for its owner only, when the first image is.
  explicit ImageStore(std::string folder);

  // The recipe's root file system, made now if it is not there yet (about half a minute; blocks).
  // FAILED_PRECONDITION when mmdebstrap or root is missing, UNAVAILABLE when the package mirror
  // cannot be reached, RESOURCE_EXHAUSTED when the disk is full, INTERNAL otherwise; the message
  // says what to do. After an error nothing is left and the next call tries afresh.
  // When `stop` is requested it ends at once (fractions of a second) with CANCELLED: no process and
  // no mount is left, and of files what RemoveLeftovers removes.
  Result<std::string> Ensure(const ImageRecipe& recipe, const ImageProgress& progress = {},
                             const std::stop_token& stop = {});

  // Where the image of that digest would be, and whether it is there: a quick look, no lock.
  std::string RootOf(std::string_view digest) const;
  bool Has(std::string_view digest) const;

  // Removes what a crash or a stop in Ensure left. Call at start; a no-op while another process
  // makes one.
  Status RemoveLeftovers();

 private:
  Status Make(const ImageRecipe& recipe, const std::string& root, const ImageProgress& progress,
              const std::stop_token& stop);

  const std::string folder_;
};

namespace internal {

// What went wrong in mmdebstrap, told from its output.
Status ImageError(const Status& error, std::string_view output);

// What went wrong in pip, which was to install `requirements`.
Status PipError(const Status& error, std::string_view requirements);

// The certificates of `wanted` that `present` lacks.
std::vector<std::string> MissingCertificates(std::string_view wanted, std::string_view present);

}  // namespace internal
}  // namespace torus::backend

#endif  // TORUS_SERVICE_BACKEND_LOCAL_IMAGE_STORE_H_
