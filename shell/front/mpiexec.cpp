// SPDX-License-Identifier: Apache-2.0
#include "front/mpiexec.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <filesystem>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "base/print.hpp"
#include "base/program.hpp"
#include "boot/allocation.hpp"
#include "cli/command_line.hpp"
#include "cli/verbs.hpp"
#include "front/job_request.hpp"
#include "front/verbs.hpp"
#include "io/format.hpp"
#include "job/jobspec.hpp"
#include "version.hpp"

namespace nacre::front {
namespace {

using Variable = std::function<std::optional<std::string>(const char* name)>;
using Values = std::vector<std::string>;  // the words that follow an option and belong to it

// A program with its tasks: mpiexec has one or more, with a `:` between them.
struct MpiProgram {
  struct Change {
    std::string name;
    std::optional<std::string> value;  // none: it is taken from this environment
  };

  std::optional<std::uint32_t> tasks = {};
  std::vector<std::string> command = {};
  std::string directory = {}, path = {}, hosts = {}, soft = {};
  std::vector<Change> environment = {};

  // As Open MPI has it: what PATH does not have is looked for in the directory, too.
  void look_in_directory() {
    const bool is_plain = command[0].find('/') == std::string::npos && path.empty();
    if (!is_plain || is_in_path(command[0])) return;
    const std::string file = (directory.empty() ? "." : directory) + "/" + command[0];
    std::error_code failed;
    if (std::filesystem::is_regular_file(file, failed) && ::access(file.c_str(), X_OK) == 0)
      command[0].insert(0, "./");
  }
};

// What was read so far.
class Reading {
 public:
  explicit Reading(std::vector<std::string> words) : left_(words.begin(), words.end()) {}

  Result<void> read();
  // All as words of nacre run.
  Result<std::vector<std::string>> words(const Variable& variable);

  // ---- for the options
  void add(std::string word) { words_.push_back({std::move(word), option_}); }
  void pass_over(std::string option) { passed_over_.push_back(std::move(option)); }
  [[nodiscard]] MpiProgram& program() { return programs_.back(); }
  // The words of this file come next: each line is a program, with its options in front.
  Result<void> take_file(const std::string& path);
  void set_kind(MpiexecRun::Kind kind) { kind_ = kind; }
  void set_input(std::string word) { input_ = std::move(word); }
  void go_on_after_failures() { fails_fast_ = false; }
  void set_agent(std::string name) { agent_ = std::move(name); }
  // Of this environment tasks have only what is kept, by all such options together.
  void keep_only(std::string_view names) {
    if (!kept_) kept_.emplace();
    for (std::string_view each : split(names, ',')) {
      if (!each.empty()) kept_->emplace_back(each);
    }
  }
  // The option at hand is for one program with other launchers, and here for all tasks.
  void want_one_program() { for_one_program_ = option_; }

  [[nodiscard]] MpiexecRun::Kind kind() const { return kind_; }
  [[nodiscard]] const std::vector<std::string>& passed_over() const { return passed_over_; }

 private:
  [[nodiscard]] std::string next();
  Result<void> take_option();
  void add_only_program(const Variable& variable);
  Result<void> add_programs(const Variable& variable);
  Result<void> add_hosts();
  Result<void> merge_words();
  [[nodiscard]] std::uint64_t tasks() const;
  [[nodiscard]] bool has_word(std::string_view start) const {
    return std::any_of(words_.begin(), words_.end(),
                       [&](const auto& each) { return each.text.starts_with(start); });
  }
  [[nodiscard]] bool has_places() const {
    return has_word("--hosts=") || has_word("--hostfile=") || has_word("--srun");
  }

  // A word of nacre run, and the option that it is for.
  struct Word {
    std::string text, option;
  };

