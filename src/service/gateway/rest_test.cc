#include "service/gateway/rest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>

#include "google/cloud/tpu/v2/cloud_tpu.pb.h"
#include "google/longrunning/operations.pb.h"
#include "service/gateway/json.h"

namespace torus::gateway {
namespace {

namespace v2 = google::cloud::tpu::v2;
using google::longrunning::Operation;
using nlohmann::json;
using ::testing::HasSubstr;

// The whole Tpu service, with bodies that show what reached them.
class RestTest : public ::testing::Test {
 protected:
  RestTest() {
    path_ = std::filesystem::temp_directory_path() / ("rest_test_" + std::to_string(getpid()));
    std::filesystem::create_directories(path_);
    store_ = *store::Store::Open(path_ / "torus.db");
    registry_ = std::make_unique<Registry>(*store_);
    registry_->AddService(v2::Node::descriptor()->file()->FindServiceByName("Tpu"));
    registry_->Read<v2::GetNodeRequest, v2::Node>(
        "google.cloud.tpu.v2.Tpu.GetNode",
        [](store::View&, const v2::GetNodeRequest& request) -> Result<v2::Node> {
          if (request.name().ends_with("missing"))
            return NotFound("Resource '{}' was not found", request.name());
          v2::Node node;
          node.set_name(request.name());
          node.set_state(v2::Node::READY);
          node.set_id(12);
          return node;
        });
    registry_->Read<v2::ListNodesRequest, v2::ListNodesResponse>(
        "google.cloud.tpu.v2.Tpu.ListNodes",
        [](store::View&, const v2::ListNodesRequest& request) -> Result<v2::ListNodesResponse> {
          v2::ListNodesResponse response;
          response.set_next_page_token(request.page_token() + "/" +
                                       std::to_string(request.page_size()));
          return response;
        });
    registry_->Write<v2::CreateNodeRequest, Operation>(
        "google.cloud.tpu.v2.Tpu.CreateNode",
        [](store::Transaction&, const v2::CreateNodeRequest& request) -> Result<Operation> {
          Operation operation;
          operation.set_name(request.parent() + "/" + request.node_id());
          v2::Node node = request.node();
          operation.mutable_response()->PackFrom(node);
          return operation;
        });
    registry_->Write<v2::UpdateNodeRequest, Operation>(
        "google.cloud.tpu.v2.Tpu.UpdateNode",
        [](store::Transaction&, const v2::UpdateNodeRequest& request) -> Result<Operation> {
          Operation operation;
          operation.set_name(request.node().name() + "?" +
                             request.update_mask().ShortDebugString());
          return operation;
        });
    rest_ = std::make_unique<Rest>(*registry_);
  }
  ~RestTest() override {
    store_.reset();
    std::filesystem::remove_all(path_);
  }

  RestResponse Call(std::string verb, std::string target, std::string body = "") {
    std::promise<RestResponse> promise;
    rest_->Handle({std::move(verb), std::move(target), std::move(body)},
                  [&](RestResponse response) { promise.set_value(std::move(response)); });
    return promise.get_future().get();
  }
  std::string Message(const RestResponse& response) {
    return json::parse(response.body)["error"]["message"];
  }

