// SPDX-License-Identifier: Apache-2.0
#include "usage/measure.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "base/json.hpp"
#include "base/text.hpp"

namespace nacre::usage {
namespace {

constexpr double kLeastTime = 0.05;         // seconds: below, tasks differ by what else a node does
constexpr double kLeastSize = 1024 * 1024;  // bytes
constexpr double kLeastShareOfUse = 0.1;
constexpr double kLargest = 1e18;  // well within 64 bits
constexpr std::size_t kExtremeElements = 3;
constexpr std::size_t kSpreadElements = 5;

double scale(const Measure& measure) {
  if (measure.unit == Unit::seconds) return kMicroseconds;
  return measure.unit == Unit::share ? kThousandths : 1;
}

template <std::uint64_t TaskRow::*member>
std::optional<double> number(const TaskRow& row) {
  return static_cast<double>(row.*member);
}
template <std::uint64_t TaskIo::*member>
std::optional<double> io(const TaskRow& row) {
  return row.io ? std::optional(static_cast<double>((*row.io).*member)) : std::nullopt;
}
template <std::optional<std::uint64_t> TaskRow::*member>
std::optional<double> written(const TaskRow& row) {
  return row.*member ? std::optional(static_cast<double>(*(row.*member))) : std::nullopt;
}
std::optional<double> wall(const TaskRow& row) { return row.wall; }
std::optional<double> cpu(const TaskRow& row) { return row.cpu(); }
std::optional<double> user(const TaskRow& row) { return row.user; }
std::optional<double> system_time(const TaskRow& row) { return row.system; }
std::optional<double> gpu_memory(const TaskRow& row) {
  return row.gpu && row.gpu->memory ? std::optional(static_cast<double>(*row.gpu->memory)) : std::nullopt;
}
std::optional<double> gpu_device_use(const TaskRow& row) { return row.gpu ? row.gpu->device_use : std::nullopt; }

constexpr std::array<Measure, kMeasures> kTable{{
    {"wall", "time", Unit::seconds, false, kLeastTime, wall},
    {"cpu", "cpu", Unit::seconds, false, kLeastTime, cpu},
    {"user", "  user", Unit::seconds, false, 0, user},
    {"system", "  system", Unit::seconds, false, 0, system_time},
    {"maxrss", "max RSS", Unit::bytes, true, kLeastSize, number<&TaskRow::max_rss>},
    {"minor_faults", "minor faults", Unit::count, false, 0, number<&TaskRow::minor_faults>},
    {"major_faults", "major faults", Unit::count, false, 0, number<&TaskRow::major_faults>},
    {"blocks_in", "", Unit::count, false, 0, number<&TaskRow::blocks_in>},
    {"blocks_out", "", Unit::count, false, 0, number<&TaskRow::blocks_out>},
    {"voluntary_switches", "waits", Unit::count, false, 0, number<&TaskRow::voluntary>},
    {"involuntary_switches", "preemptions", Unit::count, false, 0, number<&TaskRow::involuntary>},
    {"read_bytes", "disk read", Unit::bytes, false, kLeastSize, io<&TaskIo::read_bytes>},
    {"written_bytes", "disk written", Unit::bytes, false, kLeastSize, io<&TaskIo::written_bytes>},
    {"read_chars", "read", Unit::bytes, false, kLeastSize, io<&TaskIo::read_chars>},
    {"written_chars", "written", Unit::bytes, false, kLeastSize, io<&TaskIo::written_chars>},
    {"output", "output", Unit::bytes, false, kLeastSize,
     [](const TaskRow& row) -> std::optional<double> {
       auto out = written<&TaskRow::out>(row);
       auto err = written<&TaskRow::err>(row);
       return out && err ? std::optional(*out + *err) : std::nullopt;
     }},
    {"gpu_memory", "GPU memory", Unit::bytes, true, kLeastSize, gpu_memory},
    {"gpu_device_use", "GPU device use", Unit::share, false, kLeastShareOfUse, gpu_device_use},
}};

Json wire_of(const Spread::Extreme& extreme) {
  return Json::array({extreme.value, extreme.rank, extreme.is_bound ? 1 : 0});
}

Result<Spread::Extreme> extreme_at(const JsonAt& at) {
  auto all = TRY(at.elements());
  if (all.size() < kExtremeElements) return at.error("has too few elements");
  Spread::Extreme out;
  out.value = TRY(all[0].number());
  out.rank = static_cast<std::uint32_t>(TRY(all[1].integer(0, UINT32_MAX)));
  out.is_bound = TRY(all[2].integer(0, 1)) != 0;
  return out;
}

// The lower rank, of equal values.
bool is_before(const Spread::Extreme& one, const Spread::Extreme& other) {
  return one.value == other.value && one.rank < other.rank;
}

}  // namespace

std::span<const Measure, kMeasures> measures() { return kTable; }

void Spread::add(double value, const TaskRow& row, const Measure& measure) {
  Spread one;
  one.count_ = 1;
  one.sum_ = measure.has_sum() ? value : 0;
  one.min_ = one.max_ = {value, row.rank, measure.is_bound(row)};
  auto units = static_cast<std::uint64_t>(std::clamp(value * scale(measure), 0.0, kLargest));
  one.buckets_.at(std::min<std::size_t>(std::bit_width(units), kBuckets - 1)) = 1;
  merge(one);
}

void Spread::merge(const Spread& other) {
  if (other.count_ == 0) return;
  bool has_bound = min_.is_bound || other.min_.is_bound;
  if (count_ == 0 || other.min_.value < min_.value || is_before(other.min_, min_)) min_ = other.min_;
  if (count_ == 0 || other.max_.value > max_.value || is_before(other.max_, max_)) max_ = other.max_;
  min_.is_bound = has_bound;
  count_ += other.count_;
  sum_ += other.sum_;
  for (std::size_t i = 0; i < kBuckets; ++i) buckets_.at(i) += other.buckets_.at(i);
}

double Spread::start_of(std::size_t bucket, const Measure& measure) {
  return bucket == 0 ? 0 : std::ldexp(1.0, static_cast<int>(bucket) - 1) / scale(measure);
}

double Spread::median_at_most(const Measure& measure) const {
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += buckets_.at(i);
    if (2 * seen >= count_) return i == 0 ? 0 : std::min(max_.value, start_of(i + 1, measure));
  }
  return max_.value;
}

