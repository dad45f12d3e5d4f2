// SPDX-License-Identifier: Apache-2.0
#include "usage/row.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "base/json.hpp"
#include "base/text.hpp"

namespace nacre::usage {
namespace {

constexpr unsigned kKibibytes = 10;
constexpr std::int64_t kMostStatus = 0xffff;

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / kMicroseconds;
}

std::int64_t microseconds(double seconds) { return std::llround(seconds * kMicroseconds); }

template <typename Number>
Json or_null(const std::optional<Number>& value) {
  return value ? Json(*value) : Json();
}

// The elements of a row, one after the other.
class Elements {
 public:
  static Result<Elements> of(const Json& wire, std::size_t least) {
    auto all = TRY(JsonAt::root(wire).elements());
    if (all.size() < least) return invalid("a row has too few elements");
    return Elements(std::move(all));
  }

  Result<std::uint64_t> number() { return static_cast<std::uint64_t>(TRY(next().integer(0, kMostOnWire))); }
  Result<double> seconds() { return static_cast<double>(TRY(next().integer(0, kMostOnWire))) / kMicroseconds; }
  Result<std::optional<std::uint64_t>> optional() {
    if (all_[at_].json().is_null()) {
      ++at_;
      return std::optional<std::uint64_t>();
    }
    return std::optional(TRY(number()));
  }
  [[nodiscard]] bool at_end() const { return at_ == all_.size(); }
  const JsonAt& next() { return all_[at_++]; }

 private:
  explicit Elements(std::vector<JsonAt> all) : all_(std::move(all)) {}
  std::vector<JsonAt> all_;
  std::size_t at_ = 0;
};

constexpr std::size_t kElements = 22;     // of a task's row, without its command and its GPUs
constexpr std::size_t kNodeElements = 5;  // without its GPUs

Result<TaskGpu> gpu_of(const Json& wire) {
  constexpr std::size_t kGpuPair = 2;
  auto from = TRY(Elements::of(wire, kGpuPair));
  TaskGpu out;
  out.memory = TRY(from.optional());
  auto use = TRY(from.optional());
  if (use && static_cast<double>(*use) > kThousandths) return invalid("a share is above 1");
  if (use) out.device_use = static_cast<double>(*use) / kThousandths;
  return out;
}

}  // namespace

std::optional<TaskIo> TaskIo::parse(std::string_view text) {
  TaskIo out;
  struct Member {
    std::string_view name;
    std::uint64_t* value;
  };
  std::array members{Member{"rchar: ", &out.read_chars}, Member{"wchar: ", &out.written_chars},
                     Member{"read_bytes: ", &out.read_bytes}, Member{"write_bytes: ", &out.written_bytes}};
  std::size_t found = 0;
  for (std::string_view line : split(text, '\n')) {
    for (const Member& each : members) {
      if (!line.starts_with(each.name)) continue;
      auto value = parse_u64(line.substr(each.name.size()));
      if (!value) return std::nullopt;
      *each.value = *value;
      ++found;
    }
  }
  return found == members.size() ? std::optional(out) : std::nullopt;
}

void TaskRow::take(const rusage& usage, std::uint64_t shell_peak) {
  auto count = [](long value) { return value > 0 ? static_cast<std::uint64_t>(value) : 0; };
  user = seconds_of(usage.ru_utime);
  system = seconds_of(usage.ru_stime);
  max_rss = count(usage.ru_maxrss) << kKibibytes;
  is_bound = max_rss <= shell_peak;
  minor_faults = count(usage.ru_minflt);
  major_faults = count(usage.ru_majflt);
  blocks_in = count(usage.ru_inblock);
  blocks_out = count(usage.ru_oublock);
  voluntary = count(usage.ru_nvcsw);
  involuntary = count(usage.ru_nivcsw);
}

Json TaskRow::wire() const {
  Json row = Json::array({rank, started ? Json(microseconds(*started)) : Json(), microseconds(wall), status.raw(),
                          microseconds(user), microseconds(system), max_rss, is_bound ? 1 : 0, minor_faults,
                          major_faults, blocks_in, blocks_out, voluntary, involuntary, or_null(out), or_null(err)});
  for (auto member : {&TaskIo::read_chars, &TaskIo::written_chars, &TaskIo::read_bytes, &TaskIo::written_bytes})
    row.push_back(io ? Json((*io).*member) : Json());
  row.push_back(has_cgroup ? 1 : 0);
  row.push_back(or_null(oom_kills));
  if (!command.empty() || gpu) row.push_back(command);
  if (gpu) row.push_back(Json::array({or_null(gpu->memory), wire_of_share(gpu->device_use)}));
  return row;
}

