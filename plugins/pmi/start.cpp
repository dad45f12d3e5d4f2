// SPDX-License-Identifier: Apache-2.0
#include "plugins/pmi/start.hpp"

#include <unistd.h>

#include "base/program.hpp"
#include "base/text.hpp"
#include "pmi/key_exchange.hpp"
#include "version.hpp"

namespace nacre::plugins {
namespace {

constexpr const char* kProcessMap = "PMI_process_mapping";
constexpr std::size_t kMaxProcessMap = 672;  // the longest that fits into the line that MPICH 4.0's get reads

// MPICH takes the largest node number for the number of nodes, and if there are as many nodes as processes it
// expects no two processes on one node. So nodes without tasks have no number.
value::Taskmap without_gaps(const value::Taskmap& map) {
  std::vector<bool> is_used(map.nodes());
  for (const value::Taskmap::Block& each : map.blocks())
    std::fill_n(is_used.begin() + each.nodeid, each.nnodes, true);
  if (std::find(is_used.begin(), is_used.end(), false) == is_used.end()) return map;
  std::vector<std::uint32_t> node_of(map.tasks());
  std::uint32_t number = 0;
  for (std::uint32_t node = 0; node < map.nodes(); ++node) {
    if (!is_used[node]) continue;
    for (value::Idset::Id rank : map.ranks_on(node).ids()) node_of[rank] = number;
    ++number;
  }
  return value::Taskmap::of(node_of);
}

std::optional<std::uint32_t> universe_of(plugin::Host& host) {
  const job::Job& job = host.job();
  auto options = PmiOptions::read(host.options());
  const std::string chosen = options ? options->universe : "";
  if (chosen == "infinite") return std::nullopt;
  if (auto number = parse_u64(chosen)) return static_cast<std::uint32_t>(*number);
  std::uint64_t room = 0;
  for (std::uint32_t shell : job.shells_in_use().ids())
    room += job.resources.nodes[shell].all_cores().size() / job.spec.cores_per_slot;
  return room > job.tasks() || chosen == "system" ? std::optional(static_cast<std::uint32_t>(room)) : std::nullopt;
}

// The path has an id for each instance that this job is in, and its own: an instance that the job starts is one
// level deeper than the instance that the job belongs to. A broker that is told a level looks for its resources by
// FLUX_URI.
std::optional<std::size_t> level_of(const job::Environment& environment) {
  for (const char* name : {"FLUX_URI", "FLUX_KVS_NAMESPACE", "FLUX_JOB_ID_PATH"}) {
    if (!environment.get(name)) return std::nullopt;
  }
  std::vector<std::string_view> ids = split(*environment.get("FLUX_JOB_ID_PATH"), '/');
  return std::count_if(ids.begin(), ids.end(), [](std::string_view id) { return !id.empty(); });
}

}  // namespace

PmiStart PmiStart::of_job(plugin::Host& host) {
  const job::Job& job = host.job();
  return {1, job.taskmap, !host.joined_late(), job.shells() - 1, universe_of(host), level_of(host.environment())};
}

PmiStart PmiStart::again(plugin::Host& host) {
  const job::Job& job = host.job();
  const std::uint32_t last = host.last_with_tasks();
  return {
      job.restarts + 1, job.taskmap, job.shell_rank <= last, last, universe_of(host), level_of(host.environment())};
}

std::vector<std::uint32_t> PmiStart::ranks_here(plugin::Host& host) const {
  std::vector<std::uint32_t> out;
  const value::Idset ranks = taskmap.ranks_on(host.job().shell_rank);
  for (const auto& task : host.tasks()) {
    if (!takes_part || !ranks.contains(task->rank())) break;  // tasks that have come later are behind the others
    out.push_back(task->rank());
  }
  return out;
}

pmi::ClientGroup PmiStart::group(plugin::Host& host, const PmiOptions& options, pmi::Quota& quota) const {
  pmi::ClientGroup out;
  out.kvsname = host.job().f58();  // a broker of Flux takes it for its job's id
  if (number > 1) out.kvsname += fmt::format("_{}", number);
  out.size = static_cast<std::uint32_t>(taskmap.tasks());
  out.ranks = ranks_here(host);
  out.universe_size = universe_size;
  out.pmi1 = options.simple;
  out.pmi2 = options.pmi2;
  out.quota = &quota;
  return out;
}

PmiExchange::Barriers PmiStart::barriers() const {
  auto ranks_on = [map = taskmap](std::uint32_t shell) {
    return shell < map.nodes() ? map.ranks_on(shell) : value::Idset();
  };
  return {number == 1 ? "pmi" : fmt::format("pmi.{}", number), last, number, ranks_on};
}

// MPICH 4.0 aborts if the map exists and is empty, and fails an assertion if the map is too long for a line.
void set_process_map(pmi::Server& server, const value::Taskmap& map, const PmiOptions& options) {
  std::string text = map.pmi();
  if (!options.nomap && !text.empty() && text.size() <= kMaxProcessMap) server.set_attribute(kProcessMap, text);
}

void set_universe(pmi::Server& server, const std::optional<std::uint32_t>& size) {
  if (size) server.set_attribute("universeSize", fmt::format_int(*size).str());
}

void PmiStart::set_attributes(pmi::Server& server, const PmiOptions& options) const {
  set_process_map(server, without_gaps(taskmap), options);
  std::string text = taskmap.str();
  if (!options.nomap && text.size() < pmi::kMaxValue) server.set_attribute("flux.taskmap", text);
  if (instance_level) server.set_attribute("flux.instance-level", fmt::format_int(*instance_level).str());
  set_universe(server, universe_size);
}

// ---- exchange ---------------------------------------------------------------------------

namespace {

// What a node gives that abstains: this, and the missing ranks. Keys begin with a length, whose first byte is 0.
constexpr char kNothing = '-';

bool is_nothing(std::string_view given) { return !given.empty() && given.front() == kNothing; }

}  // namespace

Result<value::Idset> PmiExchange::missing_in(const plugin::Gathered& gathered) {
  value::Idset out;
  for (const auto& [bytes, shells] : gathered) {
    if (!is_nothing(bytes)) continue;
    out.insert(TRY(in(fmt::format("shells {}", shells.str()), value::Idset::parse(bytes.substr(1)))));
  }
  return out;
}

Result<pmi::Entries> PmiExchange::others_in(const plugin::Gathered& gathered) const {
  pmi::Entries out;
  for (const auto& [bytes, shells] : gathered) {
    if (shells.contains(host_.job().shell_rank) || is_nothing(bytes)) continue;
    auto entries = TRY(in(fmt::format("shells {}", shells.str()), pmi::decode_entries(bytes, most_)));
    out.insert(out.end(), std::make_move_iterator(entries.begin()), std::make_move_iterator(entries.end()));
  }
  return out;
}

PmiExchange::PmiExchange(plugin::Host& host, std::uint64_t most, std::function<void()> missed, MayOpen may_open,
                         Barriers barriers, PmiGroupParts& parts)
    : host_(host),
      most_(most),
      missed_(std::move(missed)),
      may_open_(std::move(may_open)),
      barriers_(std::move(barriers)),
      parts_(parts),
      groups_(host.job().shell_rank, barriers_.last,
              {[this](const std::string& group, const pmi::EntryRefs& keys) {
                 return parts_.announce(barriers_.name, group, keys);
               },
               barriers_.ranks_on, [this](const pmi::BarrierGroup& group) { return opens(group); }}) {
  parts_.listen(barriers_.name, [this](std::uint32_t shell, const std::string& group, Result<pmi::Entries> keys) {
    groups_.part(shell, group, std::move(keys));
  });
}

void PmiExchange::fence_group(const pmi::BarrierGroup& group, const pmi::EntryRefs& mine, Done done) {
  groups_.fence(group, mine, std::move(done));
}

void PmiExchange::abstain(const value::Idset& missing) {
  if (std::exchange(abstains_, true)) return;
  nothing_ = kNothing + missing.str();
  if (!waiting_) give_nothing();
}

// A node that abstains does not know when the others enter, so it is always one barrier ahead, until all nodes
// abstain.
void PmiExchange::give_nothing() {
  give(nothing_, [](const Result<pmi::Entries>&) {});
}

void PmiExchange::give(std::string mine, Done done) {
  waiting_ = true;
  bool abstained = is_nothing(mine);
  auto all = [this, abstained, done = std::move(done)](Result<plugin::Gathered> gathered) {
    auto answer = [this, abstained, done, gathered = std::move(gathered)] { answered(gathered, abstained, done); };
    (held_for_.empty() && moved_.empty()) || abstained ? answer() : void(held_ = std::move(answer));
  };
  std::uint64_t number = ++count_;
  std::string name = fmt::format("{}.{}", barriers_.name, number);
  auto answer = host_.gather_up_to(barriers_.last, name, std::move(mine), std::move(all));
  // otherwise the answer has come already, and the next barrier has begun
  if (number == count_) answer_ = std::move(answer);
}

void PmiExchange::answered(const Result<plugin::Gathered>& gathered, bool abstained, const Done& done) {
  waiting_ = false;
  if (!gathered) return done(gathered.error());
  Result<value::Idset> missing = missing_in(*gathered);
  if (!missing) return done(std::move(missing).error());
  if (abstained || may_open_(*missing, absent_)) done(others_in(*gathered));
  bool goes_on =
      std::any_of(gathered->begin(), gathered->end(), [](const auto& each) { return !is_nothing(each.first); });
  over_ = !goes_on;
  if (!abstains_ || over_) return;
  if (abstained) missed_();  // what it sends to the others comes before their next barrier
  if (!waiting_) give_nothing();
}

void PmiExchange::release(std::uint32_t shell) {
  held_for_.remove(shell);
  settle();
}

void PmiExchange::moved_ended(std::uint32_t rank) {
  if (!moved_.contains(rank)) return;
  moved_.remove(rank);
  absent_.insert(rank);
  settle();
}

void PmiExchange::settle() {
  groups_.settle_all();
  if (!held_for_.empty() || !moved_.empty()) return;
  if (auto answer = std::exchange(held_, nullptr)) answer();
}

bool PmiExchange::opens(const pmi::BarrierGroup& group) const {
  auto of_group = [&group](const value::Idset& ranks) {
    return group.ranks.empty() ? ranks : ranks & value::Idset::of(group.ranks);
  };
  if (!held_for_.empty()) return false;
  return group.is_node() || (of_group(moved_).empty() && may_open_({}, of_group(absent_)));
}

// ---- environment ------------------------------------------------------------------------

void name_library(job::Environment& environment, bool is_first) {
  const InstalledTree installed(kProgramDirectory);
  std::string path = installed.path({kPmiLibraryOfBuild, kPmiLibraryFromHere}, kPmiLibrary);
  if (::access(path.c_str(), R_OK) != 0) return;
  environment.set("FLUX_PMI_LIBRARY_PATH", path);
  if (!is_first) return;
  std::string_view before = environment.get("LD_LIBRARY_PATH").value_or("");
  environment.set("LD_LIBRARY_PATH",
                  fmt::format("{}{}{}", path.substr(0, path.rfind('/')), before.empty() ? "" : ":", before));
}

void leave_alone(job::Environment& environment, bool has_pmix) {
  auto set = [&environment](const char* name, const char* value) {
    if (!environment.get(name)) environment.set(name, value);
  };
  set("OMPI_MCA_pmix", "^flux");
  if (has_pmix) return;  // by the others it would not look for a PMIx server
  set("OMPI_MCA_schizo", "^flux");
  set("OMPI_MCA_ess_singleton_isolated", "1");
}

void separate_segments(plugin::Host& host) {
  const job::Job& job = host.job();
  // Made-up nodes have other names, and are all on this host.
  const bool is_pretended = host.options().find("pretend") != nullptr;
  auto here = std::count_if(job.resources.nodes.begin(), job.resources.nodes.end(),
                            [&](const auto& each) { return is_pretended || each.hostname == job.node().hostname; });
  auto directory = host.environment().get("FLUX_JOB_TMPDIR");
  if (here < 2 || !directory) return;
  const std::string own(*directory);
  // The transport is called vader up to version 4, sm from 5 on.
  for (const char* name : {"OMPI_MCA_btl_vader_backing_directory", "OMPI_MCA_btl_sm_backing_directory"}) {
    if (!host.environment().get(name)) host.environment().set(name, own);
  }
}

void let_yield(plugin::Host& host, task::Command& command) {
  constexpr const char* kYield = "OMPI_MCA_mpi_yield_when_idle";
  const bool shares = host.tasks().size() > host.job().node().cores.size();
  if (shares && !command.env.get(kYield)) command.env.set(kYield, "1");
}

// "cray-pals" may be the interface of a file cray_pals.so, whose plugin may be pmi-cray-pals.
void warn_of_unknown(plugin::Host& host, const plugin::Plugin& plugin, const std::vector<std::string>& names) {
  const std::vector<std::string> kNames{"simple", "pmi1", "pmi2", "pmix", "off", "none"};
  for (const std::string& each : names) {
    std::string file = each;
    std::replace(file.begin(), file.end(), '-', '_');
    const plugin::Stack& stack = host.stack();
    bool is_there =
        stack.find(each) != nullptr || stack.find(file) != nullptr || stack.find("pmi-" + each) != nullptr;
    if (is_there || !host.job().leads()) continue;
    log(host, plugin, Level::warn,
        "pmi: there is no plugin {}, and tasks do without it; nacre has simple, pmi2 and pmix{}", in_quotes(each),
        did_you_mean(each, kNames));
  }
}

// ---- announced names --------------------------------------------------------------------

namespace {

// A name and its port, as entries.
constexpr std::string_view kPublished = "pmi.publish";
constexpr std::string_view kUnpublished = "pmi.unpublish";

}  // namespace

void announce_names(plugin::Host& host, const plugin::Plugin& plugin, pmi::Names& names) {
  names.when_changed([&host, &plugin](std::string_view name, const std::optional<std::string_view>& port) {
    pmi::Entries entry{{std::string(name), std::string(port.value_or(""))}};
    Result<void> sent = host.announce(port ? kPublished : kUnpublished, pmi::encode_entries(entry));
    if (!sent) log(host, plugin, Level::warn, "the name {}: {}", name, sent.error().message);
  });
}

void take_announced_name(plugin::Host& host, const plugin::Plugin& plugin, pmi::Names& names,
                         std::string_view topic, std::string_view bytes) {
  if (topic != kPublished && topic != kUnpublished) return;
  auto entries = pmi::decode_entries(bytes);
  if (!entries) return log(host, plugin, Level::warn, "a name of another node: {}", entries.error().message);
  for (const auto& [name, port] : *entries)
    names.changed(name, topic == kPublished ? std::optional<std::string_view>(port) : std::nullopt);
}

}  // namespace nacre::plugins
