// SPDX-License-Identifier: Apache-2.0
#include "boot/allocation.hpp"

#include "base/file.hpp"
#include "base/text.hpp"
#include "job/resources.hpp"
#include "value/hostlist.hpp"

namespace nacre::boot {
namespace {

std::vector<std::string_view> words_of(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  std::vector<std::string_view> out;
  for (std::size_t at = 0; (at = text.find_first_not_of(kBlanks, at)) != std::string_view::npos;) {
    std::size_t end = std::min(text.find_first_of(kBlanks, at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end;
  }
  return out;
}

Result<std::uint32_t> slots_of(std::string_view text) {
  auto number = parse_u64(text);
  if (number && *number > 0 && *number <= Allocation::kMaxSlots) return static_cast<std::uint32_t>(*number);
  return invalid(
      fmt::format("expected a number of slots from 1 to {}, got {}", Allocation::kMaxSlots, in_quotes(text)));
}

// Slots are what was asked for, but in Slurm, which tells how many cpus there are as well.
Allocation with_tasks_of_slots(Allocation out) {
  std::uint64_t sum = 0;
  bool some = false;
  for (const Allocation::Host& each : out.hosts) {
    some = some || each.slots > 0;
    sum += std::max<std::uint32_t>(each.slots, 1);
  }
  if (!some || sum > Allocation::kMaxSlots) return out;
  out.tasks = static_cast<std::uint32_t>(sum);
  out.tasks_source = out.source;
  return out;
}

// Collects hosts by name, each once.
class Gathering {
 public:
  explicit Gathering(std::string source) { out_.source = std::move(source); }

  Result<void> add(std::string_view name, std::uint32_t slots) {
    auto [place, is_new] = index_.emplace(std::string(name), out_.hosts.size());
    if (is_new) {
      auto list = value::Hostlist::parse(name);
      if (!list || list->size() != 1 || list->nth(0) != name || name.find(':') != std::string_view::npos) {
        return invalid(fmt::format("{} is no name of a host", in_quotes(name)));
      }
      if (out_.hosts.size() == Allocation::kMaxHosts) {
        return invalid(fmt::format("more than {} hosts", Allocation::kMaxHosts));
      }
      out_.hosts.push_back({std::string(name), 0});
      bare_.push_back(0);
    }
    std::uint32_t& sum = out_.hosts[place->second].slots;
    std::uint32_t& bare = bare_[place->second];
    if (std::max<std::uint32_t>(slots, 1) > Allocation::kMaxSlots - sum - bare) {
      return invalid(fmt::format("{} has more than {} slots", name, Allocation::kMaxSlots));
    }
    sum += slots;
    bare += slots == 0 ? 1 : 0;
    repeats_ = repeats_ || (slots == 0 && !is_new);
    return {};
  }

  Result<Allocation> finish() && {
    if (out_.hosts.empty()) return invalid("it names no host");
    for (std::size_t i = 0; repeats_ && i < bare_.size(); ++i) out_.hosts[i].slots += bare_[i];
    return with_tasks_of_slots(std::move(out_));
  }

 private:
  Allocation out_;
  std::unordered_map<std::string, std::size_t> index_;
  std::vector<std::uint32_t> bare_;  // by host: how often it has been named without slots
  bool repeats_ = false;             // a host that had been named before has been so: each time is a slot then
};

using TakeLine = Result<void> (*)(std::string_view line, Gathering& into);

Result<Allocation> read_hosts(const std::string& path, std::string source, TakeLine take) {
  std::string text = TRY(read_file(path, Allocation::kMaxFileSize));
  Gathering gathering(std::move(source));
  std::size_t number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    line = trim(line);
    if (line.empty()) continue;
    CHECK_OK(in(fmt::format("{}: line {}", path, number), take(line, gathering)));
  }
  return in(path, std::move(gathering).finish());
}

// ---- the forms of files ------------------------------------------------------------------

Result<void> take_name(std::string_view line, Gathering& into) { return into.add(line, 1); }

Result<void> take_grid_engine(std::string_view line, Gathering& into) {
  std::vector<std::string_view> words = words_of(line);
  if (words.size() < 2) return invalid("expected a host and its slots");
  return into.add(words[0], TRY(slots_of(words[1])));
}

// "node0" or "node0:4".
Result<void> take_host(std::string_view text, Gathering& into) {
  std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return into.add(text, 0);
  return into.add(text.substr(0, colon), TRY(slots_of(text.substr(colon + 1))));
}

// "slots = 4" is "slots=4".
std::string without_blanks_at_equals(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t next = text.find_first_not_of(" \t", i);
    const bool is_blank = next != i;
    if (!is_blank || !(out.ends_with('=') || (next != std::string_view::npos && text[next] == '='))) out += text[i];
  }
  return out;
}

Result<void> take_users(std::string_view line, Gathering& into) {
  const std::string text = without_blanks_at_equals(line.substr(0, line.find('#')));
  std::vector<std::string_view> words = words_of(text);
  if (words.empty()) return {};
  if (words[0].find('=') != std::string_view::npos)
    return invalid(fmt::format("{} is no name of a host", in_quotes(words[0])));
  if (words.size() == 1) return take_host(words[0], into);
  std::uint32_t slots = 0;
  for (std::size_t i = 1; i < words.size(); ++i) {
    std::size_t equals = words[i].find('=');
    std::string_view key = words[i].substr(0, equals);
    std::string_view value = equals == std::string_view::npos ? "" : words[i].substr(equals + 1);
    if (key == "slots") {
      slots = TRY(slots_of(value));
    } else if (key == "max_slots" || key == "max-slots") {
      CHECK_OK(slots_of(value));
    } else {
      return invalid(fmt::format("expected slots=N or max_slots=N after the host, got {}", in_quotes(words[i])));
    }
  }
  return into.add(words[0], slots);
}

constexpr std::uint64_t kMostComponents = 128;  // of a heterogeneous job; Slurm's own limit

// ---- managers ----------------------------------------------------------------------------

// "16(x3),8": a number for each node, in their order.
Result<std::vector<std::uint32_t>> slurm_counts(std::string_view text, std::size_t nodes) {
  Error other = invalid(fmt::format("it is not for the {} nodes of the node list", nodes));
  std::vector<std::uint32_t> out;
  for (std::string_view part : split(text, ',')) {
    std::size_t bracket = part.find("(x");
    std::uint64_t times = 1;
    if (bracket != std::string_view::npos) {
      auto number =
          part.ends_with(')') ? parse_u64(part.substr(bracket + 2, part.size() - bracket - 3)) : std::nullopt;
      if (!number || *number > nodes)
        return invalid(fmt::format("expected N or N(xTIMES), got {}", in_quotes(part)));
      times = *number;
    }
    std::uint32_t slots = TRY(slots_of(part.substr(0, bracket)));
    if (times > nodes - out.size()) return other;
    out.insert(out.end(), times, slots);
  }
  if (out.size() != nodes) return other;
  return out;
}

// "": the job has one component, or this is a step of one.
Result<std::string> all_components(const Variables& variables) {
  auto text = variables("SLURM_HET_SIZE");
  auto count = text ? parse_u64(*text) : std::nullopt;
  value::Hostlist hosts;
  for (std::uint64_t i = 0; count && *count > 1 && i < std::min<std::uint64_t>(*count, kMostComponents); ++i) {
    const std::string name = fmt::format("SLURM_JOB_NODELIST_HET_GROUP_{}", i);
    auto nodes = variables(name.c_str());
    if (!nodes) return std::string();
    for (const std::string& each : TRY(in(name, value::Hostlist::parse(*nodes))).names()) hosts.append(each);
  }
  hosts.uniq();
  return hosts.str();
}

Result<Allocation> of_slurm(const Variables& variables, const char* name, const std::string& nodes) {
  std::vector<std::string> names = TRY(in(name, value::Hostlist::parse(nodes))).names();
  std::vector<std::uint32_t> slots(names.size(), 0);
  for (const char* counts : {"SLURM_TASKS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE"}) {
    auto text = variables(counts);
    if (!text) continue;
    slots = TRY(in(counts, slurm_counts(*text, names.size())));
    break;
  }
  Gathering gathering(name);
  for (std::size_t i = 0; i < names.size(); ++i) CHECK_OK(in(name, gathering.add(names[i], slots[i])));
  Allocation out = TRY(in(name, std::move(gathering).finish()));
  out.tasks.reset();
  out.tasks_source.clear();
  if (auto text = variables("SLURM_NTASKS")) {
    out.tasks = TRY(in("SLURM_NTASKS", slots_of(*text)));
    out.tasks_source = "SLURM_NTASKS";
  }
  out.all_components = TRY(all_components(variables));
  return out;
}

// LSB_HOSTS: "a a b"; LSB_MCPU_HOSTS, with counts: "a 2 b 1".
Result<Allocation> of_lsf(const char* name, std::string_view text, bool with_counts) {
  std::vector<std::string_view> words = words_of(text);
  Gathering gathering(name);
  for (std::size_t i = 0; i < words.size(); i += with_counts ? 2 : 1) {
    if (with_counts && i + 1 == words.size())
      return in(name, invalid("expected a number of slots after each host"));
    std::uint32_t slots = with_counts ? TRY(in(name, slots_of(words[i + 1]))) : 1;
    CHECK_OK(in(name, gathering.add(words[i], slots)));
  }
  return in(name, std::move(gathering).finish());
}

struct HostFile {
  const char* variable;
  TakeLine take;
};

constexpr HostFile kPbs{"PBS_NODEFILE", take_name};
constexpr HostFile kLsf{"LSB_DJOB_HOSTFILE", take_name};
constexpr HostFile kOthers[] = {
    {"OAR_NODEFILE", take_name}, {"PE_HOSTFILE", take_grid_engine}, {"COBALT_NODEFILE", take_name}};

Result<std::optional<Allocation>> of_file(const Variables& variables, const HostFile& file) {
  auto path = variables(file.variable);
  if (!path) return std::optional<Allocation>();
  return TRY(in(file.variable, read_hosts(*path, fmt::format("{} ({})", file.variable, *path), file.take)));
}

// The launcher of Kubeflow's MPIJob, whose file each MPI is told of by a variable of its own.
Result<std::optional<Allocation>> of_mpi_job(const Variables& variables) {
  constexpr const char* kRole = "K_MPI_JOB_ROLE";
  if (variables(kRole) != "launcher") return std::optional<Allocation>();
  std::string path = "/etc/mpi/hostfile";
  for (const char* name : {"OMPI_MCA_orte_default_hostfile", "I_MPI_HYDRA_HOST_FILE", "HYDRA_HOST_FILE"}) {
    if (auto told = variables(name)) path = *told;
  }
  return TRY(in(kRole, read_hosts(path, fmt::format("{} ({})", kRole, path), take_users)));
}

}  // namespace

// Tasks of a job of the instance have FLUX_JOB_ID: its nodes are not theirs.
bool is_flux_allocation(const Variables& variables) {
  return variables("FLUX_URI") && variables("FLUX_ENCLOSING_ID") && !variables("FLUX_JOB_ID");
}

Result<Allocation> flux_allocation(std::string_view resources) {
  job::Resources all = TRY(job::Resources::parse(resources));
  Allocation out;
  out.source = "FLUX_URI (resource.R)";
  for (const job::NodeResources& node : all.nodes) {
    if (node.hostname.empty()) return invalid("execution.nodelist is missing: the hosts have no names");
    out.hosts.push_back({node.hostname, static_cast<std::uint32_t>(node.cores.size())});
  }
  if (all.slots) {
    out.tasks = all.slots;
    out.tasks_source = "execution.nslots of FLUX_URI (resource.R)";
  }
  return out;
}

Result<std::optional<Allocation>> allocation_of(const Variables& variables) {
  for (const char* name : {"SLURM_JOB_NODELIST", "SLURM_NODELIST"}) {
    if (auto nodes = variables(name)) return TRY(of_slurm(variables, name, *nodes));
  }
  for (const HostFile* file : {&kPbs, &kLsf}) {
    if (auto found = TRY(of_file(variables, *file))) return found;
  }
  if (auto hosts = variables("LSB_MCPU_HOSTS")) return TRY(of_lsf("LSB_MCPU_HOSTS", *hosts, true));
  if (auto hosts = variables("LSB_HOSTS")) return TRY(of_lsf("LSB_HOSTS", *hosts, false));
  for (const HostFile& file : kOthers) {
    if (auto found = TRY(of_file(variables, file))) return found;
  }
  return of_mpi_job(variables);
}

Result<Allocation> hosts_of_list(std::string_view list) {
  constexpr const char* kSource = "the list of hosts";
  Gathering gathering(kSource);
  // Commas within brackets belong to the hostlist.
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t at = 0; at <= list.size(); ++at) {
    if (at < list.size() && list[at] == '[') ++depth;
    if (at < list.size() && list[at] == ']') --depth;
    if (at < list.size() && (list[at] != ',' || depth > 0)) continue;
    std::string_view part = trim(list.substr(begin, at - begin));
    begin = at + 1;
    if (part.empty()) continue;
    std::size_t colon = part.rfind(':');
    std::uint32_t slots = colon == std::string_view::npos ? 0 : TRY(in(kSource, slots_of(part.substr(colon + 1))));
    for (const std::string& name : TRY(in(kSource, value::Hostlist::parse(part.substr(0, colon)))).names()) {
      CHECK_OK(in(kSource, gathering.add(name, slots)));
    }
  }
  return in(kSource, std::move(gathering).finish());
}

Result<Allocation> hosts_of_file(const std::string& path) { return read_hosts(path, path, take_users); }

}  // namespace nacre::boot