  std::deque<std::string> left_;
  std::vector<MpiProgram> programs_;
  std::vector<Word> words_;
  std::vector<std::string> passed_over_;
  std::optional<Values> kept_;  // names of variables
  std::string option_, agent_, for_one_program_;
  std::string input_ = "--input-ranks=0";  // as all launchers of MPI have it
  bool fails_fast_ = true;                 // likewise
  bool has_file_ = false;                  // with programs
  MpiexecRun::Kind kind_ = MpiexecRun::Kind::job;
};

// ---- what options do --------------------------------------------------------------------

using Take = Result<void> (*)(Reading& into, const Values& values);

Result<std::uint32_t> count(const std::string& text) {
  auto number = parse_u64(text);
  if (number && *number > 0 && *number <= job::Jobspec::kMaxCount) return static_cast<std::uint32_t>(*number);
  return cli::NumberRange{1, job::Jobspec::kMaxCount}.expected(text);
}

// In a rule of --env a $ begins a variable, so it is doubled.
std::string set_rule(std::string_view name, std::string_view value) {
  std::string out = fmt::format("--env={}=", name);
  for (char each : value) {
    out += each;
    if (each == '$') out += each;
  }
  return out;
}

Result<void> take_tasks(Reading& into, const Values& values) {
  into.program().tasks = TRY(count(values[0]));
  return {};
}

// The largest number that is not above `most`, in a set of numbers as MPI has it, "4,8:16:4". A step may be
// negative.
Result<std::uint32_t> largest_of(const std::string& set, std::optional<std::uint32_t> most) {
  const Error malformed = invalid(fmt::format("expected numbers, or FIRST:LAST or FIRST:LAST:STEP, got {}", set));
  std::int64_t out = 0;
  for (std::string_view each : split(set, ',')) {
    std::vector<std::int64_t> numbers;
    for (std::string_view text : split(each, ':')) {
      const bool is_negative = numbers.size() == 2 && text.starts_with('-');
      auto number = parse_u64(text.substr(is_negative ? 1 : 0));
      if (!number || *number > job::Jobspec::kMaxCount) return malformed;
      numbers.push_back(is_negative ? -static_cast<std::int64_t>(*number) : static_cast<std::int64_t>(*number));
    }
    const std::int64_t step = numbers.size() > 2 ? numbers[2] : 1;
    if (numbers.size() > 3 || step == 0) return malformed;
    const std::int64_t last = numbers.size() > 1 ? numbers[1] : numbers[0];
    for (std::int64_t i = numbers[0]; step > 0 ? i <= last : i >= last; i += step) {
      if (!most || i <= *most) out = std::max(out, i);
    }
  }
  if (out > 0) return static_cast<std::uint32_t>(out);
  return invalid(fmt::format("{} has no number of tasks{}", set, most ? fmt::format(" up to -n {}", *most) : ""));
}

Result<void> take_soft(Reading& into, const Values& values) {
  CHECK_OK(largest_of(values[0], {}));
  into.program().soft = values[0];
  return {};
}

Result<void> take_universe(Reading& into, const Values& values) {
  const std::string size = lower(values[0]);
  if (size != "system" && size != "infinite") TRY(count(size));
  into.add("--setopt=pmi.universe=" + size);
  return {};
}

Result<void> take_hosts(Reading& into, const Values& values) {
  if (values[0].empty()) return invalid("expected hosts, as n0,n1 or n0:4,n1:4");
  if (values[0].starts_with('+')) return invalid("relative names as +n0 are not known: name the hosts");
  std::string& hosts = into.program().hosts;
  hosts += (hosts.empty() ? "" : ",") + values[0];
  return {};
}

Result<void> take_directory(Reading& into, const Values& values) {
  if (values[0].empty()) return invalid("expected a directory");
  into.program().directory = values[0];
  return {};
}

Result<void> take_path(Reading& into, const Values& values) {
  into.program().path = values[0];
  return {};
}

Result<void> check_name(const std::string& name) {
  if (!name.empty() && name.find('=') == std::string::npos) return {};
  return invalid(fmt::format("expected the name of a variable, got {}", in_quotes(name)));
}

Result<void> take_variable(Reading& into, const Values& values) {
  CHECK_OK(check_name(values[0]));
  into.program().environment.push_back({values[0], values[1]});
  return {};
}

Result<void> take_global_variable(Reading& into, const Values& values) {
  CHECK_OK(check_name(values[0]));
  into.add(set_rule(values[0], values[1]));
  return {};
}

// NAME, or NAME=VALUE.
Result<void> export_variable(Reading& into, const Values& values) {
  const std::string& text = values[0];
  const std::size_t equals = text.find('=');
  if (text.empty() || equals == 0)
    return invalid(fmt::format("expected NAME or NAME=VALUE, got {}", in_quotes(text)));
  std::optional<std::string> value;
  if (equals != std::string::npos) value = text.substr(equals + 1);
  into.program().environment.push_back({text.substr(0, equals), std::move(value)});
  return {};
}

Result<void> take_variables_only(Reading& into, const Values& values) {
  into.keep_only(values[0]);
  return {};
}

Result<void> take_variables_of_program(Reading& into, const Values& values) {
  into.want_one_program();
  return take_variables_only(into, values);
}

Result<void> take_no_variables(Reading& into, const Values& /*none*/) {
  into.keep_only("");
  return {};
}

Result<void> take_no_variables_of_program(Reading& into, const Values& values) {
  into.want_one_program();
  return take_no_variables(into, values);
}

// "ssh -q", or "ssh : rsh", of which the first is taken.
Result<void> take_agent(Reading& into, std::string_view text) {
  const std::vector<std::string> words = TRY(words_of(text.substr(0, text.find(':'))));
  if (words.empty()) return invalid("expected a command that is called as ssh is");
  into.add("--agent=" + words[0]);
  for (std::size_t i = 1; i < words.size(); ++i) into.add("--agent-arg=" + words[i]);
  return {};
}

Result<void> set_mca(Reading& into, std::string_view prefix, const Values& values) {
  if (values[0] == "plm_rsh_agent" || values[0] == "plm_ssh_agent") return take_agent(into, values[1]);
  if (values[0] == "plm_rsh_args" || values[0] == "plm_ssh_args") {
    for (const std::string& each : TRY(words_of(values[1]))) into.add("--agent-arg=" + each);
    return {};
  }
  if (values[0] == "rmaps_base_oversubscribe" && values[1] != "0" && values[1] != "false")
    into.add("--oversubscribe");
  into.add(set_rule(fmt::format("{}{}", prefix, values[0]), values[1]));
  return {};
}

Result<void> take_mca(Reading& into, const Values& values) { return set_mca(into, "OMPI_MCA_", values); }
Result<void> take_prte_mca(Reading& into, const Values& values) { return set_mca(into, "PRTE_MCA_", values); }
Result<void> take_pmix_mca(Reading& into, const Values& values) { return set_mca(into, "PMIX_MCA_", values); }

template <std::size_t kSize>
bool is_one_of(const std::array<std::string_view, kSize>& known, std::string_view text) {
  return std::find(known.begin(), known.end(), text) != known.end();
}

// A policy and what modifies it, as in "core:overload-allowed".
Result<void> take_binding(Reading& into, const Values& values) {
  static constexpr std::array<std::string_view, 6> kModifiers{"",         "overload-allowed", "no-overload",
                                                              "overload", "if-supported",     "report"};
  const std::string policy = lower(std::string_view(values[0]).substr(0, values[0].find(':')));
  const std::string rest = lower(std::string_view(values[0]).substr(std::min(values[0].size(), policy.size() + 1)));
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kUnits{{{"none", "none"},
                                                                                         {"machine", "none"},
                                                                                         {"hwthread", "thread"},
                                                                                         {"thread", "thread"},
                                                                                         {"core", "core"},
                                                                                         {"l3cache", "l3"},
                                                                                         {"l3", "l3"},
                                                                                         {"numa", "numa"},
                                                                                         {"socket", "package"},
                                                                                         {"package", "package"}}};
  auto unit = std::find_if(kUnits.begin(), kUnits.end(), [&](const auto& each) { return each.first == policy; });
  if (unit == kUnits.end())
    return invalid(
        fmt::format("expected none, hwthread, core, l3cache, numa or socket, got {}", in_quotes(values[0])));
  if (parse_u64(rest))
    return invalid(fmt::format("{}: -cpus-per-rank {} gives each task so many cores", values[0], rest));
  if (!is_one_of(kModifiers, rest))
    return invalid(fmt::format("expected overload-allowed behind the colon, or nothing, got {}", in_quotes(rest)));
  into.add(fmt::format("--cpu-bind={}", unit->second));
  return {};
}

// Of a node's parts in turn, or of its cores: which of its tasks is where matters to what binds them only.
Result<void> check_order(const std::string& policy) {
  static constexpr std::array<std::string_view, 16> kOrders{
      "",        "slot",    "fill",    "span", "rr",     "none",    "machine", "board",
      "l1cache", "l2cache", "l3cache", "numa", "socket", "package", "core",    "hwthread"};
  if (is_one_of(kOrders, policy)) return {};
  return invalid(fmt::format("expected slot, node, ppr:N:node, or core, numa, socket and the like, got {}",
                             in_quotes(policy)));
}

Result<void> take_modifier(Reading& into, const std::string& modifier) {
  static constexpr std::array<std::string_view, 8> kWithoutMeaning{
      "", "span", "nooversubscribe", "hwtcpus", "corecpus", "inherit", "noinherit", "display"};
  if (modifier == "oversubscribe") {
    into.add("--oversubscribe");
  } else if (modifier == "donotlaunch") {
    into.add("--explain");
  } else if (modifier.starts_with("pe=")) {
    into.add(fmt::format("--cores-per-task={}", TRY(count(modifier.substr(3)))));
  } else if (modifier == "nolocal") {
    return invalid("nolocal: name the other hosts by -host");
  } else if (!is_one_of(kWithoutMeaning, modifier)) {
    return invalid(fmt::format("expected PE=N or OVERSUBSCRIBE behind the colon, got {}", in_quotes(modifier)));
  }
  return {};
}

// "ppr:2:node:PE=4", "node", "core:OVERSUBSCRIBE".
Result<void> take_mapping(Reading& into, const Values& values) {
  auto parts = split(values[0], ':');
  const std::string policy = lower(parts[0]);
  std::size_t next = 1;
  if (policy == "ppr") {
    if (parts.size() < 3 || lower(parts[2]) != "node")
      return invalid(fmt::format("expected ppr:N:node, got {}: tasks are counted for each node only", values[0]));
    into.add(fmt::format("--tasks-per-node={}", TRY(count(std::string(parts[1])))));
    next = 3;
  } else if (policy == "node") {
    into.add("--taskmap=cyclic");
  } else if (policy == "seq" || policy == "rankfile" || policy == "dist" || policy == "mindist") {
    return invalid(fmt::format("{} is not known: --taskmap of nacre run says which task is on which node", policy));
  } else {
    CHECK_OK(check_order(policy));
  }
  for (; next < parts.size(); ++next) CHECK_OK(take_modifier(into, lower(parts[next])));
  return {};
}

Result<void> take_ppr(Reading& into, const Values& values) { return take_mapping(into, {"ppr:" + values[0]}); }

Result<void> take_ranking(Reading& into, const Values& values) {
  const std::string policy = lower(std::string_view(values[0]).substr(0, values[0].find(':')));
  if (policy != "node") return check_order(policy);
  into.add("--taskmap=cyclic");
  return {};
}

// For Hydra's %r (rank), %h (host), %g (process group) and %p (proxy).
Result<std::string> path_template(const std::string& pattern) {
  std::string out;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%' || i + 1 == pattern.size()) {
      out += pattern[i];
      continue;
    }
    switch (pattern[++i]) {
      case 'r': out += "{{task.rank}}"; break;
      case 'h': out += "{{node.name}}"; break;
      case 'p': out += "{{node.id}}"; break;
      case 'g': out += '0'; break;
      case '%': out += '%'; break;
      default: return invalid(fmt::format("%{} is not known: %r is the rank, %h the host", pattern[i]));
    }
  }
  return out;
}

