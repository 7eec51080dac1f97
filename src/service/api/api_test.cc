// The APIs as a client meets them, over REST without a socket, on the fake backend: each case is a
// request and what comes back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>

#include "service/api/compute/compute.h"
#include "service/api/tpu/v2.h"
#include "service/backend/fake/fake_backend.h"
#include "service/gateway/rest.h"
#include "service/model/node.h"

namespace torus::api {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using Phase = model::Observation::Phase;

constexpr char kZone[] = "/v2/projects/p/locations/us-central1-a";
constexpr char kNodes[] = "/v2/projects/p/locations/us-central1-a/nodes";
constexpr char kV2_8[] = R"({"acceleratorType": "v2-8", "runtimeVersion": "tpu-ubuntu2204-base"})";

// A backend that takes one-host slices only, as `local` does.
class OneHostBackend : public backend::FakeBackend {
 public:
  Status Admit(const hardware::AcceleratorType& type) const override {
    if (type.hosts == 1) return {};
    return InvalidArgument("{} needs {} hosts", type.name, type.hosts);
  }
  Status CheckLogin() const override { return {}; }
};

class ApiTest : public ::testing::Test {
 protected:
  ApiTest() {
    folder_ = std::filesystem::temp_directory_path() /
              (std::string("api_test_") + std::to_string(getpid()) + "_" +
               ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
    store_ = *store::Store::Open(folder_ / "torus.db");
    registry_ = std::make_unique<gateway::Registry>(*store_);
    tpu::RegisterV2({&hardware::Catalogue::BuiltIn(), &backend_,
                     [] {
                       google::protobuf::Timestamp now;
                       now.set_seconds(1'800'000'000);
                       return now;
                     }},
                    registry_.get());
    compute::Register(registry_.get());
    rest_ = std::make_unique<gateway::Rest>(*registry_);
  }
  ~ApiTest() override {
    store_.reset();
    std::filesystem::remove_all(folder_);
  }

  std::pair<int, json> Call(const std::string& verb, const std::string& target,
                            const std::string& body = "") {
    std::promise<gateway::RestResponse> promise;
    rest_->Handle({verb, target, body},
                  [&](gateway::RestResponse response) { promise.set_value(std::move(response)); });
    const auto response = promise.get_future().get();
    return {response.status, json::parse(response.body)};
  }
  json Ok(const std::string& verb, const std::string& target, const std::string& body = "") {
    auto [status, answer] = Call(verb, target, body);
    EXPECT_EQ(status, 200) << verb << " " << target << ": " << answer;
    return answer;
  }
  void Refused(const std::string& verb, const std::string& target, const std::string& body,
               int status, const std::string& message) {
    const auto before = Everything();
    const auto [got, answer] = Call(verb, target, body);
    EXPECT_EQ(got, status) << answer;
    EXPECT_THAT(answer["error"]["message"].get<std::string>(), HasSubstr(message)) << body;
    EXPECT_EQ(Everything(), before) << "a refusal changes nothing";
  }
  json Everything() {
    return {Ok("GET", "/v2/projects/p/locations/-/nodes"),
            Ok("GET", "/v2/projects/p/locations/-/operations")};
  }
  json Create(const std::string& id, const std::string& body = kV2_8) {
    return Ok("POST", std::string(kNodes) + "?nodeId=" + id, body);
  }
  // What the controller does when the backend reports `phase`.
  void Advance(const std::string& id, Phase phase,
               const std::vector<model::Symptom>& symptoms = {}) {
    const std::string name = "projects/p/locations/us-central1-a/nodes/" + id;
    const Status status = store_->WriteAndWait([&](store::Transaction& transaction) -> Status {
      TORUS_ASSIGN_OR_RETURN(auto node, transaction.Find<model::NodeRecord>(name));
      std::vector<model::OperationRecord> operations;
      for (const auto& operation : node->operations())
        operations.push_back(**transaction.Find<model::OperationRecord>(operation));
      model::AdvanceNode(
          {.phase = phase, .generation = node->generation(), .symptoms = {symptoms}}, {}, &*node,
          operations);
      for (const auto& operation : operations) TORUS_RETURN_IF_ERROR(transaction.Put(operation));
      return transaction.Put(*node);
    });
    ASSERT_TRUE(status.ok()) << status.ToString();
  }

  std::filesystem::path folder_;
  OneHostBackend backend_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<gateway::Registry> registry_;
  std::unique_ptr<gateway::Rest> rest_;
};

TEST_F(ApiTest, WhatTheDoctorFindsIsTheNodesHealth) {
  Create("n1");
  model::Symptom warning, error;
  warning.set_details("TD047: idle");
  error.set_details("TD044: process 7 leaves the TPU alone\nrun it so");
  error.mutable_create_time()->set_seconds(60);
  error.set_is_error(true);
  Advance("n1", Phase::kRunning, {warning});
  const std::string path = std::string(kNodes) + "/n1";
  EXPECT_EQ(Ok("GET", path)["health"], "HEALTHY");
  EXPECT_EQ(Ok("GET", path)["symptoms"],
            json::parse(R"([{"createTime": "1970-01-01T00:00:00Z", "details": "TD047: idle",
                             "workerId": "0"}])"));
  Advance("n1", Phase::kRunning, {warning, error});
  const json node = Ok("GET", path);
  EXPECT_EQ(node["health"], "UNHEALTHY_TENSORFLOW");
  EXPECT_EQ(node["healthDescription"], "TD044: process 7 leaves the TPU alone");
  EXPECT_EQ(node["symptoms"][1]["createTime"], "1970-01-01T00:01:00Z");
  EXPECT_EQ(node["symptoms"][1]["details"], error.details());
  Advance("n1", Phase::kRunning);
  EXPECT_EQ(Ok("GET", path)["health"], "HEALTHY");
  EXPECT_FALSE(Ok("GET", path).contains("symptoms"));
}

TEST_F(ApiTest, ANodesLife) {
  const json operation = Create("n1");
  EXPECT_EQ(operation["done"], false);
  EXPECT_EQ(operation["metadata"]["verb"], "create");
  EXPECT_EQ(operation["metadata"]["target"], "projects/p/locations/us-central1-a/nodes/n1");
  const std::string path = "/v2/" + operation["name"].get<std::string>();
  EXPECT_EQ(Ok("GET", path)["done"], false);
  EXPECT_EQ(Ok("GET", std::string(kNodes) + "/n1")["state"], "CREATING");

  Advance("n1", Phase::kRunning);
  EXPECT_EQ(Ok("GET", path)["done"], true);
  EXPECT_EQ(Ok("GET", path)["response"]["@type"], "type.googleapis.com/google.cloud.tpu.v2.Node");
  const json node = Ok("GET", std::string(kNodes) + "/n1");
  EXPECT_EQ(node["state"], "READY");
  EXPECT_EQ(node["health"], "HEALTHY");
  EXPECT_EQ(node["acceleratorConfig"]["type"], "V2");
  EXPECT_EQ(node["networkEndpoints"][0]["ipAddress"], "10.128.0.2");
  EXPECT_EQ(node["networkEndpoints"][0]["accessConfig"]["externalIp"], "10.128.0.2");

  Ok("POST", std::string(kNodes) + "/n1:stop");
  EXPECT_EQ(Ok("GET", std::string(kNodes) + "/n1")["state"], "STOPPING");
  Advance("n1", Phase::kStopped);
  Ok("POST", std::string(kNodes) + "/n1:start", "{}");
  Advance("n1", Phase::kRunning);
  Ok("DELETE", std::string(kNodes) + "/n1");
  EXPECT_EQ(Ok("GET", std::string(kNodes) + "/n1")["state"], "DELETING");
}

TEST_F(ApiTest, ANodeByTopology) {
  const std::string nodes = "/v2/projects/p/locations/us-central2-b/nodes";
  Ok("POST", nodes + "?nodeId=n1",
     R"({"acceleratorConfig": {"type": "V4", "topology": "2x2x1"},
         "runtimeVersion": "tpu-ubuntu2204-base"})");
  EXPECT_EQ(Ok("GET", nodes + "/n1")["acceleratorType"], "v4-8");
}

TEST_F(ApiTest, RefusesWhatACreateGetsWrong) {
  Create("taken");
  const std::string create = std::string(kNodes) + "?nodeId=n1";
  const auto with = [](const std::string& field) {
    json body = json::parse(kV2_8);
    body.update(json::parse(field));
    return body.dump();
  };
  Refused("POST", std::string(kNodes) + "?nodeId=taken", kV2_8, 409, "already exists");
  for (const char* id : {"", "N", "1n", "n_1", "n-"})
    Refused("POST", std::string(kNodes) + "?nodeId=" + id, kV2_8, 400, "node id");
  Refused("POST", "/v2/projects/p/locations/mars/nodes?nodeId=n1", kV2_8, 403,
          "Permission denied on 'locations/mars' (or it may not exist)");
  Refused("POST", "/v2/projects/p/locations/-/nodes?nodeId=n1", kV2_8, 403, "locations/-");
  Refused("POST", create, with(R"({"acceleratorType": "v9-8"})"), 400,
          "accelerator type, \"v9-8\", could not be found in the zonal accelerator configurations "
          "for \"us-central1-a\"");
  Refused("POST", create, with(R"({"acceleratorType": "v6e-8"})"), 400, "\"v6e-8\", could not be");
  Refused("POST", create, with(R"({"acceleratorType": ""})"), 400, "type is required");
  Refused("POST", create, with(R"({"acceleratorConfig": {"type": "V2", "topology": "2x2"}})"), 400,
          "not both");
  Refused("POST", create, with(R"({"runtimeVersion": "tpu-vm-tf-99"})"), 400, "tpu-vm-tf-99");
  Refused("POST", create, with(R"({"runtimeVersion": ""})"), 400, "runtime version is required");
  Refused("POST", create, with(R"({"labels": {"Team": "x"}})"), 400, "label key \"Team\"");
  Refused("POST", create, with(R"({"tags": ["Bad"]})"), 400, "tag \"Bad\"");
  Refused("POST", create, with(R"({"metadata": {"a b": "x"}})"), 400, "metadata key \"a b\"");
  Refused("POST", create, with(R"({"acceleratorType": "v2-32"})"), 400, "4 hosts");
  Refused("POST", create, with(R"({"metadata": {"k": ")" + std::string(300 << 10, 'x') + R"("}})"),
          400, "bytes");
}

TEST_F(ApiTest, UpdatesWhatTheMaskNames) {
  Create("n1", R"({"acceleratorType": "v2-8", "runtimeVersion": "tpu-ubuntu2204-base",
                   "labels": {"a": "1"}, "metadata": {"k": "old"}})");
  const std::string node = std::string(kNodes) + "/n1";
  Refused("PATCH", node + "?updateMask=labels", R"({"labels": {}})", 400,
          "update is not supported while in state CREATING");
  Advance("n1", Phase::kRunning);
  Ok("PATCH", node + "?updateMask=metadata,tags",
     R"({"metadata": {"k": "new"}, "tags": ["t"], "labels": {"ignored": "x"}})");
  const json after = Ok("GET", node);
  EXPECT_EQ(after["metadata"]["k"], "new");
  EXPECT_EQ(after["tags"][0], "t");
  EXPECT_EQ(after["labels"], json({{"a", "1"}}));
  Refused("PATCH", node, R"({"labels": {}})", 400, "update_mask is required");
  Refused("PATCH", node + "?updateMask=colour", "{}", 400, "\"colour\" is not a field of a node");
  Refused("PATCH", node + "?updateMask=acceleratorType", "{}", 400,
          "\"accelerator_type\" cannot be updated");
  Refused("PATCH", node + "?updateMask=labels", R"({"labels": {"X": "y"}})", 400, "label key");
}

