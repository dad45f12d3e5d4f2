// SPDX-License-Identifier: Apache-2.0
//
// Where entries are: ID.json in one of these directories, the first that can be written. All of them are searched.
//
//   $NACRE_JOBS_DIR
//   $XDG_STATE_HOME/nacre/jobs, or where that is not set ~/.local/state/nacre/jobs
//   $XDG_RUNTIME_DIR/nacre/jobs
//   /tmp/nacre-UID/jobs
//
// Each belongs to this user and nobody else may enter it (0700); what others have made in its place is not used.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "record/entry.hpp"

namespace nacre::record {

using Variables = std::function<std::optional<std::string>(const char* name)>;

// Absolute paths, in the order above; those whose variable is not set, or no absolute path, are left out.
[[nodiscard]] std::vector<std::string> places(const Variables& variables);

// This process's.
[[nodiscard]] ProcessPlace own_place();
// When the process was started, in clock ticks since the boot; none: there is none, or it has ended.
[[nodiscard]] std::optional<std::uint64_t> start_of(std::int64_t pid);

class EntryDirectory {
 public:
  static constexpr std::size_t kMaxEntries = std::size_t{1} << 16;  // names that are looked at

  // EPERM: it is another user's, or others may enter it; the message has the remedy. ENOENT: it is not there.
  static Result<EntryDirectory> open(std::string path);
  // The same; what is missing of it is made, with mode 0700.
  static Result<EntryDirectory> make(std::string path);
  // The first of `candidates` that can be made and written. `skipped` gets why those before it cannot, one line each.
  static Result<EntryDirectory> choose(const std::vector<std::string>& candidates,
                                       std::vector<std::string>* skipped);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string path_of(const value::JobId& id) const;

  // Replaces what is there of this id, as a whole: whoever reads gets either.
  Result<void> write(const JobEntry& entry) const;
  Result<void> remove(const value::JobId& id) const;
  // What process `pid` of this host has left if it was killed while it wrote the entry that is named so.
  void remove_temporary(const std::string& name, std::int64_t pid) const;
  // What any process has left so, longer ago than `age` seconds.
  void remove_temporaries(double age) const;
  // ENOENT: there is none.
  Result<JobEntry> read(const value::JobId& id) const;
  // One that is named so: ID.json.
  Result<JobEntry> read_named(const std::string& name) const;
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  [[nodiscard]] std::vector<std::string> names_that(const std::function<bool(std::string_view)>& is) const;
  EntryDirectory(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  UniqueFd fd_;
};

}  // namespace nacre::record
