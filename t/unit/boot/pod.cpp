// SPDX-License-Identifier: Apache-2.0
#include "boot/pod.hpp"

#include "catch.hpp"

#include "variables_of.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::kit;   // NOLINT
using namespace nacre::boot;  // NOLINT
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

using Environment = std::map<std::string, std::string>;

const std::string kNoName = "host";

// The names of all pods, as the first one's tells them.
std::string names_in(Environment environment, const std::string& own_name = kNoName) {
  const Pod pod = pod_of(variables_of(std::move(environment)), [&] { return own_name; }).value().value();
  std::vector<std::string> out;
  for (std::uint32_t index = 0; index < pod.size; ++index) out.push_back(name_of_pod(pod, index));
  return fmt::format("{}", fmt::join(out, " "));
}

// "1 of 3 at ADDRESS:PORT", "none", or the error.
std::string pod_in(Environment environment, const std::string& own_name = kNoName) {
  auto pod = pod_of(variables_of(std::move(environment)), [&] { return own_name; });
  if (!pod) return pod.error().message;
  if (!*pod) return "none";
  std::string where = (*pod)->leader.host.empty() ? "" : " at " + (*pod)->leader.text();
  return fmt::format("{} of {}{}", (*pod)->index, (*pod)->size, where);
}

Environment with(Environment environment, const std::string& name, const std::string& value) {
  environment[name] = value;
  return environment;
}

Environment without(Environment environment, const std::string& name) {
  environment.erase(name);
  return environment;
}

const Environment kJob{{"JOB_COMPLETION_INDEX", "1"}, {"NACRE_SIZE", "3"}, {"NACRE_LEADER", "train-0.train"}};
const Environment kWorkerSet{
    {"LWS_WORKER_INDEX", "2"}, {"LWS_GROUP_SIZE", "4"}, {"LWS_LEADER_ADDRESS", "a-0.a.default"}};
const Environment kTorch{
    {"PET_NODE_RANK", "0"}, {"PET_NNODES", "2"}, {"PET_MASTER_ADDR", "t-node-0-0.t"}, {"PET_MASTER_PORT", "29500"}};

}  // namespace

TEST_CASE("pods: no variables, or an index alone, are no group") {
  CHECK(pod_in({}) == "none");
  CHECK(pod_in({{"JOB_COMPLETION_INDEX", "1"}}) == "none");
  CHECK(pod_in({{"JOB_COMPLETION_INDEX", "1"}, {"NACRE_SIZE", ""}}) == "none");
  CHECK(pod_in({{"PET_NNODES", "2"}, {"PET_MASTER_ADDR", "a"}}) == "none");  // a user's own variables for torchrun
  CHECK(pod_in(with(kJob, "NACRE_SHELL_ID", "7/0")) == "none");              // a task of nacre in a pod
}

TEST_CASE("pods: an indexed Job") {
  CHECK(pod_in(kJob) == "1 of 3 at train-0.train:7170");
  CHECK(pod_in(with(kJob, "NACRE_PORT", "99")) == "1 of 3 at train-0.train:99");
  CHECK(pod_in(with(kJob, "NACRE_INDEX", "2")) == "2 of 3 at train-0.train:7170");
  CHECK(pod_in(with(kJob, "NACRE_LEADER", "2001:db8::1")) == "1 of 3 at [2001:db8::1]:7170");
  CHECK(pod_in({{"JOB_COMPLETION_INDEX", "0"}, {"NACRE_SIZE", "1"}}) == "0 of 1");
  auto pod = pod_of(variables_of(with(kJob, "NACRE_TIMEOUT", "5"))).value().value();
  CHECK(pod.timeout == 5);
  CHECK(pod.keeps_port);
  CHECK(pod_of(variables_of(kJob)).value()->timeout == Pod::kTimeout);
}