TEST_F(ApiTest, RefusesVerbsThatTheStateForbids) {
  Create("n1");
  const std::string node = std::string(kNodes) + "/n1";
  Refused("POST", node + ":stop", "", 400, "stop is not supported while in state CREATING");
  Advance("n1", Phase::kRunning);
  Refused("POST", node + ":start", "", 400, "start is not supported while in state READY");
  Ok("DELETE", node);
  Refused("DELETE", node, "", 400, "delete is not supported while in state DELETING");
}

TEST_F(ApiTest, SaysWhatIsMissing) {
  const std::string node = std::string(kNodes) + "/nobody";
  for (const auto& [verb, suffix] :
       std::vector<std::pair<std::string, std::string>>{{"GET", ""},
                                                        {"DELETE", ""},
                                                        {"POST", ":stop"},
                                                        {"POST", ":start"},
                                                        {"POST", ":getGuestAttributes"},
                                                        {"PATCH", "?updateMask=labels"}})
    Refused(verb, node + suffix, "", 404,
            "Resource 'projects/p/locations/us-central1-a/nodes/nobody' was not found");
  Refused("GET", std::string(kZone) + "/operations/nothing", "", 404, "was not found");
  Refused("GET", std::string(kZone) + "/acceleratorTypes/v9-8", "", 404, "was not found");
  Refused("GET", std::string(kZone) + "/runtimeVersions/zero", "", 404, "was not found");
  Refused("GET", "/v2/projects/p/locations/mars/nodes", "", 403, "Permission denied");
}

