// SPDX-License-Identifier: Apache-2.0
//
// The options of `nacre run` that describe the job; see nacre-run(1). They are read as text, and become a
// JobRequest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "front/given_options.hpp"
#include "front/job_request.hpp"
#include "front/multi_prog.hpp"
#include "job/options.hpp"

namespace nacre::cli {
class CommandLine;
}

namespace nacre::front {

class RunOptions {
 public:
  void add_to(cli::CommandLine& verb);

  // Takes the words behind the options: COMMAND [ARG...], or several with a `:` between them, each with an -n of
  // its own. An error is a usage error.
  Result<void> take_words(std::vector<std::string> words);

  // `spares`: as the shell's options have them.
  [[nodiscard]] Result<SizeRequest> sizes(std::uint32_t spares) const;
  // The request that the options describe; the files that they name are read now. `setopt`: more options of the
  // shell, as of -o, which replace those that other options stand for.
  [[nodiscard]] Result<JobRequest> request(const JobSize& size, const std::vector<std::string>& setopt) const;

  // For a jobspec from a file: the options of the shell, and the members of attributes.system, that are given here
  // replace those that it has. The rules of --env change its environment, or the caller's if it has none.
  Result<void> set_options(job::Options& out) const;
  Result<void> change(Json& jobspec) const;

  [[nodiscard]] const std::vector<std::string>& setopt() const { return setopt_; }
  [[nodiscard]] bool sizes_slots() const { return cores_ || gpus_; }  // -c or -g is given
  [[nodiscard]] const std::string& file() const { return file_; }     // a jobspec instead; empty: none
  [[nodiscard]] bool labels() const { return label_; }
  // What -o may set too.
  [[nodiscard]] std::vector<GivenOption> given() const;
  [[nodiscard]] bool lends_terminal() const { return pty_ == kInteractive; }
  [[nodiscard]] bool prints_jobspec() const { return dry_run_; }
  [[nodiscard]] bool detaches() const { return detach_; }
  [[nodiscard]] const std::string& notify() const { return notify_; }

 private:
  static constexpr const char* kInteractive = "interactive";

  void add_size(cli::CommandLine& verb);
  void add_environment(cli::CommandLine& verb);
  void add_streams(cli::CommandLine& verb);
  void add_rest(cli::CommandLine& verb);
  Result<void> take_program(std::vector<std::string> words, bool is_only);
  [[nodiscard]] std::optional<std::uint32_t> spares_of_nodes() const;  // those that -N has
  [[nodiscard]] Result<void> set_rules(EnvironmentRules& rules) const;
  [[nodiscard]] Result<Json> shell_options(const JobSize& size, const std::vector<std::string>& setopt) const;
  [[nodiscard]] Result<std::optional<MultiProg>> programs() const;
  [[nodiscard]] Result<Json> wrappers() const;
  [[nodiscard]] Result<std::string> directory() const;
  [[nodiscard]] std::string cpu_affinity() const;  // of --cpu-bind; empty: it is not given

  std::optional<std::uint32_t> tasks_, spares_, per_node_, cores_, gpus_;
  std::string nodes_;  // "4", "4+1"
  std::string on_lost_;
  std::string time_limit_, name_, cwd_;
  struct Rule {
    enum class Kind { rule, remove, file } kind;
    std::string text;
  };
  std::vector<Rule> rules_;  // in the order in which they were given
  std::string output_, error_, input_, input_ranks_;
  bool label_ = false, unbuffered_ = false;
  std::string taskmap_, multi_prog_, pty_, file_, notify_, cpu_bind_, mem_bind_;
  std::vector<std::string> wrap_, setopt_;
  bool dry_run_ = false, detach_ = false, oversubscribe_ = false, torch_ = false;
  struct Part {
    std::vector<std::string> command;
    std::uint32_t tasks = 1;
  };
  std::vector<Part> parts_;
};

}  // namespace nacre::front
