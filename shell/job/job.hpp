// SPDX-License-Identifier: Apache-2.0
//
// One job as one shell sees it: the facts that do not change while it runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "job/distribute.hpp"
#include "job/environment.hpp"
#include "job/jobspec.hpp"
#include "job/options.hpp"
#include "job/resources.hpp"
#include "value/jobid.hpp"
#include "value/taskmap.hpp"

namespace nacre::job {

struct Job {
  value::JobId id;
  std::uint32_t shell_rank = 0;
  Jobspec spec;
  Resources resources;
  std::vector<NodeShare> shares;  // by shell rank
  value::Taskmap taskmap;         // block, until a taskmap.* plugin returns another
  bool has_ascii_id = false;      // see f58()

  // Distributes the tasks and makes the block taskmap; it parses nothing. An error if `shell_rank` is not in R, or
  // if R cannot hold the job.
  static Result<Job> create(value::JobId id, std::uint32_t shell_rank, Jobspec spec, Resources resources,
                            const std::optional<PerResource>& per_resource, bool oversubscribe = false);

  [[nodiscard]] std::uint32_t shells() const { return static_cast<std::uint32_t>(resources.nodes.size()); }
  [[nodiscard]] std::uint64_t tasks() const { return taskmap.tasks(); }
  // The id in F58, as people and tasks see it. It begins with f, and not with ƒ, if FLUX_F58_FORCE_ASCII is set, in
  // the job's environment or the shell's, or if the job's environment has a locale (LC_ALL, LC_CTYPE or LANG) that
  // is not of UTF-8.
  [[nodiscard]] std::string f58() const { return has_ascii_id ? id.f58_plain() : id.f58(); }
  // attributes.system.job.name, else the name of the program without directories.
  [[nodiscard]] std::string name() const;
  [[nodiscard]] const NodeResources& node() const { return resources.nodes[shell_rank]; }

  // As described in flux_shell_get_jobspec_info(3) and flux_shell_get_rank_info(3). An error if there is no such
  // shell.
  [[nodiscard]] Json jobspec_info() const;
  [[nodiscard]] Result<Json> rank_info(std::uint32_t shell_rank) const;
};

// The job's variables of flux-environment(7), each also under NACRE_. `tmpdir` may be "".
void set_job_variables(Environment& env, const Job& job, const std::string& tmpdir);
// One of them marks all that belongs to one shell of the job and ends with it: "JOBID.RANK".
inline constexpr const char* kShellMark = "NACRE_SHELL_ID";
[[nodiscard]] std::string shell_mark(const value::JobId& id, std::uint32_t shell_rank);
// A task's own: FLUX_TASK_RANK, FLUX_TASK_LOCAL_ID and the same under NACRE_.
void set_task_variables(Environment& env, std::uint64_t rank, std::uint32_t local_id);

}  // namespace nacre::job
