// SPDX-License-Identifier: Apache-2.0
//
// Text with {{tags}} of a job, a node or a task, as listed in flux-submit(1) "MUSTACHE TEMPLATES":
//
//   id, jobid                    the job id (RFC 19) as F58; id.dec, .hex, .dothex, .words, .emoji, .f58: as such
//   name                         of the job (attributes.system.job.name), else of its program, without directories
//   size, ntasks, nnodes         numbers of tasks, tasks and nodes
//   taskmap, resources           the task map (RFC 34), R (RFC 20) as JSON
//   node.KEY                     KEY of flux_shell_get_rank_info(3) or of its `resources`: node.id, node.cores ...
//   task.id, task.rank, taskid   the task's rank
//   task.index, task.localid     its number on its node
//   task.slot                    its number among those that run at the same time there (at-most)
//   task.argument                its element of the list (option arguments)
//
// For any other tag the plugins are called: topic `mustache.render.TAG`, in {"tag", "shell_rank", and for a task
// "rank" and "localid"}, out {"result": text}. A tag that is unknown stays as it is.
#pragma once

#include "plugin/host.hpp"

namespace nacre::plugin {

struct TagScope {
  std::optional<std::uint32_t> shell_rank = std::nullopt;  // none: this shell's
  const task::Task* task = nullptr;                        // of this shell; if null, tags of tasks stay as they are
};

// An error if a plugin fails or gives a result that is no text, or if there is no such shell.
Result<std::string> render_tags(Host& host, std::string_view text, const TagScope& scope = {});

// Only tags of the job; all others stay as they are.
Result<std::string> render_job_tags(const job::Job& job, std::string_view text);

// EINVAL: it has a tag that nothing gives a value to. In the name of a file that is a mistake.
Result<void> check_tags(Host& host, std::string_view text);

// Whether `text` has a tag that can differ between nodes or tasks: the tags of nodes and tasks, tmpdir, and all
// tags that plugins render differently for the first shell and the second.
Result<bool> differs_by_rank(Host& host, std::string_view text);

// Whether `text` has a tag whose value needs a task: one of tasks, or one that a plugin renders only for a task.
Result<bool> differs_by_task(Host& host, std::string_view text);

// Whether no two tasks of the job have the same text: by the task's rank, by its number on its node and the
// node's, or by its element of a list in which each is there once.
Result<bool> is_of_one_task(Host& host, std::string_view text);

}  // namespace nacre::plugin
