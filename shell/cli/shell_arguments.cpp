// SPDX-License-Identifier: Apache-2.0
#include "cli/shell_arguments.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "cli/command_line.hpp"
#include "cli/option_list.hpp"
#include "cli/raw_arguments.hpp"
#include "job/options.hpp"
#include "version.hpp"

namespace nacre::cli {
namespace {

Reply misused(const std::string& message) { return usage_error("nacre-shell", message); }

std::optional<Reply> check(RawArguments& raw) {
  ShellArguments& out = raw.values;
  auto chosen = boot::parse_way(raw.way);
  if (!chosen) return misused(fmt::format("--boot: {}", chosen.error().message));
  out.way = *chosen;
  if (out.way == boot::Way::standalone) out.standalone = true;
  if (out.standalone && out.way != boot::Way::standalone && raw.has_way) {
    return misused(fmt::format("--standalone and --boot={} exclude each other", raw.way));
  }
  if (out.standalone && !raw.has_jobspec) return misused("--standalone needs --jobspec=FILE");
  if (out.standalone && !raw.has_resources) return misused("--standalone needs --resources=FILE");
  if (out.launch_record && (out.standalone || out.way != boot::Way::automatic))
    return misused("--launch-record is a way of its own: it excludes --standalone and --boot");
  if (!raw.rank.empty() && !out.standalone)
    return misused("--rank is for --standalone: elsewhere the manager gives the shell's rank");
  job::Options options;
  for (const std::string& each : out.options) {
    auto taken = options.set_from_argument(each);
    if (!taken) return misused(fmt::format("-o {}: {}", each, taken.error().message));
  }
  if (out.boot.jobspec_path == "-" && out.boot.resources_path == "-") {
    return misused("-j and -R cannot both be standard input");
  }
  if (!raw.jobid.empty()) {
    auto id = value::JobId::parse(raw.jobid);
    if (!id) return misused(fmt::format("JOBID: {}", id.error().message));
    out.boot.id = *id;
  }
  if (!raw.rank.empty()) {
    auto number = parse_u64(raw.rank);
    if (!number || *number > UINT32_MAX)
      return misused(fmt::format("--rank: expected a rank, got {}", in_quotes(raw.rank)));
    out.boot.broker_rank = static_cast<std::uint32_t>(*number);
  }
  return std::nullopt;
}

}  // namespace

std::optional<Reply> read_all(int argc, char** argv, RawArguments& to) {
  ShellArguments& out = to.values;
  std::string list;
  bool version = false;
  CommandLine app(
      "nacre-shell",
      "Runs one node's share of a job: reads the jobspec and the resource set R, loads plugins, starts the\n"
      "tasks, carries their output, and exits with the largest of their exit codes.");
  app.add_help();
  app.add_option("JOBID", to.jobid, "The job's id, in any form of RFC 19 (default: a new one)");
  app.add_flag("-s,--standalone", out.standalone, "Run alone, without a job manager; needs -j and -R");
  app.add_option("--boot", to.way,
                 "How the job's shells find each other: auto (what the environment speaks of), pmi, pmix, slurm,\n"
                 "hosts, standalone; see nacre-boot(7)")
      ->option_text("WAY");
  app.add_option("--secret-file", out.secret_file, "Read the job's secret from FILE (mode 0600), for --boot=slurm")
      ->option_text("FILE");
  app.add_number("--launch-record", out.launch_record,
                 "Read the launch record from descriptor FD: the job is this shell alone, see nacre-boot(7)",
                 {3, INT32_MAX})
      ->option_text("FD");
  app.add_number("--arity", out.arity, "How many shells a shell of the tree has below it, of shell 0 (default: 16)",
                 {2, launch::LaunchRecord::kMaxArity})
      ->option_text("K");
  app.add_flag("--exit-local", out.exit_local, "Exit with the code of this shell's tasks, not with the job's");
  app.add_option("-j,--jobspec", out.boot.jobspec_path,
                 "Read the jobspec (JSON or YAML) from FILE, of shell 0; - is stdin")
      ->option_text("FILE");
  app.add_option("-R,--resources", out.boot.resources_path,
                 "Read the resource set R from FILE, of shell 0; - is stdin")
      ->option_text("FILE");
  app.add_option("-r,--rank", to.rank, "Be the shell of this rank of R (default: its lowest)")->option_text("RANK");
  app.add_option("-o,--setopt", out.options, "Set a shell option, see nacre-shell-options(7); may be repeated")
      ->option_text("OPT[=VAL]");
  app.add_option("--initrc", out.initrc, "Load the initrc from FILE; standalone loads none without it")
      ->option_text("FILE");
  app.add_option("--record-dir", out.record_directory, "Keep the job's record, its events and output, in DIR")
      ->option_text("DIR");
  app.add_option("--eventlog", out.eventlog, "Write the job's events (RFC 18) to FILE")->option_text("FILE");
  app.add_flag("--explain", to.explain,
               "Print the whole plan, or less of it, and start nothing; plugins: only those, as JSON", "plan")
      ->option_text("[=brief|env|plugins]")
      ->check(one_of({"brief", "env", "plugins"}));
  app.add_option("--list-options", list, "Print all shell options: json; or bash, zsh, fish: what completes them")
      ->option_text("FORMAT");
  app.add_counter("-v,--verbose", out.verbose, "Log more: once for debug messages, twice for a trace");
  app.add_flag("-q,--quiet", out.quiet, "Log only warnings and errors, and print no report")
      ->excludes({"--verbose"});
  app.add_flag("-V,--version", version, "Print the version")->suffices();
  if (auto read = app.read({argv + 1, argv + std::max(argc, 1)}); !read) return misused(read.error().message);
  if (app.count("--help") > 0) return Reply{0, app.help()};
  if (app.count("--version") > 0) return Reply{0, fmt::format("nacre-shell {}\n", kVersion)};
  if (app.count("--list-options") > 0) {
    if (auto options = list_options(list)) return Reply{0, *options};
    return misused(
        fmt::format("--list-options: expected {}, got {}", fmt::join(kListFormats, ", "), in_quotes(list)));
  }
  to.has_way = app.count("--boot") > 0;
  to.has_jobspec = app.count("--jobspec") > 0;
  to.has_resources = app.count("--resources") > 0;
  out.explain_plugins = to.explain == "plugins";
  out.explain = !to.explain.empty() && !out.explain_plugins;
  if (to.explain != "plan") out.explain_detail = to.explain;
  return std::nullopt;
}

std::variant<ShellArguments, Reply> parse_shell_arguments(int argc, char** argv) {
  RawArguments raw;
  bool has_name = argc > 0;
  if (!has_name || !read_usual({argv + 1, static_cast<std::size_t>(argc - 1)}, raw)) {
    if (auto reply = read_all(argc, argv, raw)) return *std::move(reply);
  }
  if (auto reply = check(raw)) return *std::move(reply);
  return std::move(raw.values);
}

}  // namespace nacre::cli