Result<TaskRow> TaskRow::parse(const Json& wire) {
  auto from = TRY(Elements::of(wire, kElements));
  TaskRow out;
  out.rank = static_cast<std::uint32_t>(TRY(from.next().integer(0, UINT32_MAX - 1)));
  if (auto started = TRY(from.optional())) out.started = static_cast<double>(*started) / kMicroseconds;
  out.wall = TRY(from.seconds());
  out.status = value::WaitStatus::of_raw(static_cast<int>(TRY(from.next().integer(0, kMostStatus))));
  out.user = TRY(from.seconds());
  out.system = TRY(from.seconds());
  out.max_rss = TRY(from.number());
  out.is_bound = TRY(from.number()) != 0;
  for (auto member : {&TaskRow::minor_faults, &TaskRow::major_faults, &TaskRow::blocks_in, &TaskRow::blocks_out,
                      &TaskRow::voluntary, &TaskRow::involuntary})
    out.*member = TRY(from.number());
  out.out = TRY(from.optional());
  out.err = TRY(from.optional());
  TaskIo io;
  bool has_io = true;
  for (auto member : {&TaskIo::read_chars, &TaskIo::written_chars, &TaskIo::read_bytes, &TaskIo::written_bytes}) {
    auto value = TRY(from.optional());
    has_io = has_io && value;
    io.*member = value.value_or(0);
  }
  if (has_io) out.io = io;
  out.has_cgroup = TRY(from.number()) != 0;
  out.oom_kills = TRY(from.optional());
  if (!from.at_end()) out.command = TRY(from.next().string());
  if (!from.at_end()) out.gpu = TRY(gpu_of(from.next().json()));
  return out;
}

Json TaskRow::json(std::string_view host) const {
  Json row{{"rank", rank}, {"host", host}};
  if (status.is_signal())
    row["signal"] = status.signal();
  else
    row["code"] = status.exit_code();
  if (!started) {
    row["started"] = nullptr;
    return row;
  }
  row["started"] = *started;
  row["wall"] = wall;
  row["user"] = user;
  row["system"] = system;
  row["maxrss"] = max_rss;
  if (is_bound) row["maxrss_is_bound"] = true;
  if (has_cgroup) row["cgroup"] = true;
  if (oom_kills) row["oom_kills"] = *oom_kills;
  row["minor_faults"] = minor_faults;
  row["major_faults"] = major_faults;
  row["blocks_in"] = blocks_in;
  row["blocks_out"] = blocks_out;
  row["voluntary_switches"] = voluntary;
  row["involuntary_switches"] = involuntary;
  if (io) {
    row["read_chars"] = io->read_chars;
    row["written_chars"] = io->written_chars;
    row["read_bytes"] = io->read_bytes;
    row["written_bytes"] = io->written_bytes;
  }
  if (out) row["stdout"] = *out;
  if (err) row["stderr"] = *err;
  if (gpu && gpu->memory) row["gpu_memory"] = *gpu->memory;
  if (gpu && gpu->device_use) row["gpu_device_use"] = *gpu->device_use;
  return row;
}

Json NodeRow::wire() const {
  Json out = Json::array({shell, tasks, microseconds(cpu), or_null(memory_peak), or_null(oom_kills)});
  if (gpus.empty()) return out;
  Json all = Json::array();
  for (const NodeGpu& each : gpus) all.push_back(each.wire());
  out.push_back(std::move(all));
  return out;
}

Result<NodeRow> NodeRow::parse(const Json& wire) {
  auto from = TRY(Elements::of(wire, kNodeElements));
  NodeRow out;
  out.shell = static_cast<std::uint32_t>(TRY(from.next().integer(0, UINT32_MAX)));
  out.tasks = TRY(from.number());
  out.cpu = TRY(from.seconds());
  out.memory_peak = TRY(from.optional());
  out.oom_kills = TRY(from.optional());
  if (from.at_end()) return out;
  for (const JsonAt& each : TRY(from.next().elements())) {
    if (out.gpus.size() == NodeGpu::kMost) return each.error("is one device too many");
    out.gpus.push_back(TRY(NodeGpu::parse(each.json())));
  }
  return out;
}

Json NodeRow::json(std::string_view host) const {
  Json out{{"shell", shell}, {"host", host}, {"tasks", tasks}, {"cpu", cpu}};
  if (memory_peak) out["memory_peak"] = *memory_peak;
  if (oom_kills) out["oom_kills"] = *oom_kills;
  for (const NodeGpu& each : gpus) out["gpus"].push_back(each.json());
  return out;
}

// ---- joblog -----------------------------------------------------------------------------

std::string joblog_head() { return "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n"; }

// Nothing is sent before a job as GNU parallel does with --transferfile; what is received is the output.
std::string joblog_line(const TaskRow& row, std::string_view host, std::string_view command) {
  std::string shown(command);
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return c == '\n' || c == '\t' || c == '\r'; }, ' ');
  std::uint64_t received = row.out.value_or(0) + row.err.value_or(0);
  return fmt::format("{}\t{}\t{:.3f}\t{:10.3f}\t0\t{}\t{}\t{}\t{}\n", std::uint64_t{row.rank} + 1,
                     host.empty() ? ":" : host, row.started.value_or(0), row.wall, received, row.status.exit_code(),
                     row.status.signal(), shown);
}

}  // namespace nacre::usage