Result<void> take_output_pattern(Reading& into, const Values& values) {
  into.add("--output=" + TRY(path_template(values[0])));
  into.add("--setopt=output.mkdir");
  return {};
}

Result<void> take_error_pattern(Reading& into, const Values& values) {
  into.add("--error=" + TRY(path_template(values[0])));
  into.add("--setopt=output.mkdir");
  return {};
}

// Before each line; that of standard error is stdout's.
Result<void> take_label_pattern(Reading& into, const Values& values) {
  into.add("--setopt=output.stdout.label=" + TRY(path_template(values[0])));
  return {};
}

// Open MPI's layout: DIR/1/rank.N/stdout. Output comes here as well, unless ":nocopy" follows.
Result<void> take_output_folder(Reading& into, const Values& values) {
  const std::string folder = values[0].substr(0, values[0].find(':'));
  if (folder.empty()) return invalid("expected a folder");
  if (lower(values[0].substr(folder.size())).find("nocopy") == std::string::npos) into.add("--tee");
  for (const char* stream : {"output", "error"})
    into.add(
        fmt::format("--{}={}/1/rank.{{{{task.rank}}}}/std{}", stream, folder, stream[0] == 'o' ? "out" : "err"));
  into.add("--setopt=output.mkdir");
  return {};
}

