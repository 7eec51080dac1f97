// Flag values, the service's address and the errors of its replies.
#include "cli/values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/client.h"
#include "cli/foreground.h"
#include "cli/operation.h"
#include "cli/tpu_vm_create.h"
#include "cli/tpu_vm_ssh.h"
#include "cli/tpu_vm_update.h"

namespace torus::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(Values, Lists) {
  EXPECT_THAT(ParseList("a,b"), ElementsAre("a", "b"));
  EXPECT_THAT(ParseList("^:^a,b:c"), ElementsAre("a,b", "c"));
  EXPECT_THAT(ParseList("^::^a:b::c"), ElementsAre("a:b", "c"));
  EXPECT_THAT(ParseList("^x"), ElementsAre("^x"));
  EXPECT_THAT(ParseList(""), ElementsAre());
}

TEST(Values, Maps) {
  // gcloud 528 lets a repeated key pass, too, and takes the last.
  EXPECT_THAT(*ParseMap({"a=b,c=d=e", "a=z"}), ElementsAre(Pair("a", "z"), Pair("c", "d=e")));
  EXPECT_THAT(*ParseMap({"a="}), ElementsAre(Pair("a", "")));
  EXPECT_FALSE(ParseMap({"a"}));
  EXPECT_FALSE(ParseMap({"=b"}));
  EXPECT_EQ(ParseMetadataFiles({"a=/nonexistent"}).error().code(), Code::kNotFound);
}

TEST(Values, NodeNames) {
  EXPECT_EQ(ParseNodeName("n", "p", "z")->ToString(), "projects/p/locations/z/nodes/n");
  EXPECT_EQ(ParseNodeName("projects/a/locations/b/nodes/c", "p", "z")->ToString(),
            "projects/a/locations/b/nodes/c");
  EXPECT_EQ(ParseNodeName("projects/a/zones/b/nodes/c", "p", "z")->zone, "b");
  for (const char* text : {"", "a/b", "projects/a/locations/b/operations/c", "/"})
    EXPECT_FALSE(ParseNodeName(text, "p", "z")) << text;
}

