#include "service/model/node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "service/model/operation.h"

namespace torus::model {
namespace {

using Phase = Observation::Phase;
using ::testing::HasSubstr;

google::protobuf::Timestamp At(int64_t seconds) {
  google::protobuf::Timestamp time;
  time.set_seconds(seconds);
  return time;
}

// A node with the operation that brought it where it is.
struct Life {
  NodeRecord node;
  std::vector<OperationRecord> operations;

  explicit Life(NodeState state = CREATING, std::string_view verb = "create") {
    node.set_name("projects/p/locations/z/nodes/n");
    node.set_state(state);
    node.set_generation(1);
    node.add_hosts();
    if (!verb.empty()) operations.push_back(BeginOperation(verb, At(1), &node));
  }
  void Begin(std::string_view verb) {
    ASSERT_TRUE(CheckVerb(verb, node.state()).ok());
    BeginVerb(verb, &node);
    operations.push_back(BeginOperation(verb, At(2), &node));
  }
  Advance See(Phase phase, int64_t generation = 99) {
    return See(Observation{.phase = phase, .generation = generation});
  }
  Advance See(const Observation& seen) { return AdvanceNode(seen, At(5), &node, operations); }
};

TEST(Node, IsReadyWhenItsVmsRun) {
  Life life;
  EXPECT_FALSE(life.See(Phase::kUnknown).changed);
  EXPECT_EQ(life.node.state(), CREATING);
  life.See(Observation{.phase = Phase::kWorking, .detail = "making the base image"});
  EXPECT_EQ(life.operations[0].status_detail(), "making the base image");
  EXPECT_FALSE(life.operations[0].done());
  EXPECT_TRUE(life.See(Phase::kRunning).changed);
  EXPECT_EQ(life.node.state(), READY);
  EXPECT_TRUE(life.operations[0].done());
  EXPECT_EQ(life.operations[0].result().state(), READY);
  EXPECT_EQ(life.operations[0].end_time().seconds(), 5);
  EXPECT_EQ(life.node.operations_size(), 0);
  EXPECT_FALSE(life.See(Phase::kRunning).changed);
}

TEST(Node, FailedCreateIsUndoneBeforeItIsReported) {
  Life life;
  life.See(Observation{.phase = Phase::kFailed,
                       .error = Status(Code::kResourceExhausted, "disk full"),
                       .permanent = true});
  EXPECT_EQ(life.node.state(), DELETING);
  EXPECT_EQ(life.node.generation(), 2);
  EXPECT_FALSE(life.operations[0].done());
  const std::string detail = life.operations[0].status_detail();
  life.See(Observation{.phase = Phase::kWorking, .detail = "deleting the VM"});
  EXPECT_EQ(life.operations[0].status_detail(), detail) << "the undoing is not its news";
  EXPECT_TRUE(life.See(Phase::kDeleted).erase);
  EXPECT_TRUE(life.operations[0].done());
  EXPECT_EQ(life.operations[0].error_code(), 8);
  EXPECT_EQ(life.operations[0].error_message(), "disk full");
}

TEST(Node, PassingFailureIsShownAndTriedAgain) {
  Life life;
  life.See(Observation{.phase = Phase::kFailed, .error = Status(Code::kUnavailable, "no sshd")});
  EXPECT_EQ(life.node.state(), CREATING);
  EXPECT_EQ(life.operations[0].status_detail(), "no sshd");
  life.See(Phase::kRunning);
  EXPECT_EQ(life.node.state(), READY);
}

TEST(Node, PassingFailureIsNotTriedForEver) {
  Life life;
  life.operations[0].mutable_create_time()->set_seconds(-1000);
  life.See(Observation{.phase = Phase::kFailed, .error = Status(Code::kUnavailable, "no sshd")});
  EXPECT_EQ(life.node.state(), DELETING);
}

TEST(Node, CancelledCreateLeavesNothing) {
  Life life;
  life.operations[0].set_cancel_requested(true);
  life.See(Phase::kUnknown);
  EXPECT_EQ(life.node.state(), DELETING);
  EXPECT_TRUE(life.See(Phase::kDeleted).erase);
  EXPECT_EQ(life.operations[0].error_code(), static_cast<int>(Code::kCancelled));
}

TEST(Node, DeleteEndsTheOperationsThatWereUnderWay) {
  Life life;
  life.Begin("delete");
  EXPECT_TRUE(life.See(Phase::kDeleted).erase);
  EXPECT_EQ(life.operations[0].error_code(), static_cast<int>(Code::kAborted));
  EXPECT_TRUE(life.operations[1].done());
  EXPECT_EQ(life.operations[1].error_code(), 0);
  EXPECT_FALSE(life.operations[1].has_result());
}

TEST(Node, StopsAndStarts) {
  Life life(READY, "");
  life.Begin("stop");
  EXPECT_EQ(life.node.state(), STOPPING);
  EXPECT_EQ(DesiredOf(life.node.state()), Desired::kStop);
  life.See(Phase::kRunning);
  EXPECT_EQ(life.node.state(), STOPPING) << "what still runs is not stopped";
  life.See(Phase::kStopped);
  EXPECT_EQ(life.node.state(), STOPPED);
  EXPECT_TRUE(life.operations[0].done());
  life.Begin("start");
  life.See(Phase::kRunning, 2);
  EXPECT_EQ(life.node.state(), STARTING) << "that was seen before the stop";
  life.See(Phase::kRunning, 3);
  EXPECT_EQ(life.node.state(), READY);
}

TEST(Node, UpdateIsDoneWhenTheWorkersHaveIt) {
  Life life(READY, "");
  life.Begin("update");
  EXPECT_EQ(life.node.state(), READY);
  life.See(Phase::kRunning, 1);
  EXPECT_FALSE(life.operations[0].done());
  life.See(Phase::kRunning, 2);
  EXPECT_TRUE(life.operations[0].done());
}

TEST(Node, UpdateOfAStoppedNodeIsDoneAtOnce) {
  Life life(STOPPED, "");
  life.Begin("update");
  life.See(Phase::kUnknown);
  EXPECT_TRUE(life.operations[0].done());
}

TEST(Node, LostVmIsRepairedAndSilenceIsNoLoss) {
  Life life(READY, "");
  EXPECT_FALSE(life.See(Phase::kUnknown).changed);
  EXPECT_EQ(life.node.state(), READY);
  life.See(Observation{.phase = Phase::kFailed, .error = Status(Code::kUnavailable, "sshd died")});
  EXPECT_EQ(life.node.state(), REPAIRING);
  EXPECT_EQ(life.node.health_description(), "sshd died");
  EXPECT_EQ(DesiredOf(REPAIRING), Desired::kRun);
  life.See(Phase::kRunning);
  EXPECT_EQ(life.node.state(), READY);
  EXPECT_EQ(life.node.health_description(), "");
}

TEST(Node, WhatTheDoctorFindsComesAndGoes) {
  Life life(READY, "");
  Symptom symptom;
  symptom.set_details("TD044: unused");
  EXPECT_TRUE(life.See(Observation{.phase = Phase::kRunning, .symptoms = {{symptom}}}).changed);
  EXPECT_EQ(life.node.hosts(0).symptoms(0).details(), "TD044: unused");
  EXPECT_FALSE(life.See(Observation{.phase = Phase::kRunning, .symptoms = {{symptom}}}).changed);
  EXPECT_FALSE(life.See(Observation{.phase = Phase::kUnknown}).changed) << "no news";
  EXPECT_TRUE(life.See(Observation{.phase = Phase::kRunning, .symptoms = {{}}}).changed);
  EXPECT_EQ(life.node.hosts(0).symptoms_size(), 0);
}

TEST(Node, FailedStartFallsBackToStopped) {
  Life life(STOPPED, "");
  life.Begin("start");
  life.See(Observation{.phase = Phase::kFailed,
                       .error = Status(Code::kFailedPrecondition, "no engine"),
                       .permanent = true});
  EXPECT_EQ(life.node.state(), STOPPING);
  life.See(Phase::kStopped);
  EXPECT_EQ(life.node.state(), STOPPED);
  EXPECT_EQ(life.operations[0].error_message(), "no engine");
}

TEST(Node, StartThatIsStoppedEndsInAnError) {
  Life life(STOPPED, "");
  life.Begin("start");
  life.Begin("stop");
  life.See(Phase::kStopped);
  EXPECT_EQ(life.node.state(), STOPPED);
  EXPECT_EQ(life.operations[0].error_code(), static_cast<int>(Code::kAborted));
  EXPECT_EQ(life.operations[1].error_code(), 0);
}

TEST(Node, KeepsWhatTheGuestSays) {
  Life life;
  Attribute key;
  key.set_namespace_("hostkeys");
  key.set_key("ssh-ed25519");
  key.set_value("AAAA");
  life.See(Observation{.phase = Phase::kRunning, .generation = 1, .guest_attributes = {{key}}});
  ASSERT_EQ(life.node.hosts(0).guest_attributes_size(), 1);
  EXPECT_EQ(life.node.hosts(0).guest_attributes(0).value(), "AAAA");
}

// The whole table of legal verbs: whatever is not listed is refused in upstream's words.
TEST(Node, RefusesVerbsInTheWrongState) {
  const std::vector<std::pair<std::string_view, std::vector<NodeState>>> legal = {
      {"update", {READY, STOPPED}},
      {"stop", {READY, REPAIRING, STARTING}},
      {"start", {STOPPED}},
      {"delete",
       {CREATING, READY, RESTARTING, REIMAGING, REPAIRING, STOPPED, STOPPING, STARTING, PREEMPTED,
        TERMINATED}}};
  for (const auto& [verb, states] : legal) {
    for (int number = NodeState_MIN; number <= NodeState_MAX; ++number) {
      if (!NodeState_IsValid(number)) continue;
      const auto state = static_cast<NodeState>(number);
      const Status status = CheckVerb(verb, state);
      EXPECT_EQ(status.ok(), std::ranges::find(states, state) != states.end())
          << verb << " in " << NodeState_Name(state);
      if (!status.ok()) {
        EXPECT_EQ(status.code(), Code::kInvalidArgument);
        EXPECT_THAT(status.message(), HasSubstr("is not supported while in state"));
      }
    }
  }
}

}  // namespace
}  // namespace torus::model