// Of Open MPI 5: "tag,timestamp", "dir=D:nocopy".
Result<void> take_output(Reading& into, const Values& values) {
  for (std::string_view each : split(values[0], ',')) {
    const std::string how = lower(each.substr(0, each.find_first_of("=:")));
    if (how == "tag" || how == "tag-detailed" || how == "tag-fullname" || how == "rank")
      into.add("--label-io");
    else if (how == "timestamp")
      into.add("--setopt=output.stdout.timestamps=iso");
    else if (how == "dir" && each.size() > how.size())
      CHECK_OK(take_output_folder(into, {std::string(each.substr(how.size() + 1))}));
    else if (how == "merge" || how == "merge-stderr-to-stdout")
      return invalid("merge is not taken: 2>&1 behind mpiexec does that");
    else if (how == "file")
      return invalid("file is not taken: -outfile-pattern NAME.%r gives each rank a file");
    else
      return invalid(fmt::format("expected tag, timestamp or dir=DIR, got {}", in_quotes(each)));
  }
  return {};
}

// Of Open MPI 5: 0 is none, 1 by lines, 2 in blocks.
Result<void> take_buffering(Reading& into, const Values& values) {
  if (values[0] == "0") into.add("--unbuffered");
  return {};
}

Result<void> take_timeout(Reading& into, const Values& values) {
  into.add(fmt::format("--time-limit={}s", TRY(count(values[0]))));
  return {};
}

Result<void> take_input_ranks(Reading& into, const Values& values) {
  if (values[0] == "all") {
    into.set_input("");
  } else if (values[0] == "none") {
    into.set_input("--input=/dev/null");
  } else {
    CHECK_OK(value::Idset::parse(values[0]));
    into.set_input("--input-ranks=" + values[0]);
  }
  return {};
}

Result<void> take_launcher(Reading& into, const Values& values) {
  const std::string& name = values[0];
  if (name == "slurm") {
    into.add("--srun");
  } else if (name == "ssh" || name == "rsh") {
    into.set_agent(name);
  } else if (name != "fork" && name != "user") {
    return invalid(
        fmt::format("expected ssh, rsh, slurm or fork, got {}: -launcher-exec names any other that is called "
                    "as ssh is",
                    in_quotes(name)));
  }
  return {};
}

Result<void> take_gpus(Reading& into, const Values& values) {
  if (lower(values[0]) != "auto") into.add(fmt::format("--gpus-per-task={}", TRY(count(values[0]))));
  return {};
}

Result<void> take_architecture(Reading& /*into*/, const Values& values) {
  utsname names{};
  ::uname(&names);
  if (values[0] == names.machine) return {};
  return invalid(fmt::format("all hosts have to be {}, as this one", names.machine));
}

Result<void> go_on_after_failures(Reading& into, const Values& /*none*/) {
  into.go_on_after_failures();
  into.add("--setopt=fault-tolerance");
  return {};
}

// Of Open MPI 5: "ulfm", "mpi", which are one.
Result<void> take_fault_tolerance(Reading& into, const Values& values) {
  const std::string kind = lower(values[0]);
  if (kind == "no") return {};
  if (kind != "ulfm" && kind != "mpi")
    return invalid(fmt::format("expected ulfm, mpi or no, got {}", in_quotes(values[0])));
  into.add(set_rule("OMPI_MCA_mpi_ft_enable", "true"));
  return go_on_after_failures(into, values);
}

Result<void> take_programs(Reading& into, const Values& values) { return into.take_file(values[0]); }

Result<void> ask_help(Reading& into, const Values& /*none*/) {
  into.set_kind(MpiexecRun::Kind::help);
  return {};
}

Result<void> ask_version(Reading& into, const Values& /*none*/) {
  into.set_kind(MpiexecRun::Kind::version);
  return {};
}

// ---- the table --------------------------------------------------------------------------

struct MpiOption {
  std::string_view names;   // between blanks, without dashes: each is taken with one or two of them
  std::string_view values;  // what --help calls the words that follow, between blanks; "": none follow
  // Without `take`: a word of nacre run, with % for the first value ("-": none); "": the option is ignored, with a
  // line; "!WHY": it is refused.
  std::string_view to;
  std::string_view help = "";  // "": --help does not show it
  Take take = nullptr;
};

struct MpiGroup {
  std::string_view title;
  std::span<const MpiOption> options;
};