TEST(Values, Workers) {
  EXPECT_THAT(*ParseWorkers("0", 1), ElementsAre(0));
  EXPECT_THAT(*ParseWorkers("all", 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(*ParseWorkers("3,0-1,1", 4), ElementsAre(0, 1, 3));
  for (const char* text : {"", "x", "4", "2-1", "1-", "-1", "0-9", "1.5"})
    EXPECT_FALSE(ParseWorkers(text, 4)) << text;
  EXPECT_EQ(ParseWorkers("4", 4).error().message(),
            "worker 4 does not exist; this node has workers 0 to 3");
  EXPECT_EQ(ParseWorkers("7", 1).error().message(),
            "worker 7 does not exist; this node has one worker, 0");
}

TEST(Values, Users) {
  EXPECT_THAT(SplitUser("ada@my-tpu"), Pair("ada", "my-tpu"));
  EXPECT_THAT(SplitUser("my-tpu"), Pair("", "my-tpu"));
}

TEST(Endpoints, AreRead) {
  EXPECT_EQ(ParseEndpoint("http://127.0.0.1:7470")->ToString(), "http://127.0.0.1:7470");
  EXPECT_EQ(ParseEndpoint("http://localhost/")->ToString(), "http://localhost:80");
  EXPECT_EQ(ParseEndpoint("http://[::1]:7470")->ToString(), "http://[::1]:7470");
  EXPECT_EQ(ParseEndpoint("http://[::1]:7470")->host, "::1");
  for (const char* text :
       {"", "127.0.0.1:7470", "https://a", "http://", "http://a:0", "http://a:x", "http://a:99999",
        "http://a/b", "http://u@a", "http://[::1", "http://:1", "http://a:"})
    EXPECT_FALSE(ParseEndpoint(text)) << text;
}

TEST(Replies, ErrorsAreTheServices) {
  const Status status =
      ReplyError(404, R"({"error":{"code":404,"message":"no such node","status":"NOT_FOUND"}})");
  EXPECT_EQ(status, Status(Code::kNotFound, "no such node"));
  EXPECT_THAT(ReplyError(502, "<html>\nx").message(), HasSubstr("HTTP 502"));
  EXPECT_THAT(ReplyError(500, R"({"error":7})").message(), HasSubstr("HTTP 500"));
  EXPECT_EQ(ReplyError(418, R"({"error":{"message":"m","status":"TEAPOT"}})").code(),
            Code::kUnknown);
}

TEST(Replies, NamesAreEncoded) { EXPECT_EQ(PercentEncode("a b/é~"), "a%20b%2F%C3%A9~"); }

TEST(Operations, EndInAResponseOrAnError) {
  const auto done = OperationResult(
      Json::parse(R"({"done":true,"response":{"@type":"type.googleapis.com/x","name":"n"}})"));
  ASSERT_TRUE(done);
  EXPECT_EQ(*done, Json::parse(R"({"name":"n"})"));
  const auto failed =
      OperationResult(Json::parse(R"({"done":true,"error":{"code":8,"message":"full"}})"));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error(), Status(Code::kResourceExhausted, "full"));
  EXPECT_EQ(*OperationResult(Json::parse(R"({"done":true})")), Json::object());
  EXPECT_EQ(StatusDetail(Json::parse(R"({"metadata":{"statusDetail":"x"}})")), "x");
  EXPECT_EQ(StatusDetail(Json::object()), "");
}

TEST(Create, AsksForWhatTheFlagsSay) {
  CreateFlags flags;
  flags.version = "tpu-vm-base";
  flags.internal_ips = true;
  flags.data_disks = {"source=projects/p/zones/z/disks/d,mode=read-only"};
  flags.scopes = "a,b";
  flags.service_account = "me";
  EXPECT_EQ(*NodeFromFlags(flags), Json::parse(R"({
    "acceleratorType": "v2-8", "runtimeVersion": "tpu-vm-base",
    "networkConfig": {"network": "default", "enableExternalIps": false},
    "serviceAccount": {"email": "me", "scope": ["a", "b"]},
    "dataDisks": [{"mode": "READ_ONLY", "sourceDisk": "projects/p/zones/z/disks/d"}]})"));
}

TEST(Create, TakesAGenerationByAnyName) {
  for (const char* type : {"v5litepod", "v5e", "V5LITE_POD"}) {
    CreateFlags flags;
    flags.type = type;
    flags.topology = "2x4";
    EXPECT_EQ((*NodeFromFlags(flags))["acceleratorConfig"]["type"], "V5LITE_POD") << type;
  }
}

TEST(Create, RefusesWhatDoesNotGoTogether) {
  CreateFlags flags;
  flags.type = "v4";
  EXPECT_FALSE(NodeFromFlags(flags));
  flags.topology = "2x2x1";
  flags.accelerator_type = "v4-8";
  EXPECT_FALSE(NodeFromFlags(flags));
  CreateFlags sideways;
  sideways.data_disks = {"source=d,mode=sideways"};
  EXPECT_THAT(NodeFromFlags(sideways).error().message(), HasSubstr("read-only or read-write"));
}

TEST(Update, ClearsThenUpdatesThenRemoves) {
  const Json node = Json::parse(
      R"({"labels":{"a":"1","b":"2"},"tags":["y","x"],"metadata":{"k":"v"},"description":"d"})");
  UpdateFlags flags;
  flags.clear_labels = true;
  flags.update_labels = {"c=3"};
  flags.remove_tags = "x";
  const auto change = ChangeFromFlags(flags, node);
  ASSERT_TRUE(change);
  EXPECT_EQ(change->node, Json::parse(R"({"labels":{"c":"3"},"tags":["y"]})"));
  EXPECT_THAT(change->mask, ElementsAre("labels", "tags"));
}

TEST(Update, WithoutAChangeIsRefused) {
  const Json node = Json::parse(R"({"labels":{"a":"1"},"tags":["y","x"]})");
  UpdateFlags flags;
  flags.update_labels = {"a=1"};
  flags.add_tags = "x";
  EXPECT_FALSE(ChangeFromFlags(flags, node));
  flags.description = "";
  EXPECT_FALSE(ChangeFromFlags(flags, node));
  flags.description = "new";
  EXPECT_TRUE(ChangeFromFlags(flags, node));
}

TEST(Copies, AreToldApart) {
  EXPECT_FALSE(ParseCopyEnd("file").remote());
  EXPECT_FALSE(ParseCopyEnd("./a:b").remote());
  EXPECT_FALSE(ParseCopyEnd(":x").remote());
  const CopyEnd end = ParseCopyEnd("ada@my-tpu:~/x:y");
  EXPECT_EQ(end.user, "ada");
  EXPECT_EQ(end.tpu, "my-tpu");
  EXPECT_EQ(end.path, "~/x:y");
  EXPECT_EQ(ParseCopyEnd("my-tpu:").path, "");
}

TEST(Copies, GoOneWay) {
  ScpCommandFlags flags;
  flags.paths = {"a", "b", "ada@tpu:"};
  EXPECT_TRUE(CheckCopy(flags).ok());
  EXPECT_EQ(flags.node, "tpu");
  EXPECT_EQ(flags.user, "ada");
  for (const std::vector<std::string>& paths : {std::vector<std::string>{"a", "b"},
                                                {"t:a", "t:b"},
                                                {"t:a", "u:b", "."},
                                                {"a", "t:b", "."},
                                                {"t:a"}}) {
    flags.paths = paths;
    EXPECT_FALSE(CheckCopy(flags).ok());
  }
}

TEST(Sessions, ANodeThatIsNotReadyIsRefusedWithAWayOut) {
  const NodeName name{"p", "z", "n"};
  EXPECT_TRUE(CheckReady(Json{{"state", "READY"}}, name).ok());
  EXPECT_THAT(CheckReady(Json{{"state", "STOPPED"}}, name).message(),
              HasSubstr("torus tpu-vm start n --zone=z"));
  EXPECT_THAT(CheckReady(Json{{"state", "PREEMPTED"}}, name).message(),
              HasSubstr("torus tpu-vm delete n"));
  EXPECT_THAT(CheckReady(Json{{"state", "CREATING"}}, name).message(), HasSubstr("CREATING"));
  EXPECT_EQ(CheckReady(Json::object(), name).code(), Code::kFailedPrecondition);
}

TEST(Sessions, WorkersHaveTheirAddresses) {
  const Json node = Json::parse(R"({"networkEndpoints": [
      {"ipAddress": "10.0.0.1", "accessConfig": {"externalIp": "1.2.3.4"}},
      {"ipAddress": "10.0.0.2"}, {}]})");
  const auto workers = FindWorkers(node, "0,1", false);
  ASSERT_TRUE(workers);
  EXPECT_EQ((*workers)[0].address, "1.2.3.4");
  EXPECT_EQ((*workers)[1].address, "10.0.0.2");
  EXPECT_EQ((*FindWorkers(node, "0", true))[0].address, "10.0.0.1");
  EXPECT_EQ(FindWorkers(node, "2", false).error().code(), Code::kFailedPrecondition);
}

TEST(Sessions, SshIsToldAllItNeeds) {
  const SshSession session{.user = "ada",
                           .workers = {{0, "1.2.3.4", "10.0.0.1"}},
                           .key_file = "/k",
                           .known_hosts = "/h",
                           .node_id = "42",
                           .host_keys_known = true};
  SshCommandFlags flags;
  flags.ssh_flags = {"-L 80:%TPU%:80"};
  flags.command = "echo it's";
  const auto programs = SshPrograms(session, flags);
  EXPECT_EQ(ToShell(programs),
            "ssh -i /k -o CheckHostIP=no -o ConnectTimeout=20 -o HashKnownHosts=no -o "
            "HostKeyAlias=tpu.42-0 -o IdentitiesOnly=yes -o StrictHostKeyChecking=yes -o "
            "UserKnownHostsFile=/h -L "
            "80:1.2.3.4:80 ada@1.2.3.4 -- 'echo it'\\''s'\n");
  flags.plain = true;
  flags.ssh_flags.clear();
  flags.command.clear();
  EXPECT_EQ(ToShell(SshPrograms(session, flags)), "ssh -t ada@1.2.3.4\n");
}

}  // namespace
}  // namespace torus::cli