  std::filesystem::path path_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<Registry> registry_;
  std::unique_ptr<Rest> rest_;
};

constexpr char kNodes[] = "/v2/projects/p/locations/z/nodes";

TEST_F(RestTest, GetsAResource) {
  const auto response = Call("GET", std::string(kNodes) + "/n1");
  EXPECT_EQ(response.status, 200);
  const auto node = json::parse(response.body);
  EXPECT_EQ(node["name"], "projects/p/locations/z/nodes/n1");
  EXPECT_EQ(node["state"], "READY");
  EXPECT_EQ(node["id"], "12") << "64-bit integers are strings in JSON";
}

TEST_F(RestTest, HonoursAltAndPrettyPrint) {
  const auto response =
      Call("GET", std::string(kNodes) + "/n1?$alt=json;enum-encoding=int&prettyPrint=false");
  EXPECT_EQ(json::parse(response.body)["state"], 2);
  EXPECT_EQ(response.body.find('\n'), std::string::npos);
  EXPECT_EQ(Call("GET", std::string(kNodes) + "/n1?alt=media").status, 400);
}

TEST_F(RestTest, BindsQueryParameters) {
  const auto body =
      json::parse(Call("GET", std::string(kNodes) + "?pageSize=5&page_token=a%2Bb+c").body);
  EXPECT_EQ(body["nextPageToken"], "a+b c/5");
  const auto wrong = Call("GET", std::string(kNodes) + "?pageSize=five");
  EXPECT_EQ(wrong.status, 400);
  EXPECT_THAT(Message(wrong), HasSubstr("page_size"));
  const auto unknown = Call("GET", std::string(kNodes) + "?pagesize=5");
  EXPECT_EQ(unknown.status, 400);
  EXPECT_THAT(Message(unknown), HasSubstr("Unknown name \"pagesize\""));
}

TEST_F(RestTest, PutsTheBodyWhereTheAnnotationSays) {
  const auto response =
      Call("POST", std::string(kNodes) + "?nodeId=n1", R"({"acceleratorType": "v2-8"})");
  const auto operation = json::parse(response.body);
  EXPECT_EQ(operation["name"], "projects/p/locations/z/n1");
  EXPECT_EQ(operation["done"], false) << "clients index it";
  EXPECT_EQ(operation["response"]["acceleratorType"], "v2-8");
}

TEST_F(RestTest, ThePathSaysWhichResource) {
  const auto response =
      Call("PATCH", std::string(kNodes) + "/n1?updateMask=labels,networkConfig.network",
           R"({"name": "projects/q/locations/z/nodes/other"})");
  EXPECT_EQ(json::parse(response.body)["name"],
            "projects/p/locations/z/nodes/n1?paths: \"labels\" paths: \"network_config.network\"");
}

TEST_F(RestTest, AnswersErrorsAsUpstreamDoes) {
  const auto missing = Call("GET", std::string(kNodes) + "/missing");
  EXPECT_EQ(missing.status, 404);
  const auto error = json::parse(missing.body)["error"];
  EXPECT_EQ(error["code"], 404);
  EXPECT_EQ(error["status"], "NOT_FOUND");
  EXPECT_EQ(Call("POST", std::string(kNodes) + "/n1:stop").status, 501);
  EXPECT_EQ(Call("GET", "/nowhere").status, 404);
  EXPECT_EQ(Call("BREW", kNodes).status, 404);
}

// Every kind of body that a user can get wrong: the error names what and where.
TEST_F(RestTest, RefusesBadBodies) {
  const std::string deep = std::string(2000, '[') + std::string(2000, ']');
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{", "Invalid JSON payload received"},
      {"[]", "must be a JSON object, not array"},
      {"\"x\"", "must be a JSON object, not string"},
      {"{\"description\": \"\xff\xfe\"}", "Invalid JSON payload received"},
      {"{\"labels\": " + deep + "}", "too deep"},
      {R"({"acceleratorTyp": "v2-8"})",
       "Unknown name \"acceleratorTyp\" at 'node': Cannot find field."},
      {R"({"networkConfig": {"nett": "x"}})",
       "Unknown name \"nett\" at 'node.network_config': Cannot find field."},
      {R"({"dataDisks": [{}, {"x": 1}]})", "Unknown name \"x\" at 'node.data_disks[1]'"},
      {R"({"labels": {"a": 5.5}, "id": "twelve"})", "Invalid value at 'node'"},
      {R"({"schedulingConfig": "spot"})", "Invalid value at 'node'"},
      {R"({"state": "SLEEPING"})", "Invalid value at 'node'"},
  };
  for (const auto& [body, message] : cases) {
    const auto response = Call("POST", std::string(kNodes) + "?nodeId=n1", body);
    EXPECT_EQ(response.status, 400) << body;
    EXPECT_THAT(Message(response), HasSubstr(message)) << body;
  }
}

TEST_F(RestTest, AcceptsNamesThatOnlyTheDiscoveryDocumentKnows) {
  const auto response = Call("POST", std::string(kNodes) + "?nodeId=n1",
                             R"({"bootDiskConfig": {"customerEncryptionKey": {}}, "tags": ["a"]})");
  EXPECT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(json::parse(response.body)["response"]["tags"][0], "a");
}

TEST(HttpStatus, FollowsTheCanonicalTable) {
  EXPECT_EQ(HttpStatus(Code::kInvalidArgument), 400);
  EXPECT_EQ(HttpStatus(Code::kResourceExhausted), 429);
  EXPECT_EQ(HttpStatus(Code::kAlreadyExists), 409);
  EXPECT_EQ(HttpStatus(Code::kUnavailable), 503);
  EXPECT_EQ(HttpStatus(static_cast<Code>(99)), 500);
}

}  // namespace
}  // namespace torus::gateway
