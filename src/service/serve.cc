#include "service/serve.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <cstdio>

#include "hardware/catalogue_toml.h"
#include "service/api/compute/compute.h"
#include "service/api/tpu/v2.h"
#include "service/backend/fake/fake_backend.h"
#include "service/backend/local/local_backend.h"
#include "service/controller/node_controller.h"
#include "service/controller/operation_sweeper.h"
#include "service/gateway/gateway.h"
#include "service/model/operation.h"
#include "service/options.h"
#include "service/placement/slots.h"
#include "service/store/data_folder.h"
#include "service/store/store.h"

namespace torus::service {
namespace {

constexpr int kDrainSeconds = 10;

google::protobuf::Timestamp Now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now);
  google::protobuf::Timestamp timestamp;
  timestamp.set_seconds(seconds.count());
  timestamp.set_nanos(static_cast<int32_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(now - seconds).count()));
  return timestamp;
}

// All of a running service; the members go in the reverse of the order they came.
class Service {
 public:
  Status Start(const Options& options) {
    TORUS_ASSIGN_OR_RETURN(const auto endpoint, gateway::ParseListenAddress(options.listen));
    TORUS_ASSIGN_OR_RETURN(auto guard, gateway::PeerGuard::Create(options.allow_group));
    TORUS_RETURN_IF_ERROR(LoadCatalogue(options));
    TORUS_ASSIGN_OR_RETURN(folder_, store::DataFolder::Open(options.data_dir));
    TORUS_ASSIGN_OR_RETURN(store_, store::Store::Open(folder_->database()));
    TORUS_RETURN_IF_ERROR(StartBackend(options));
    controller_ = std::make_unique<controller::NodeController>(*store_, *backend_, Now);
    sweeper_ = std::make_unique<controller::OperationSweeper>(*store_, Now);
    registry_ = std::make_unique<gateway::Registry>(*store_);
    const api::Context context{&catalogue(), backend_.get(), Now};
    api::tpu::RegisterV2(context, registry_.get());
    api::compute::Register(registry_.get());
    TORUS_ASSIGN_OR_RETURN(gateway_,
                           gateway::Gateway::Start(endpoint, std::move(guard), *registry_));
    const auto& at = gateway_->endpoint();
    spdlog::info("listening on {}:{} (backend {}, data {})",
                 at.address.find(':') == std::string::npos ? at.address : "[" + at.address + "]",
                 at.port, options.backend, folder_->path().string());
    return {};
  }

  // Requests under way are answered, nothing new is taken, workers go on.
  ~Service() {
    if (gateway_) gateway_->Stop(kDrainSeconds);
  }

 private:
  Status LoadCatalogue(const Options& options) {
    if (options.catalogue.empty()) return {};
    TORUS_ASSIGN_OR_RETURN(own_catalogue_, hardware::ReadCatalogueToml(options.catalogue));
    return {};
  }

  Status StartBackend(const Options& options) {
    if (options.backend == "fake") {
      backend_ = std::make_unique<backend::FakeBackend>();
      return {};
    }
    TORUS_ASSIGN_OR_RETURN(auto local,
                           backend::LocalBackend::Create({.images_folder = folder_->images(),
                                                          .vms_folder = folder_->vms(),
                                                          .worker_socket = folder_->worker_socket(),
                                                          .libtpu = options.libtpu,
                                                          .engine = options.engine}));
    TORUS_ASSIGN_OR_RETURN(const auto nodes, store_->Read([](store::View& view) {
      return view.List<model::NodeRecord>("");
    }));
    std::set<std::string> known;
    for (const auto& node : nodes) known.insert(node.uid());
    local->RemoveOrphans(std::move(known));
    TORUS_RETURN_IF_ERROR(ChooseFirstSlot());
    backend_ = std::move(local);
    return {};
  }

  // Two services on one machine share its addresses: a new data folder begins somewhere of its own,
  // so that they seldom meet. (Where they do, the worker refuses the address.)
  Status ChooseFirstSlot() {
    return store_->WriteAndWait([](store::Transaction& transaction) -> Status {
      TORUS_ASSIGN_OR_RETURN(const int64_t last, transaction.LastSlot());
      if (last != 0) return {};
      return transaction.SetLastSlot(1 + model::NewId() % placement::kMaxSlot);
    });
  }

  const hardware::Catalogue& catalogue() const {
    return own_catalogue_ ? *own_catalogue_ : hardware::Catalogue::BuiltIn();
  }

  std::optional<hardware::Catalogue> own_catalogue_;  // with the operator's rows, if there are any
  std::unique_ptr<store::DataFolder> folder_;
  // Before the store: a write that outlives the drain still asks the backend and answers to the
  // gateway's threads.
  std::unique_ptr<gateway::Gateway> gateway_;
  std::unique_ptr<gateway::Registry> registry_;
  std::unique_ptr<backend::Backend> backend_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<controller::NodeController> controller_;
  std::unique_ptr<controller::OperationSweeper> sweeper_;
};

// A connection is a descriptor, and the soft limit is often 1,024.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int ServeMain(int argc, char** argv) {
  Options options;
  CLI::App app("The Torus service: Google's Cloud TPU API on your own machine.", "torus serve");
  AddOptions(&app, &options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return ReportParseError(app, error);
  }
  spdlog::set_default_logger(spdlog::stderr_logger_mt("torus"));
  spdlog::set_level(spdlog::level::from_str(options.log_level));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
  RaiseDescriptorLimit();

  // Blocked before any thread starts, so that every thread leaves them to sigwait below.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);

  Service service;
  if (const Status status = service.Start(options); !status.ok()) {
    fmt::print(stderr, "error: {}\n", status.message());
    return 1;
  }
  int caught = 0;
  sigwait(&signals, &caught);
  spdlog::info("stopping: finishing the requests under way; TPU VMs go on");
  return 0;
}

}  // namespace torus::service
