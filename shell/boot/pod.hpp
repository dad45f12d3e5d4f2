// SPDX-License-Identifier: Apache-2.0
//
// Which one of a group of pods this is. All of them run the same command line, and are one job; Kubernetes tells
// each no more than its index, by variables:
//
//   NACRE_SIZE and JOB_COMPLETION_INDEX     an indexed Job, or a Job of a JobSet, whose manifest gives the size
//   LWS_WORKER_INDEX and LWS_GROUP_SIZE     a LeaderWorkerSet
//   PET_NODE_RANK and PET_NNODES            a PyTorchJob or TrainJob: what torchrun reads
//
// The first of these counts. nacre-boot(7) describes them for users.
#pragma once

#include "boot/allocation.hpp"
#include "transport/address.hpp"

namespace nacre::boot {

struct Pod {
  static constexpr std::uint16_t kPort = 7170;
  static constexpr double kTimeout = 600;  // seconds: an image may have to be brought to a node first

  std::uint32_t index = 0;
  std::uint32_t size = 1;
  transport::Address leader;  // where the pod of index 0 listens; without a host if there is only one pod
  double timeout = kTimeout;  // seconds that all pods may take to come
  bool keeps_port = true;     // false: the tasks may want it for themselves once the job runs
  std::uint32_t jobs = 1;     // of a JobSet, evenly
  std::string index_source;   // the variable, for messages
  std::string size_source;
  std::string leader_source;
};

// This host's name, with its domain if it has one: "train-3.train.default.svc.cluster.local".
[[nodiscard]] std::string full_host_name();

// None: the variables name no pod, or this is a task of a job of nacre, which is not a pod of its own. Errors name
// the variable that is missing or wrong. `own_name` is called if no variable has the first pod's address, and where
// an index within one of several Jobs has to be told from the name.
Result<std::optional<Pod>> pod_of(const Variables& variables,
                                  const std::function<std::string()>& own_name = full_host_name);

// Where the pod of that index can be reached, as far as the first one's name tells it: "" if not.
[[nodiscard]] std::string name_of_pod(const Pod& pod, std::uint32_t index);

// The file of the secret that all pods have: NACRE_SECRET_FILE, else where the manifests mount it.
inline constexpr const char* kMountedSecret = "/etc/nacre/secret";
[[nodiscard]] std::string pod_secret_file(const Variables& variables);

}  // namespace nacre::boot