TEST_F(ApiTest, ListsInPagesAndAcrossZones) {
  for (int i = 0; i < 5; ++i) Create("n" + std::to_string(i));
  Ok("POST", "/v2/projects/p/locations/us-central1-b/nodes?nodeId=other", kV2_8);
  Ok("POST", "/v2/projects/q/locations/us-central1-b/nodes?nodeId=foreign", kV2_8);
  std::vector<std::string> seen;
  std::string token;
  do {
    const json page = Ok("GET", std::string(kNodes) + "?pageSize=2&pageToken=" + token);
    EXPECT_LE(page["nodes"].size(), 2u);
    for (const auto& node : page["nodes"]) seen.push_back(node["name"]);
    token = page.value("nextPageToken", "");
  } while (!token.empty());
  EXPECT_EQ(seen.size(), 5u);
  EXPECT_TRUE(std::ranges::is_sorted(seen));
  EXPECT_EQ(Ok("GET", "/v2/projects/p/locations/-/nodes")["nodes"].size(), 6u);
  Refused("GET", std::string(kNodes) + "?pageSize=-1", "", 400, "negative");
  Refused("GET", std::string(kNodes) + "?pageToken=zzz", "", 400, "page_token");
}

TEST_F(ApiTest, CancelsACreateAndDeletesOperations) {
  const std::string operation = "/v2/" + Create("n1")["name"].get<std::string>();
  Refused("DELETE", operation, "", 400, "is not done");
  Ok("POST", operation + ":cancel", "{}");
  EXPECT_EQ(Ok("GET", operation)["metadata"]["cancelRequested"], true);
  Advance("n1", Phase::kUnknown);
  EXPECT_EQ(Ok("GET", std::string(kNodes) + "/n1")["state"], "DELETING");
  Advance("n1", Phase::kDeleted);
  EXPECT_EQ(Ok("GET", operation)["error"]["code"], 1);
  Ok("DELETE", operation);
  EXPECT_EQ(Call("GET", operation).first, 404);
}