Json Spread::wire() const {
  Json filled = Json::array();
  for (std::size_t i = 0; i < kBuckets; ++i) {
    if (buckets_.at(i) > 0) filled.push_back(Json::array({i, buckets_.at(i)}));
  }
  return Json::array({count_, sum_, wire_of(min_), wire_of(max_), std::move(filled)});
}

Result<Spread> Spread::parse(const Json& wire) {
  auto all = TRY(JsonAt::root(wire).elements());
  if (all.size() < kSpreadElements) return invalid("a spread has too few elements");
  Spread out;
  out.count_ = static_cast<std::uint64_t>(TRY(all[0].integer(0, kMostOnWire)));
  out.sum_ = TRY(all[1].number());
  out.min_ = TRY(extreme_at(all[2]));
  out.max_ = TRY(extreme_at(all[3]));
  for (const JsonAt& each : TRY(all[4].elements())) {
    auto bucket = TRY(each.elements());
    if (bucket.size() != 2) return each.expected("a bucket and its count");
    auto number = TRY(bucket[0].integer(0, kBuckets - 1));
    out.buckets_.at(static_cast<std::size_t>(number)) =
        static_cast<std::uint64_t>(TRY(bucket[1].integer(0, kMostOnWire)));
  }
  return out;
}

void Totals::add(const TaskRow& row) {
  if (!row.started) return void(++unstarted);
  ++ended;
  for (std::size_t i = 0; i < kMeasures; ++i) {
    const Measure& measure = kTable.at(i);
    if (auto value = measure.of(row)) spreads.at(i).add(*value, row, measure);
  }
}

