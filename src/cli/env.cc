// torus env
#include "cli/env.h"

#include <algorithm>
#include <iostream>

#include "base/file.h"
#include "cli/commands.h"
#include "cli/values.h"

namespace torus::cli {
namespace {

// The names in gcloud 528's section api_endpoint_overrides (googlecloudsdk/core/properties.py); an
// older gcloud passes over those it does not know.
constexpr std::string_view kApis =
    "accessapproval accesscontextmanager ai aiplatform alloydb anthosevents "
    "anthospolicycontrollerstatus_pa apigateway apigee apihub apikeys appconfigmanager "
    "appengine apphub artifactregistry assuredworkloads auditmanager authztoolkit backupdr "
    "baremetalsolution batch beyondcorp bigquery bigquerymigration bigtableadmin "
    "binaryauthorization categorymanager certificatemanager cloudaicompanion cloudasset "
    "cloudbilling cloudbuild cloudcommerceconsumerprocurement clouddebugger clouddeploy "
    "clouderrorreporting cloudfunctions cloudidentity cloudkms cloudlocationfinder "
    "cloudnumberregistry cloudquotas cloudresourcemanager cloudresourcesearch "
    "cloudscheduler cloudshell cloudtasks cloudtrace composer compute config "
    "configdelivery connectgateway container containeranalysis datacatalog dataflow "
    "datafusion datamigration datapipelines dataplex datapol dataproc dataprocgdc "
    "datastore datastream deploymentmanager designcenter developerconnect discovery dns "
    "domains edgecontainer edgenetwork eventarc eventarcpublishing faultinjectiontesting "
    "file firebasedataconnect firestore geminicloudassist genomics gkebackup gkehub "
    "gkemulticloud gkeonprem gkerecommender healthcare iam iamcredentials iap ids "
    "krmapihosting kubernetespolicy language lifesciences logging looker lustre "
    "managedflink managedidentities managedkafka manager marketplacesolutions mediaasset "
    "memcache memorystore messagestreams metastore ml modelarmor monitoring netapp "
    "networkconnectivity networkmanagement networksecurity networkservices notebooks "
    "observability ondemandscanning oracledatabase orglifecycle orgpolicy osconfig oslogin "
    "parallelstore parametermanager policyanalyzer policysimulator policytroubleshooter "
    "privateca privilegedaccessmanager publicca pubsub pubsublite recaptchaenterprise "
    "recommender redis remotebuildexecution replicapoolupdater run runapps runtimeconfig "
    "saasservicemgmt sasportal sddc seclm secretmanager securesourcemanager securitycenter "
    "securitycentermanagement securityposture servicedirectory servicemanagement "
    "serviceregistry serviceusage source sourcerepo spanner speech sql storage "
    "storagebatchoperations storageinsights stream telcoautomation testing toolresults tpu "
    "transcoder transfer transferappliance vision vmmigration vmwareengine vpcaccess "
    "workflowexecutions workflows workloadcertificate workstations";

struct ApiPath {
  std::string_view api, path;
};

// Where an API's own address has a path (the BASE_URL of its client in gcloud).
constexpr ApiPath kPaths[] = {
    {"bigquery", "bigquery/v2/"},
    {"compute", "compute/v1/"},
    {"dns", "dns/v1/"},
    {"storage", "storage/v1/"},
};

// Variables of the user's that would lead a client to a real account, or past our settings.
constexpr const char* kForeign[] = {
    "CLOUDSDK_ACTIVE_CONFIG_NAME",
    "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE",
    "CLOUDSDK_AUTH_CREDENTIAL_FILE_OVERRIDE",
    "CLOUDSDK_AUTH_IMPERSONATE_SERVICE_ACCOUNT",
    "CLOUDSDK_BILLING_QUOTA_PROJECT",
    "CLOUDSDK_CORE_ACCOUNT",
    "CLOUDSDK_CORE_UNIVERSE_DOMAIN",
    "CLOUDSDK_PROXY_ADDRESS",
    "CLOUDSDK_PROXY_PORT",
    "CLOUDSDK_PROXY_TYPE",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_CLOUD_QUOTA_PROJECT",
    "GOOGLE_CLOUD_UNIVERSE_DOMAIN",
    "GOOGLE_OAUTH_ACCESS_TOKEN",
};

// Names what we added to no_proxy, so that it can be taken out again.
constexpr char kAddedNoProxy[] = "TORUS_ADDED_NO_PROXY";
constexpr const char* kNoProxy[] = {"NO_PROXY", "no_proxy"};

std::string Override(std::string_view api) {
  std::string name = "CLOUDSDK_API_ENDPOINT_OVERRIDES_";
  for (const char c : api) name += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return name;
}

std::vector<std::string> Hosts(const EnvRequest& request) {
  std::vector<std::string> hosts{"127.0.0.1", "localhost"};
  if (std::ranges::find(hosts, request.endpoint.host) == hosts.end())
    hosts.push_back(request.endpoint.host);
  return hosts;
}

std::string Join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ",") + part;
  return text;
}