TEST_F(ApiTest, ShowsTheCatalogue) {
  const json types = Ok("GET", std::string(kZone) + "/acceleratorTypes");
  EXPECT_THAT(types["acceleratorTypes"].dump(), HasSubstr("\"v2-8\""));
  EXPECT_EQ(
      Ok("GET", std::string(kZone) + "/acceleratorTypes/v2-8")["acceleratorConfigs"][0]["type"],
      "V2");
  EXPECT_THAT(Ok("GET", std::string(kZone) + "/runtimeVersions").dump(), HasSubstr("\"2.13.0\""));
  EXPECT_THAT(Ok("GET", "/v2/projects/p/locations").dump(), HasSubstr("\"us-central1-a\""));
  EXPECT_EQ(Ok("GET", kZone)["locationId"], "us-central1-a");
  EXPECT_THAT(Ok("POST", std::string(kZone) + ":generateServiceIdentity", "{}").dump(),
              HasSubstr("cloud-tpu.iam"));
}

TEST_F(ApiTest, KeepsAProjectsMetadataByFingerprint) {
  const std::string project = "/compute/v1/projects/p";
  const json before = Ok("GET", project);
  const json metadata = {{"fingerprint", before["commonInstanceMetadata"]["fingerprint"]},
                         {"items", {{{"key", "ssh-keys"}, {"value", "ann:ssh-ed25519 AAAA"}}}}};
  EXPECT_EQ(Ok("POST", project + "/setCommonInstanceMetadata", metadata.dump())["status"], "DONE");
  EXPECT_EQ(Ok("GET", project)["commonInstanceMetadata"]["items"][0]["key"], "ssh-keys");
  Refused("POST", project + "/setCommonInstanceMetadata", metadata.dump(), 400, "fingerprint");
  const auto with = [](const std::string& key, const std::string& value) {
    return json({{"items", {{{"key", key}, {"value", value}}}}}).dump();
  };
  Refused("POST", project + "/setCommonInstanceMetadata", with("../x", "y"), 400, "\"../x\"");
  Refused("POST", project + "/setCommonInstanceMetadata", with("", "y"), 400, "metadata key");
  Refused("POST", project + "/setCommonInstanceMetadata", with("k", std::string(600 << 10, 'x')),
          400, "bytes");
}

}  // namespace
}  // namespace torus::api