constexpr MpiOption kOptionsOfTasks[] = {
    {"n np c", "N", "", "Start N tasks of the program (default: 1, or the slots of the hosts)", take_tasks},
    {"ppn perhost", "N", "--tasks-per-node=%:round", "N tasks on each node; of more each gets N again, in turn"},
    {"N npernode", "N", "--tasks-per-node=%", "N tasks on each node"},
    {"pernode", "", "--tasks-per-node=1"},
    {"npersocket", "N", "!tasks are counted for each node only: -ppn"},
    {"cpus-per-proc cpus-per-rank", "N", "--cores-per-task=%", "N cores for each task"},
    {"gpus-per-proc", "N", "", "N gpus for each task", take_gpus},
    {"bind-to", "UNIT", "", "Bind each task: none, hwthread, core, l3cache, numa, socket", take_binding},
    {"bind-to-core", "", "--cpu-bind=core"},
    {"bind-to-socket", "", "--cpu-bind=package"},
    {"bind-to-none", "", "--cpu-bind=none"},
    {"membind", "POLICY", ""},
    {"map-by", "HOW", "", "Whether slots are filled (slot), or nodes take turns (node); ppr:N:node; :PE=N",
     take_mapping},
    {"rank-by", "HOW", "", "The same: slot or node", take_ranking},
    {"bynode rr", "", "--taskmap=cyclic"},
    {"byslot bycore", "", "-"},
    {"oversubscribe", "", "--oversubscribe", "More tasks than cores may be on a node"},
    {"ppr", "N:node", "", "", take_ppr},
    {"topolib", "X", ""},
    {"nooversubscribe use-hwthread-cpus", "", ""},
    {"report-bindings", "", "--setopt=cpu-affinity.verbose=true", "Print what each task is bound to"},
    {"rankfile rf", "FILE",
     "!its slots are cores as Open MPI counts them on each node, which nacre does not know before it is there: "
     "--taskmap=manual:MAP of nacre run says which task is on which node, -o cpu-affinity=map:LIST the cpus"},
    {"cpu-set cpu-list slot-list", "CPUS", "!-o cpu-affinity of nacre run binds tasks to cpus by number"},
    {"usize", "N", "", "MPI_UNIVERSE_SIZE: N, SYSTEM (all that have room), INFINITE (not set)", take_universe},
    {"soft", "SET", "", "As many tasks as the largest number of SET, up to -n: 2:8:2,16", take_soft},
    {"arch", "NAME", "", "The architecture of the hosts, which is that of this one", take_architecture},
    {"initial-errhandler", "NAME", ""},
};

constexpr MpiOption kOptionsOfHosts[] = {
    {"host hosts H", "LIST", "", "These hosts: n0,n1 or n0:4,n1:4, with so many slots", take_hosts},
    {"f hostfile machinefile default-hostfile machine", "FILE", "--hostfile=%",
     "Those that FILE names, one a line: n0:4, or n0 slots=4"},
    {"launcher bootstrap", "NAME", "", "What starts tasks elsewhere: ssh, rsh, slurm, fork", take_launcher},
    {"launcher-exec bootstrap-exec", "CMD", "--agent=%", "The same, a command that is called as ssh is"},
    {"nolocal skip-launch-node", "", "!name the other hosts: -host"},
    {"rmk iface localhost nameserver ckpointlib ckpoint-prefix demux launch-agent personality prefix order-nodes "
     "max-vm-size cartofile cf tmpdir keepalive spawn-timeout forward-signals gpu-support memory-alloc-kinds",
     "X", ""},
    {"ompi-server hnp", "URI", "!ports and names are found within the job: nacre-pmi(7)"},
    {"dvm", "", "!nacre has no daemons: each job starts its own shells"},
    {"noprefix novm set-sid no-ready-msg enable-x disable-x disable-hostname-propagation pmi-port "
     "leave-session-attached "
     "do-not-resolve use-regexp fwd-mpirun-port enable-instant-on-support",
     "", ""},
};

constexpr MpiOption kOptionsOfEnvironment[] = {
    {"x", "NAME[=VALUE]", "", "Set a variable of the program's tasks", export_variable},
    {"env", "NAME VALUE", "", "The same", take_variable},
    {"genv", "NAME VALUE", "", "The same, of all programs", take_global_variable},
    {"genvlist", "NAMES", "", "Of this environment only these variables: A,B", take_variables_only},
    {"envlist", "NAMES", "", "", take_variables_of_program},
    {"genvnone", "", "", "None of this environment", take_no_variables},
    {"envnone", "", "", "", take_no_variables_of_program},
    {"genvall envall", "", "-", "All of it, which is the default"},
    {"mca gmca", "NAME VALUE", "", "Set a parameter of Open MPI", take_mca},
    {"prtemca", "NAME VALUE", "", "", take_prte_mca},
    {"pmixmca gpmixmca", "NAME VALUE", "", "", take_pmix_mca},
    {"unset-env", "NAME", "--env-remove=%"},
    {"wdir wd", "DIR", "", "The program's directory (default: this one)", take_directory},
    {"path", "DIRS", "", "Where the program is looked for: /a:/b", take_path},
    {"am tune", "FILE", "!-mca sets parameters of Open MPI, one by one"},
    {"index-argv-by-rank", "", "!sh -c 'exec app.$PMI_RANK' starts a program by its rank"},
    {"preload-binary s", "", "!programs are taken along by -o stage-in of nacre run"},
    {"set-cwd-to-session-dir", "", "!-wdir names a directory; NACRE_JOB_TMPDIR is the job's own"},
    {"preload-files", "FILES", "!files are taken along by -o stage-in of nacre run"},
};

constexpr MpiOption kOptionsOfStreams[] = {
    {"stdin", "RANKS", "", "Who gets the standard input: 0 (the default), all, none, or ranks", take_input_ranks},
    {"l prepend-rank tag-output", "", "--label-io", "Put the task's rank before each line"},
    {"outfile-pattern", "FILE", "", "Standard output to FILE: %r is the rank, %h the host", take_output_pattern},
    {"errfile-pattern", "FILE", "", "Standard error, likewise", take_error_pattern},
    {"output-filename output-directory", "DIR", "", "Both, to DIR/1/rank.N/stdout and stderr", take_output_folder},
    {"output", "HOW", "", "As Open MPI 5 has it: tag, timestamp, dir=DIR", take_output},
    {"stream-buffering", "N", "", "", take_buffering},
    {"prepend-pattern", "TEXT", "", "Put TEXT before each line: %r is the rank, %h the host", take_label_pattern},
    {"timestamp-output", "", "--setopt=output.stdout.timestamps=iso", "Put the time before each line"},
    {"xml-file", "FILE", "!--format=json of nacre run has the rank, the stream and the time of each line"},
    {"xml", "", "!--format=json of nacre run has the rank, the stream and the time of each line"},
    {"merge-stderr-to-stdout", "", "!2>&1 behind mpiexec does that"},
    {"xterm", "RANKS", "!--pty=RANKS of nacre run gives tasks terminals"},
};