TEST_CASE("pods: wrong numbers and missing members are named") {
  CHECK_THAT(pod_in(without(kJob, "JOB_COMPLETION_INDEX")),
             StartsWith("JOB_COMPLETION_INDEX is not set: ") && ContainsSubstring("completionMode: Indexed"));
  CHECK(pod_in(with(kJob, "JOB_COMPLETION_INDEX", "3")) ==
        "JOB_COMPLETION_INDEX: 3 is not below 3, which NACRE_SIZE has: the indices of the pods are 0 to 2");
  for (const char* wrong : {"x", "-1", "1.5", "99999999999999999999", " 1"}) {
    INFO(wrong);
    CHECK_THAT(pod_in(with(kJob, "JOB_COMPLETION_INDEX", wrong)),
               StartsWith("JOB_COMPLETION_INDEX: expected a number from 0 to "));
    CHECK_THAT(pod_in(with(kJob, "NACRE_SIZE", wrong)), StartsWith("NACRE_SIZE: expected a number from 1 to "));
    CHECK_THAT(pod_in(with(kJob, "NACRE_PORT", wrong)), StartsWith("NACRE_PORT: expected a port from 1 to 65535"));
    CHECK_THAT(pod_in(with(kJob, "NACRE_TIMEOUT", wrong)), StartsWith("NACRE_TIMEOUT: expected seconds from 1"));
    CHECK_THAT(pod_in(with(kWorkerSet, "LWS_GROUP_SIZE", wrong)), StartsWith("LWS_GROUP_SIZE: expected a number"));
    CHECK_THAT(pod_in(with(kTorch, "PET_NODE_RANK", wrong)), StartsWith("PET_NODE_RANK: expected a number"));
  }
  CHECK_THAT(pod_in(with(kJob, "NACRE_SIZE", "0")), StartsWith("NACRE_SIZE: expected a number from 1 to "));
  CHECK_THAT(pod_in(with(kJob, "NACRE_PORT", "65536")), StartsWith("NACRE_PORT: expected a port"));
  CHECK_THAT(pod_in(with(kJob, "NACRE_LEADER", "a b")), StartsWith("NACRE_LEADER: expected the name of a host"));
}

TEST_CASE("pods: the first one's name follows from this one's") {
  const Environment job = without(kJob, "NACRE_LEADER");
  CHECK(pod_in(job, "train-1.svc.ns.svc.cluster.local") == "1 of 3 at train-0.svc.ns.svc.cluster.local:7170");
  CHECK(pod_in(job, "set-workers-0-1.set") == "1 of 3 at set-workers-0-0.set:7170");
  for (const char* unknown : {"train-1", "train-2.svc", "train.svc", "-1.svc", ""}) {
    INFO(unknown);
    CHECK_THAT(pod_in(job, unknown), StartsWith("NACRE_LEADER is not set, and the name of this pod, "));
  }
}

TEST_CASE("pods: the others' names follow from the first one's") {
  const Environment job = without(kJob, "NACRE_LEADER");
  CHECK(names_in(kJob) == "train-0.train train-1.train train-2.train");
  CHECK(names_in(job, "train-1.svc.ns") == "train-0.svc.ns train-1.svc.ns train-2.svc.ns");
  CHECK(names_in(with(kJob, "NACRE_LEADER", "first")) == "first  ");
  CHECK(names_in(with(kJob, "NACRE_LEADER", "10.0.0.0")) == "10.0.0.0  ");
  const Environment set = with(with(job, "NACRE_SIZE", "4"), "NACRE_JOBS", "2");
  CHECK(names_in(set, "set-w-1-1.set") == "set-w-0-0.set set-w-0-1.set set-w-1-0.set set-w-1-1.set");
  CHECK(names_in(kWorkerSet) == "a-0.a.default a-0-1.a.default a-0-2.a.default a-0-3.a.default");
  CHECK(names_in(with(kWorkerSet, "NACRE_LEADER", "b")) == "b   ");
  CHECK(names_in(kTorch) == "t-node-0-0.t t-node-0-1.t");
  CHECK(names_in(with(with(kTorch, "PET_MASTER_ADDR", "t-master-0"), "PET_NNODES", "3")) ==
        "t-master-0 t-worker-0 t-worker-1");
}

