#include "worker/metadata_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "slice/description.h"

namespace torus::worker {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

VmSpec Example() {
  VmSpec vm;
  vm.set_project("p");
  vm.set_project_number(123);
  vm.set_zone("us-central1-a");
  vm.set_node_id("my-first-tpu");
  vm.set_node_uid("u");
  vm.set_instance_id(42);
  vm.set_host_name("t1v-n-1-w-0");
  vm.set_accelerator_type("v2-8");
  vm.set_topology("2x2");
  vm.set_address("10.128.0.9");
  vm.add_worker_addresses("10.128.0.9");
  vm.set_service_account_email("s@p.iam.gserviceaccount.com");
  vm.add_tags("web");
  (*vm.mutable_metadata())["my-key"] = "my value";
  (*vm.mutable_metadata())["accelerator-type"] = "v5e-1";
  (*vm.mutable_project_metadata())["ssh-keys"] = "a:ssh-rsa AAAA";
  return vm;
}

class MetadataTreeTest : public testing::Test {
 protected:
  MetadataAnswer Get(const std::string& path) const {
    return Answer(tree_, ParseTarget("/computeMetadata/v1/" + path));
  }
  const MetadataNode tree_ = MetadataTree(Example(), 1000);
};

TEST_F(MetadataTreeTest, AnswersWhatClientsRead) {
  EXPECT_EQ(Get("project/project-id").body, "p");
  EXPECT_EQ(Get("project/numeric-project-id").body, "123");
  EXPECT_EQ(Get("instance/id").body, "42");
  EXPECT_EQ(Get("instance/zone").body, "projects/123/zones/us-central1-a");
  EXPECT_EQ(Get("instance/hostname").body, "t1v-n-1-w-0.us-central1-a.c.p.internal");
  EXPECT_EQ(Get("instance/network-interfaces/0/ip").body, "10.128.0.9");
  EXPECT_EQ(Get("instance/network-interfaces/0/access-configs/0/external-ip").body, "10.128.0.9");
  EXPECT_EQ(Get("instance/attributes/agent-worker-number").body, "0");
  EXPECT_EQ(Get("instance/attributes/worker-network-endpoints").body, "unknown:unknown:10.128.0.9");
  EXPECT_EQ(Get("instance/attributes/my-key").body, "my value");
  EXPECT_EQ(Get("instance/attributes/accelerator-type").body, "v2-8");
  EXPECT_EQ(Get("instance/tags").body, R"(["web"])");
  EXPECT_EQ(Get("universe/universe-domain").body, "googleapis.com");
}

TEST_F(MetadataTreeTest, TheTpusApiKnowsTheVmsOwnNode) {
  const auto get = [&](const std::string& target) { return Answer(tree_, ParseTarget(target)); };
  const auto document = Json::parse(get("/discovery/tpu?version=v1").body);
  EXPECT_EQ(document["resources"]["projects"]["resources"]["locations"]["resources"]["nodes"]
                    ["methods"]["get"]["response"]["$ref"],
            "Node");
  const std::string nodes = "/v1/projects/p/locations/us-central1-a/nodes/";
  const auto node = Json::parse(get(nodes + "my-first-tpu?alt=json").body);
  EXPECT_EQ(node["state"], "READY");
  EXPECT_EQ(node["networkEndpoints"],
            Json::parse(R"([{"ipAddress": "10.128.0.9", "port": 8470}])"));
  const auto other = get(nodes + "another");
  EXPECT_EQ(other.status, 404);
  EXPECT_THAT(other.body, HasSubstr("'projects/p/locations/us-central1-a/nodes/my-first-tpu'"));
  EXPECT_EQ(get("/v1/").status, 404);
  // Whatever the bytes of a name are: the answer is JSON.
  const auto garbage = get("/v1/\xff%c3%00%ed%a0%80");
  EXPECT_EQ(garbage.status, 404);
  EXPECT_TRUE(nlohmann::json::accept(garbage.body)) << garbage.body;
  EXPECT_EQ(get("/discovery").status, 404);
  EXPECT_THAT(Get("?recursive=true").body, Not(HasSubstr("discovery")));
}

TEST_F(MetadataTreeTest, TpuEnvIsTheSlicesDescription) {
  const auto slice = slice::Parse(Get("instance/attributes/tpu-env").body);
  ASSERT_TRUE(slice) << slice.error().ToString();
  EXPECT_EQ(slice->accelerator_type, "v2-8");
  EXPECT_EQ(slice->node_id, "my-first-tpu");
}

TEST_F(MetadataTreeTest, GoogleAuthFindsItsAccount) {
  const auto account = Get("instance/service-accounts/default/?recursive=true");
  EXPECT_EQ(account.content_type, "application/json");
  EXPECT_EQ(Json::parse(account.body),
            Json({{"aliases", {"default"}},
                  {"email", "s@p.iam.gserviceaccount.com"},
                  {"scopes", {"https://www.googleapis.com/auth/cloud-platform"}}}));
  const auto token = Get("instance/service-accounts/default/token?scopes=a%2Cb");
  EXPECT_EQ(token.content_type, "application/json");
  EXPECT_EQ(Json::parse(token.body)["token_type"], "Bearer");
}

TEST_F(MetadataTreeTest, DirectoriesListAndRedirect) {
  EXPECT_EQ(Get("").body, "instance/\nproject/\nuniverse/\n");
  EXPECT_EQ(Get("project").status, 301);
  EXPECT_EQ(Get("project").location, "/computeMetadata/v1/project/");
  EXPECT_EQ(Get("project/").body, "attributes/\nnumeric-project-id\nproject-id\n");
}

TEST_F(MetadataTreeTest, RecursiveIsCamelCaseButForAttributes) {
  const Json all = Json::parse(Get("?recursive=true").body);
  EXPECT_EQ(all["instance"]["networkInterfaces"][0]["accessConfigs"][0]["externalIp"],
            "10.128.0.9");
  EXPECT_EQ(all["instance"]["attributes"]["my-key"], "my value");
  EXPECT_EQ(all["instance"]["id"], 42);
  EXPECT_FALSE(all["instance"]["serviceAccounts"]["default"].contains("token"));
  EXPECT_THAT(Get("project/?recursive=true&alt=text").body, HasSubstr("project-id p\n"));
  EXPECT_EQ(Get("instance/name?alt=json").body, "\"t1v-n-1-w-0\"");
}

TEST_F(MetadataTreeTest, WhatIsNotThereIs404) {
  for (const char* path : {"none", "instance/none", "instance/id/", "instance/id/x", "instance//id",
                           "instance/network-interfaces/1/ip"})
    EXPECT_EQ(Get(path).status, 404) << path;
  EXPECT_EQ(Answer(tree_, ParseTarget("/other")).status, 404);
  EXPECT_EQ(Answer(tree_, ParseTarget("/computeMetadata/v1x")).status, 404);
  EXPECT_EQ(Answer(tree_, ParseTarget("%")).status, 404);
}

TEST_F(MetadataTreeTest, BadBytesDoNoHarm) {
  VmSpec vm = Example();
  // A proto's string is UTF-8, but a map set in memory need not be.
  (*vm.mutable_metadata())["bad"] = "\xff";
  EXPECT_EQ(Answer(MetadataTree(vm, 0), ParseTarget("/computeMetadata/v1/?recursive=true")).status,
            200);
}

}  // namespace
}  // namespace torus::worker