constexpr MpiOption kOptionsOfRest[] = {
    {"timeout", "SECONDS", "", "End the job after so many seconds, also by MPIEXEC_TIMEOUT", take_timeout},
    {"disable-auto-cleanup enable-recovery continuous", "", "", "Go on when tasks fail, or nodes are lost",
     go_on_after_failures},
    {"with-ft", "ulfm", "", "", take_fault_tolerance},
    {"enable-auto-cleanup disable-recovery", "", "-"},
    {"setopt", "NAME=VALUE", "--setopt=%", "An option of the shell, as -o of nacre run; pmi=pmix: see mpiexec(1)"},
    {"max-restarts", "N", "--restart=on-failure,max=%", "Start tasks again that fail"},
    {"configfile app", "FILE", "", "Programs with their options, one a line", take_programs},
    {"do-not-launch", "", "--explain", "Print the plan, and start nothing"},
    {"verbose v", "", "--verbose", "Print what is started where"},
    {"quiet q", "", "--quiet", "Print nothing but warnings and errors"},
    {"debug tv debugger", "", "!gdb: nacre exec -r RANK gdb -p PID; or --wrap='gdb -batch' of nacre run"},
    {"file", "FILE", "!-configfile FILE has programs with their options"},
    {"display-map display-allocation display-devel-map display-devel-allocation display-diffable-map display-topo "
     "print-rank-map print-all-exitcodes "
     "show-progress "
     "debug-daemons debug-daemons-file debug-devel d output-proctable profile report-state-on-timeout "
     "get-stack-traces report-child-jobs-separately",
     "", ""},
    {"report-pid report-uri report-events display runtime-options", "X", "", ""},
    {"allow-run-as-root nocheck", "", "-"},
    {"help h", "", "", "Print this help", ask_help},
    {"version V info", "", "", "Print the version", ask_version},
};

constexpr std::array<MpiGroup, 5> kGroups{
    {{"Tasks", kOptionsOfTasks},
     {"Hosts, by default those of the allocation, else this one", kOptionsOfHosts},
     {"Environment", kOptionsOfEnvironment},
     {"Input and output", kOptionsOfStreams},
     {"Other options", kOptionsOfRest}}};

const MpiOption* find_option(std::string_view name) {
  for (const MpiGroup& group : kGroups) {
    for (const MpiOption& each : group.options) {
      auto names = split(each.names, ' ');
      if (std::find(names.begin(), names.end(), name) != names.end()) return &each;
    }
  }
  return nullptr;
}

std::string dashed(std::string_view name) { return (name.size() == 1 ? "-" : "--") + std::string(name); }

Error unknown_option(const std::string& word, std::string_view name) {
  std::vector<std::string> known;
  for (const MpiGroup& group : kGroups) {
    for (const MpiOption& each : group.options) {
      for (std::string_view one : split(each.names, ' ')) known.emplace_back(one);
    }
  }
  auto near = nearest(name, known);
  return invalid(
      fmt::format("{} is not known{}", in_quotes(word), near ? "; did you mean " + dashed(*near) + "?" : ""));
}

// ---- reading ----------------------------------------------------------------------------

Result<void> take(Reading& into, const MpiOption& option, const std::string& word, const Values& values) {
  if (option.take != nullptr) return option.take(into, values);
  if (option.to.empty()) {
    into.pass_over(word);
  } else if (option.to.starts_with('!')) {
    return invalid(fmt::format("it is not taken: {}", option.to.substr(1)));
  } else if (option.to != "-") {
    const std::size_t place = option.to.find('%');
    into.add(place == std::string_view::npos
                 ? std::string(option.to)
                 : fmt::format("{}{}{}", option.to.substr(0, place), values[0], option.to.substr(place + 1)));
  }
  return {};
}

std::string Reading::next() {
  std::string out = std::move(left_.front());
  left_.pop_front();
  return out;
}

// A name and its value may be one word, as with Hydra.
bool split_at_equals(Values& values) {
  const std::size_t equals = values[0].find('=');
  if (equals == std::string::npos || equals == 0) return false;
  values = {values[0].substr(0, equals), values[0].substr(equals + 1)};
  return true;
}

Result<void> Reading::take_option() {
  const std::string word = next();
  std::string_view name = word;
  name.remove_prefix(name.starts_with("--") ? 2 : 1);
  Values values;
  const MpiOption* option = find_option(name);
  const std::size_t equals = name.find('=');
  if (option == nullptr && equals != std::string_view::npos && word.starts_with("--")) {
    option = find_option(name.substr(0, equals));
    values.emplace_back(name.substr(equals + 1));
  }
  if (option == nullptr) return unknown_option(word, name);
  const std::size_t wanted = option->values.empty() ? 0 : split(option->values, ' ').size();
  if (values.size() > wanted) return invalid(fmt::format("{}: it has no value", word));
  while (values.size() < wanted && !left_.empty()) {
    if (values.size() == 1 && split_at_equals(values)) break;
    values.push_back(next());
  }
  if (values.size() < wanted) return invalid(fmt::format("{}: expected {}", word, option->values));
  option_ = word.substr(0, word.starts_with("--") ? word.find('=') : word.size());
  return in(word, take(*this, *option, word, values));
}