void Totals::merge(const Totals& other) {
  ended += other.ended;
  unstarted += other.unstarted;
  for (std::size_t i = 0; i < kMeasures; ++i) spreads.at(i).merge(other.spreads.at(i));
}

bool Totals::has_gpus() const {
  return std::any_of(spreads.begin() + kMeasuresWithoutGpus, spreads.end(),
                     [](const Spread& each) { return each.count() > 0; });
}

Json Totals::wire() const {
  Json all = Json::array();
  for (std::size_t i = 0; i < kMeasures; ++i) {
    if (i < kMeasuresWithoutGpus || has_gpus()) all.push_back(spreads.at(i).wire());
  }
  return {{"ended", ended}, {"unstarted", unstarted}, {"spreads", std::move(all)}};
}

Result<Totals> Totals::parse(const Json& wire) {
  JsonAt at = JsonAt::root(wire);
  Totals out;
  out.ended = static_cast<std::uint64_t>(TRY(TRY(at.at("ended")).integer(0, kMostOnWire)));
  out.unstarted = static_cast<std::uint64_t>(TRY(TRY(at.at("unstarted")).integer(0, kMostOnWire)));
  JsonAt spreads = TRY(at.at("spreads"));
  auto all = TRY(spreads.elements());
  if (all.size() != kMeasures && all.size() != kMeasuresWithoutGpus)
    return spreads.expected("an element for each measure");
  for (std::size_t i = 0; i < all.size(); ++i) out.spreads.at(i) = TRY(Spread::parse(all[i].json()));
  return out;
}

// ---- members ----------------------------------------------------------------------------

namespace {

std::string with_units(double value, double step, std::string_view units) {
  if (value < step) return fmt::format("{:.0f}", value);
  std::size_t unit = 0;
  for (value /= step; value >= step && unit + 1 < units.size(); ++unit) value /= step;
  return fmt::format("{:.1f}{}", value, units[unit]);
}

}  // namespace

std::optional<double> number_in(const Json& object, std::string_view name) {
  if (!object.is_object()) return std::nullopt;
  auto found = object.find(name);
  return found != object.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

// Without bytes that a terminal would take for commands.
std::string text_in(const Json& object, std::string_view name) {
  if (!object.is_object()) return "";
  auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return "";
  std::string out = found->get<std::string>().substr(0, kMostText);
  std::replace_if(
      out.begin(), out.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, '?');
  return out;
}

const Json& member_in(const Json& object, std::string_view name) {
  static const Json kNone;
  if (!object.is_object()) return kNone;
  auto found = object.find(name);
  return found == object.end() ? kNone : *found;
}

std::string value_text(double value, Unit unit) {
  constexpr double kBinary = 1024;
  constexpr double kDecimal = 1000;
  constexpr double kMinute = 60;
  constexpr double kHour = 3600;
  constexpr double kPercent = 100;
  if (unit == Unit::share) return fmt::format("{:.1f}%", value * kPercent);
  if (unit == Unit::bytes) return with_units(value, kBinary, "KMGTPE");
  if (unit == Unit::count)
    return value < 10 * kDecimal ? fmt::format("{:.0f}", value) : with_units(value, kDecimal, "kMGTPE");
  if (value < kMinute) return fmt::format("{:.{}f}s", value, value < 10 ? 3 : 1);
  if (value < 10 * kMinute) return fmt::format("{:.1f}m", value / kMinute);
  return fmt::format("{:.1f}h", value / kHour);
}

std::string who_in(const Json& extreme) {
  auto rank = number_in(extreme, "rank");
  std::string host = text_in(extreme, "host");
  if (!rank) return "";
  return fmt::format("{:.0f}{}", *rank, host.empty() ? "" : " on " + host);
}

// ---- row --------------------------------------------------------------------------------

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