void AddNoProxy(const EnvRequest& request, Environ& environment) {
  // What an earlier `torus env` added counts as ours still.
  std::vector<std::string> added = ParseList(request.now(kAddedNoProxy));
  for (const char* variable : kNoProxy) {
    std::vector<std::string> hosts = ParseList(request.now(variable));
    for (const std::string& host : Hosts(request)) {
      if (std::ranges::find(hosts, host) != hosts.end()) continue;
      hosts.push_back(host);
      if (std::ranges::find(added, host) == added.end()) added.push_back(host);
    }
    environment.set.emplace_back(variable, Join(hosts));
  }
  environment.set.emplace_back(kAddedNoProxy, Join(added));
}

// The lists without what we added.
void RestoreNoProxy(const EnvRequest& request, Environ& environment) {
  const std::vector<std::string> added = ParseList(request.now(kAddedNoProxy));
  for (const char* variable : kNoProxy) {
    std::vector<std::string> hosts = ParseList(request.now(variable));
    std::erase_if(hosts, [&](const std::string& host) {
      return std::ranges::find(added, host) != added.end();
    });
    if (hosts.empty()) {
      environment.unset.push_back(variable);
    } else {
      environment.set.emplace_back(variable, Join(hosts));
    }
  }
  environment.unset.push_back(kAddedNoProxy);
}

