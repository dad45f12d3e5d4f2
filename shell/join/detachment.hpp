// SPDX-License-Identifier: Apache-2.0
//
// How a leader parts from the process that has started it, its launcher or an agent such as sshd: what it wrote to
// its standard output and error goes to a file beside the job's entry in the list of jobs from then on, and nothing
// that it holds keeps the other process waiting.
//
//   attached --take_streams--> its streams are the file --let_go--> detached
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "record/places.hpp"
#include "value/jobid.hpp"

namespace nacre::join {

class Detachment {
 public:
  explicit Detachment(value::JobId id) : id_(id) {}
  ~Detachment();
  Detachment(const Detachment&) = delete;
  Detachment& operator=(const Detachment&) = delete;

  // Returns in a new process, which leads a session of its own and is the leader from now on. The old one waits for
  // it: it exits as that does, or with 0 once that has let go. Has to be called before there are loops and threads.
  Result<void> fork_leader();

  // Makes the file, in the first place for entries that takes it. Does nothing if it has been done.
  Result<void> open();
  // The same, and it replaces standard output and error.
  Result<void> take_streams();
  [[nodiscard]] std::optional<int> file() const { return file_ ? std::optional(file_.get()) : std::nullopt; }
  [[nodiscard]] const std::string& directory() const { return directory_; }  // of the file
  [[nodiscard]] std::string path() const;

  // The other process does not wait any more.
  void let_go();
  [[nodiscard]] bool is_detached() const { return detached_; }
  // The job has ended, its streams were the file, and it has not detached: what is in the file comes out where
  // standard error was before, and the file is removed.
  void give_back();

 private:
  value::JobId id_;
  std::optional<record::EntryDirectory> place_;
  UniqueFd file_;
  std::string directory_;
  UniqueFd before_;   // the standard error that was replaced
  UniqueFd waiting_;  // the other process reads from this pipe
  bool detached_ = false;
};

}  // namespace nacre::join
