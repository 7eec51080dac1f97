// Makes the base image on a thread of its own, so that nobody waits for it: whoever needs it asks
// how it stands, and is woken when that changes.
//
// Thread-safe.
#ifndef TORUS_SERVICE_BACKEND_LOCAL_IMAGE_JOB_H_
#define TORUS_SERVICE_BACKEND_LOCAL_IMAGE_JOB_H_

#include <chrono>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "base/status.h"
#include "service/backend/local/image_store.h"

namespace torus::backend {

class ImageJob {
 public:
  // `changed` is called from the job's thread, without a lock held.
  ImageJob(std::string images_folder, ImageRecipe recipe, std::function<void()> changed);
  // Cancels a job under way: the service that starts next makes the image anew.
  ~ImageJob();

  struct State {
    std::string root;    // the root file system's path; empty: not there yet
    std::string detail;  // while it is being made
    Status error;        // why it could not be made
  };
  // How the image of this digest stands. Begins to make it if it is the recipe's of now and not
  // there; a failure is told for some seconds and then tried again. FAILED_PRECONDITION for an
  // older one that is gone: its VMs' disks fit no other.
  State Ask(const std::string& digest);
  // The recipe's of now.
  const std::string& digest() const { return digest_; }
  // Where the image of this digest is, or would be.
  std::string RootOf(const std::string& digest) const { return store_.RootOf(digest); }

 private:
  void Run(const std::stop_token& stop);

  ImageStore store_;
  const ImageRecipe recipe_;
  const std::string digest_;
  const std::function<void()> changed_;
  Mutex mutex_;
  bool running_ TORUS_GUARDED_BY(mutex_) = false;
  std::string detail_ TORUS_GUARDED_BY(mutex_);
  Status error_ TORUS_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point failed_at_ TORUS_GUARDED_BY(mutex_);
  std::jthread thread_ TORUS_GUARDED_BY(mutex_);  // the last member: it stops before the others go
};

}  // namespace torus::backend

#endif  // TORUS_SERVICE_BACKEND_LOCAL_IMAGE_JOB_H_