Result<void> Reading::read() {
  do {
    programs_.emplace_back();
    while (!left_.empty() && left_.front().size() > 1 && left_.front().starts_with('-') && left_.front() != "--") {
      CHECK_OK(take_option());
      if (kind_ != MpiexecRun::Kind::job) return {};
    }
    if (!left_.empty() && left_.front() == "--") left_.pop_front();
    bool ends = false;
    while (!left_.empty() && !ends) {
      std::string word = next();
      ends = word == ":";
      if (!ends) program().command.push_back(std::move(word));
    }
    if (!program().soft.empty()) program().tasks = TRY(in("-soft", largest_of(program().soft, program().tasks)));
    if (program().command.empty() || program().command[0].empty())
      return invalid("expected a program, as in: mpiexec -n 4 ./app");
    program().look_in_directory();
    if (ends && left_.empty()) return invalid("expected a program behind the last ':'");
  } while (!left_.empty());
  if (programs_.size() > 1 && !for_one_program_.empty())
    return invalid(
        fmt::format("{}: of several programs one cannot have an environment of its own that is not all of "
                    "this one; -genvlist and -genvnone are for all",
                    for_one_program_));
  return {};
}

Result<void> Reading::take_file(const std::string& path) {
  if (std::exchange(has_file_, true)) return invalid("a second file with programs");
  std::deque<std::string> words;
  std::size_t number = 0;
  const std::string text = TRY(read_file(path));
  for (std::string_view line : split(text, '\n')) {
    ++number;
    const std::size_t first = line.find_first_not_of(" \t");
    if (first == std::string_view::npos || line[first] == '#') continue;
    auto of_line = TRY(in(fmt::format("{}: line {}", path, number), words_of(line)));
    if (!words.empty()) words.emplace_back(":");
    words.insert(words.end(), of_line.begin(), of_line.end());
  }
  if (words.empty()) return invalid(fmt::format("{}: it has no program", path));
  left_.insert(left_.begin(), words.begin(), words.end());
  return {};
}

// ---- as words of nacre run ---------------------------------------------------------------

std::uint64_t Reading::tasks() const {
  return std::accumulate(programs_.begin(), programs_.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const MpiProgram& each) { return sum + each.tasks.value_or(1); });
}

void Reading::add_only_program(const Variable& variable) {
  const MpiProgram& only = programs_[0];
  if (only.tasks) add(fmt::format("--ntasks={}", *only.tasks));
  if (!only.hosts.empty()) add("--hosts=" + only.hosts);
  if (!only.directory.empty()) add("--chdir=" + only.directory);
  if (!only.path.empty()) add(set_rule("PATH", only.path + ":" + variable("PATH").value_or("")));
  for (const MpiProgram::Change& each : only.environment)
    add(each.value ? set_rule(each.name, *each.value) : "--env=" + each.name);
}

// Hosts of the first program alone are for all programs; otherwise each program has its own hosts for its tasks.
Result<void> Reading::add_hosts() {
  const auto has_hosts = [](const MpiProgram& each) { return !each.hosts.empty(); };
  if (std::none_of(programs_.begin(), programs_.end(), has_hosts)) return {};
  if (std::none_of(programs_.begin() + 1, programs_.end(), has_hosts)) {
    add("--hosts=" + programs_[0].hosts);
    return {};
  }
  std::vector<std::string> names;
  std::vector<value::Idset> ranks;  // by host
  std::uint64_t rank = 0;
  for (const MpiProgram& program : programs_) {
    if (program.hosts.empty())
      return invalid("-host: either the first program has hosts, which are for all then, or each has");
    const boot::Allocation hosts = TRY(in("-host", boot::hosts_of_list(program.hosts)));
    std::vector<std::uint32_t> slots;
    for (const auto& each : hosts.hosts) slots.push_back(each.slots);
    const auto places = fill_slots(slots, program.tasks.value_or(1));
    for (std::size_t i = 0; i < places.size(); ++i) {
      auto host =
          static_cast<std::size_t>(std::find(names.begin(), names.end(), hosts.hosts[i].name) - names.begin());
      if (host == names.size()) {
        names.push_back(hosts.hosts[i].name);
        ranks.emplace_back();
      }
      ranks[host].insert(static_cast<value::Idset::Id>(rank), static_cast<value::Idset::Id>(rank + places[i] - 1));
      rank += places[i];
    }
  }
  std::string map;
  for (const value::Idset& each : ranks) map += (map.empty() ? "" : ";") + each.str();
  add(fmt::format("--hosts={}", fmt::join(names, ",")));
  add(fmt::format("--nodes={}", names.size()));
  add("--taskmap=manual:" + map);
  return {};
}

// As the option multi-prog has them, where % is special.
Result<void> Reading::add_programs(const Variable& variable) {
  if (tasks() > job::Jobspec::kMaxCount)
    return invalid(fmt::format("{} tasks; at most {}", tasks(), job::Jobspec::kMaxCount));
  Json option = Json::array();
  std::uint64_t rank = 0;
  for (const MpiProgram& program : programs_) {
    const std::uint64_t last = rank + program.tasks.value_or(1) - 1;
    Json entry{{"ranks", last > rank ? fmt::format("{}-{}", rank, last) : fmt::format("{}", rank)}};
    rank = last + 1;
    for (const std::string& word : program.command) {
      if (!io::is_utf8(word)) return Error{EILSEQ, in_quotes(word) + ": no UTF-8, which a jobspec has to be"};
      std::string escaped;
      for (char each : word) escaped.append(each == '%' ? 2 : 1, each);
      entry["command"].push_back(std::move(escaped));
    }
    if (!program.directory.empty()) entry["cwd"] = program.directory;
    if (!program.path.empty()) entry["environment"]["PATH"] = program.path + ":" + variable("PATH").value_or("");
    for (const MpiProgram::Change& each : program.environment) {
      auto value = each.value ? each.value : variable(each.name.c_str());
      if (value && !io::is_utf8(*value)) return Error{EILSEQ, each.name + ": no UTF-8, which a jobspec has to be"};
      if (value) entry["environment"][each.name] = *value;
    }
    option.push_back(std::move(entry));
  }
  add(fmt::format("--ntasks={}", tasks()));
  CHECK_OK(add_hosts());
  add("--setopt=multi-prog=" + dump_json(option));
  return {};
}