// In single quotes, whatever it holds.
std::string Quote(const std::string& value, Shell shell) {
  std::string quoted = "'";
  for (const char c : value) {
    if (shell == Shell::kFish && (c == '\'' || c == '\\')) {
      quoted += '\\';
      quoted += c;
    } else if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

struct EnvFlags {
  CommonFlags common;
  std::string shell;
  bool unset = false;
};

Result<int> Run(const EnvFlags& flags) {
  TORUS_ASSIGN_OR_RETURN(const Shell shell, ParseShell(flags.shell));
  EnvRequest request{.project = flags.common.project,
                     .zone = flags.common.zone == "-" ? "" : flags.common.zone,
                     .now = Environment};
  TORUS_ASSIGN_OR_RETURN(request.endpoint, ParseEndpoint(flags.common.endpoint));
  if (flags.unset) {
    std::cout << PrintUnset(request, shell) << std::flush;
    return kExitOk;
  }
  TORUS_ASSIGN_OR_RETURN(request.config_folder, ConfigFolder());
  TORUS_RETURN_IF_ERROR(MakeFolders(request.config_folder, 0700));
  std::cout << PrintEnvironment(MakeEnvironment(request), shell) << std::flush;
  return kExitOk;
}

std::string DefaultShell() {
  const std::string shell = Basename(Environment("SHELL"));
  return ParseShell(shell) ? shell : "posix";
}

}  // namespace

Result<Shell> ParseShell(std::string_view name) {
  for (const std::string_view posix : {"bash", "zsh", "sh", "dash", "ksh", "posix"}) {
    if (name == posix) return Shell::kPosix;
  }
  if (name == "fish") return Shell::kFish;
  return InvalidArgument("--shell: \"{}\" is not one of bash, zsh, sh, dash, ksh, posix, fish",
                         name);
}

Result<std::string> ConfigFolder() {
  constexpr char kFolder[] = "/torus/gcloud";
  if (const std::string base = Environment("XDG_CONFIG_HOME"); !base.empty()) return base + kFolder;
  TORUS_ASSIGN_OR_RETURN(const std::string home, HomeFolder());
  return home + "/.config" + kFolder;
}

std::vector<std::string_view> OverridableApis() {
  std::vector<std::string_view> apis;
  for (std::string_view rest = kApis; !rest.empty();) {
    const size_t end = std::min(rest.find(' '), rest.size());
    apis.push_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return apis;
}

Environ MakeEnvironment(const EnvRequest& request) {
  const std::string address = request.endpoint.ToString();
  Environ environment;
  environment.set = {
      {"TORUS_ENDPOINT", address},
      {"CLOUDSDK_CONFIG", request.config_folder},
      {"CLOUDSDK_CORE_PROJECT", request.project},
      {"GOOGLE_CLOUD_PROJECT", request.project},
      {"CLOUDSDK_AUTH_DISABLE_CREDENTIALS", "true"},
      {"CLOUDSDK_CORE_DISABLE_USAGE_REPORTING", "true"},
      {"CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK", "true"},
      {"CLOUDSDK_SURVEY_DISABLE_PROMPTS", "true"},
      {"CLOUDSDK_CONTEXT_AWARE_USE_CLIENT_CERTIFICATE", "false"},
      // No client may take this machine for one of Google's and use that one's account.
      {"METADATA_SERVER_DETECTION", "none"},
      {"NO_GCE_CHECK", "true"},
  };
  if (!request.zone.empty()) {
    environment.set.emplace_back("TORUS_ZONE", request.zone);
    environment.set.emplace_back("CLOUDSDK_COMPUTE_ZONE", request.zone);
  }
  for (const std::string_view api : OverridableApis()) {
    std::string url = address + "/";
    for (const ApiPath& each : kPaths) {
      if (each.api == api) url += each.path;
    }
    environment.set.emplace_back(Override(api), url);
  }
  AddNoProxy(request, environment);
  environment.unset.assign(std::begin(kForeign), std::end(kForeign));
  return environment;
}

std::string PrintEnvironment(const Environ& environment, Shell shell) {
  const bool fish = shell == Shell::kFish;
  std::string text;
  for (const std::string& name : environment.unset)
    text += fish ? "set -e " + name + ";\n" : "unset " + name + "\n";
  for (const auto& [name, value] : environment.set) {
    text += fish ? "set -gx " + name + " " + Quote(value, shell) + ";\n"
                 : "export " + name + "=" + Quote(value, shell) + "\n";
  }
  return text;
}

std::string PrintUnset(const EnvRequest& request, Shell shell) {
  Environ back;
  EnvRequest with_zone = request;
  with_zone.zone = "any";  // so that the zone's variables are taken back, too
  for (const auto& [name, value] : MakeEnvironment(with_zone).set) {
    const bool is_list = std::ranges::find(kNoProxy, name) != std::end(kNoProxy);
    if (!is_list && name != kAddedNoProxy) back.unset.push_back(name);
  }
  RestoreNoProxy(request, back);
  return PrintEnvironment(back, shell);
}

void AddEnv(CLI::App& parent, Invocation& invocation) {
  auto flags = std::make_shared<EnvFlags>();
  CLI::App* command = AddCommand(
      parent, "env", "Print the environment that points gcloud and the client libraries here",
      "  eval \"$(torus env)\"            # bash, zsh, sh\n"
      "  torus env --shell=fish | source # fish\n"
      "  eval \"$(torus env --unset)\"    # and back; values that it replaced stay gone");
  command->add_option("--shell", flags->shell, "bash, zsh, sh or fish; else as SHELL says")
      ->type_name("SHELL");
  command->add_flag("--unset", flags->unset, "Print what takes it all back");
  command->add_option("--zone", flags->common.zone, "A default zone to set, too; none if not given")
      ->type_name("ZONE");
  AddCommonFlags(*command, flags->common, ZoneFlag::kNone);
  command->callback([flags, &invocation] {
    // A zone is set only if it is asked for: it would hide `gcloud config set compute/zone`.
    flags->common.Resolve(invocation, ZoneFlag::kNone);
    if (flags->shell.empty()) flags->shell = DefaultShell();
    if (auto shell = ParseShell(flags->shell); !shell)
      throw CLI::ValidationError(shell.error().message());
    invocation.run = [flags] { return Run(*flags); };
  });
}

}  // namespace torus::cli