TEST_CASE("pods: several Jobs of a JobSet count as one group") {
  const Environment set = with(without(with(kJob, "NACRE_SIZE", "6"), "NACRE_LEADER"), "NACRE_JOBS", "3");
  CHECK(pod_in(set, "set-workers-0-1.set") == "1 of 6 at set-workers-0-0.set:7170");
  CHECK(pod_in(set, "set-workers-2-1.set") == "5 of 6 at set-workers-0-0.set:7170");
  CHECK(pod_in(with(set, "NACRE_LEADER", "other"), "set-workers-2-1.set") == "5 of 6 at other:7170");
  CHECK_THAT(pod_in(set, "set-workers-3-1.set"),
             StartsWith("NACRE_JOBS: the pod set-workers-3-1.set is none of 3 Jobs"));
  CHECK_THAT(pod_in(set, "set-workers-x-1.set"),
             StartsWith("NACRE_JOBS: the pod set-workers-x-1.set is none of 3"));
  CHECK_THAT(pod_in(set, "other"), StartsWith("NACRE_JOBS: the pod other has no name of a JobSet's"));
  CHECK_THAT(pod_in(with(set, "JOB_COMPLETION_INDEX", "2"), "set-workers-0-2.set"),
             StartsWith("NACRE_JOBS: the pod"));
  CHECK_THAT(pod_in(with(set, "NACRE_JOBS", "4"), "set-workers-0-1.set"),
             StartsWith("NACRE_JOBS: 4 Jobs cannot have 6 pods"));
  CHECK(pod_in(with(with(set, "NACRE_INDEX", "4"), "NACRE_LEADER", "a"), "other") == "4 of 6 at a:7170");
}

TEST_CASE("pods: a LeaderWorkerSet") {
  CHECK(pod_in(kWorkerSet) == "2 of 4 at a-0.a.default:7170");
  CHECK(pod_in(with(kWorkerSet, "NACRE_LEADER", "b")) == "2 of 4 at b:7170");
  for (const char* each : {"LWS_WORKER_INDEX", "LWS_GROUP_SIZE", "LWS_LEADER_ADDRESS"}) {
    CHECK_THAT(pod_in(without(kWorkerSet, each)), StartsWith(std::string(each) + " is not set"));
  }
  CHECK_THAT(pod_in(with(kWorkerSet, "LWS_WORKER_INDEX", "4")), StartsWith("LWS_WORKER_INDEX: 4 is not below 4"));
}

TEST_CASE("pods: a PyTorchJob, at torch's own port while that is free") {
  CHECK(pod_in(kTorch) == "0 of 2 at t-node-0-0.t:29500");
  CHECK_FALSE(pod_of(variables_of(kTorch)).value()->keeps_port);
  CHECK(pod_in(without(kTorch, "PET_MASTER_PORT")) == "0 of 2 at t-node-0-0.t:7170");
  CHECK(pod_in(with(kTorch, "NACRE_PORT", "7")) == "0 of 2 at t-node-0-0.t:7");
  CHECK(pod_of(variables_of(with(kTorch, "NACRE_PORT", "7"))).value()->keeps_port);
  CHECK(pod_in(with(kTorch, "PET_NNODES", "2:2")) == "0 of 2 at t-node-0-0.t:29500");
  CHECK_THAT(pod_in(with(kTorch, "PET_NNODES", "1:2")), StartsWith("PET_NNODES: expected a number"));
  CHECK_THAT(pod_in(with(kTorch, "PET_MASTER_PORT", "x")), StartsWith("PET_MASTER_PORT: expected a port"));
  for (const char* each : {"PET_NNODES", "PET_MASTER_ADDR"}) {
    CHECK_THAT(pod_in(without(kTorch, each)), StartsWith(std::string(each) + " is not set"));
  }
}

TEST_CASE("pods: the first set of variables counts") {
  Environment all = kJob;
  all.insert(kWorkerSet.begin(), kWorkerSet.end());
  all.insert(kTorch.begin(), kTorch.end());
  CHECK(pod_in(all) == "1 of 3 at train-0.train:7170");
  CHECK(pod_in(without(all, "NACRE_SIZE")) == "2 of 4 at train-0.train:7170");
  CHECK(pod_in(without(without(without(all, "NACRE_SIZE"), "LWS_WORKER_INDEX"), "LWS_GROUP_SIZE")) ==
        "0 of 2 at train-0.train:29500");
}

TEST_CASE("pods: where the secret is") {
  CHECK(pod_secret_file(variables_of({})) == "/etc/nacre/secret");
  CHECK(pod_secret_file(variables_of({{"NACRE_SECRET_FILE", "/x"}})) == "/x");
}