// Options may say the same, as -map-by node and -rank-by node; nacre run wants each of its words once.
Result<void> Reading::merge_words() {
  if (!agent_.empty() && !has_word("--agent=")) words_.push_back({"--agent=" + agent_, "-launcher"});
  std::vector<Word> merged;
  for (Word& each : words_) {
    const std::string_view name = std::string_view(each.text).substr(0, each.text.find('=') + 1);
    const bool is_once =
        !name.empty() && !name.starts_with("--env") && name != "--setopt=" && name != "--agent-arg=";
    auto same = std::find_if(merged.begin(), merged.end(), [&](const Word& other) {
      return other.text == each.text || (is_once && other.text.starts_with(name));
    });
    if (!is_once || same == merged.end())
      merged.push_back(std::move(each));
    else if (same->text != each.text)
      return invalid(fmt::format("{} and {} contradict each other: give one of them", same->option, each.option));
  }
  words_ = std::move(merged);
  return {};
}

Result<std::vector<std::string>> Reading::words(const Variable& variable) {
  CHECK_OK(merge_words());
  const bool is_one = programs_.size() == 1;
  if (is_one)
    add_only_program(variable);
  else
    CHECK_OK(add_programs(variable));
  if (auto file = variable("HYDRA_HOST_FILE"); file && !has_places()) add("--hostfile=" + *file);
  if (auto seconds = variable("MPIEXEC_TIMEOUT"); seconds && !has_word("--time-limit="))
    add(fmt::format("--time-limit={}s", TRY(in("MPIEXEC_TIMEOUT", count(*seconds)))));
  if (!input_.empty()) add(input_);
  if (fails_fast_) add("--fail-fast");
  if (!has_word("--tasks-per-node=") && !has_word("--taskmap=")) add("--tasks-per-node=slots");
  std::vector<std::string> out;
  if (kept_) out.emplace_back("--env-remove=*");
  for (const std::string& each : kept_.value_or(Values())) out.push_back("--env=" + each);
  for (Word& each : words_) out.push_back(std::move(each.text));
  out.emplace_back("--");
  out.insert(out.end(), programs_[0].command.begin(), programs_[0].command.end());
  return out;
}

}  // namespace

Result<MpiexecRun> read_mpiexec(const std::vector<std::string>& words, const Variable& variable) {
  Reading reading(words);
  CHECK_OK(reading.read());
  MpiexecRun out;
  out.kind = reading.kind();
  if (out.kind != MpiexecRun::Kind::job) return out;
  out.words = TRY(reading.words(variable));
  out.passed_over = reading.passed_over();
  return out;
}

std::variant<cli::Reply, std::vector<std::string>> words_of_mpiexec(const std::string& program,
                                                                    const std::vector<std::string>& words) {
  auto read = read_mpiexec(words, [](const char* name) { return own_variable(name); });
  if (!read) return cli::usage_error(program, read.error().message);
  if (read->kind == MpiexecRun::Kind::help) return cli::Reply{0, mpiexec_help(program)};
  if (read->kind == MpiexecRun::Kind::version)
    return cli::Reply{0, fmt::format("{} (nacre) {}\n", program, kVersion)};
  if (!read->passed_over.empty())
    print_err("{}: passed over, as nacre has no use for {}: {}\n", program,
              read->passed_over.size() == 1 ? "it" : "them", fmt::join(read->passed_over, " "));
  return std::move(read->words);
}

// ---- help -------------------------------------------------------------------------------

std::string mpiexec_help(std::string_view program) {
  std::string out = fmt::format(
      "Run an MPI program, or any other, as the tasks of a job: of MPICH, Open MPI, Intel MPI, MVAPICH.\n"
      "Usage: {0} [OPTIONS] PROGRAM [ARG...] [: [OPTIONS] PROGRAM [ARG...]]...\n"
      "\nExamples:\n"
      "  {0} -n 4 ./app                          four ranks, here or in the allocation\n"
      "  {0} -host n0,n1 -ppn 8 ./app            eight on each of two hosts, by ssh\n"
      "  {0} -n 1 ./server : -n 3 ./client       two programs with one MPI_COMM_WORLD\n",
      program);
  for (const MpiGroup& group : kGroups) {
    out += fmt::format("\n{}:\n", group.title);
    for (const MpiOption& option : group.options) {
      if (option.help.empty()) continue;
      std::vector<std::string> names;
      for (std::string_view each : split(option.names, ' ')) names.push_back("-" + std::string(each));
      const std::string shown =
          fmt::format("{}{}{}", fmt::join(names, ","), option.values.empty() ? "" : " ", option.values);
      constexpr std::size_t kColumn = 34;
      out += fmt::format(
          "  {}{}{}\n", shown,
          shown.size() < kColumn ? std::string(kColumn - shown.size(), ' ') : "\n" + std::string(kColumn + 2, ' '),
          option.help);
    }
  }
  return out +
         "\nEach is taken with one dash or two. What else launchers of MPI know is in mpiexec(1), and what nacre\n"
         "run can do beside it in nacre-run(1).\n";
}

}  // namespace nacre::front
