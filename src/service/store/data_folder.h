// The data folder: all that a service keeps on disk, private to its owner, used by one service.
//
//   torus.db             the records (store.h)
//   lock                 held by the service that runs; holds its pid
//   worker.sock          where workers dial in
//   images/<digest>/     base images
//   vms/<uid>/<worker>/  a TPU VM's disk, run files and logs
#ifndef TORUS_SERVICE_STORE_DATA_FOLDER_H_
#define TORUS_SERVICE_STORE_DATA_FOLDER_H_

#include <filesystem>
#include <memory>

#include "base/status.h"

namespace torus::store {

class DataFolder {
 public:
  // Makes the folder where there is none, closes it to others (mode 0700) and takes its lock until
  // destruction. FAILED_PRECONDITION: not writable, in use by another service (its pid is named),
  // or there already and another user's, shared by all users (sticky), or full of something else.
  static Result<std::unique_ptr<DataFolder>> Open(const std::filesystem::path& path);
  ~DataFolder();
  DataFolder(const DataFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string database() const { return path_ / "torus.db"; }
  std::string worker_socket() const { return path_ / "worker.sock"; }
  std::filesystem::path images() const { return path_ / "images"; }
  std::filesystem::path vms() const { return path_ / "vms"; }

 private:
  DataFolder(std::filesystem::path path, int lock) : path_(std::move(path)), lock_(lock) {}
  std::filesystem::path path_;
  int lock_;  // an open file that holds the lock
};

}  // namespace torus::store

#endif  // TORUS_SERVICE_STORE_DATA_FOLDER_H_
