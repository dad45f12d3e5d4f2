// SPDX-License-Identifier: Apache-2.0
#include "usage/measure.hpp"

#include <bit>

#include "base/text.hpp"
#include "wire/json.hpp"

namespace nacre::usage {
namespace {

constexpr double kLeastTime = 0.05;         // seconds: below, tasks differ by what else a node does
constexpr double kLeastSize = 1024 * 1024;  // bytes
constexpr double kLeastShareOfUse = 0.1;
constexpr double kLargest = 1e18;  // well within 64 bits
constexpr wire::Between kCount{0, kMostOnWire};
constexpr auto kOthers = wire::ArrayWriter::Others::ignore;  // elements that a later version adds

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

// If the values are equal the lower rank comes first.
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

void elements(auto& io, wire::Of<Spread::Extreme> auto& m) {
  io.are("[VALUE, RANK, IS_BOUND]", kOthers);
  io.has(m.value);
  io.has(m.rank);
  io.has(m.is_bound, wire::Bit());
}

void elements(auto& io, wire::Of<Spread> auto& m) { Spread::describe(io, m); }

void Spread::describe(auto& io, auto& m) {
  std::map<std::uint32_t, std::uint64_t> filled;
  for (std::uint32_t i = 0; i < kBuckets; ++i) {
    if (m.buckets_.at(i) > 0) filled.emplace(i, m.buckets_.at(i));
  }
  io.are("a spread", kOthers);
  io.has(m.count_, kCount);
  io.has(m.sum_);
  io.has(m.min_);
  io.has(m.max_);
  io.has(filled, wire::Each{wire::Array{[](auto& bucket, auto& of) {
           bucket.are("a bucket and its count");
           bucket.has(of.first, wire::Between{0, kBuckets - 1});
           bucket.has(of.second, kCount);
         }}});
  if constexpr (wire::kReads<decltype(io)>) {
    for (const auto& [bucket, count] : filled) m.buckets_.at(bucket) = count;
  }
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

void fields(auto& io, wire::Of<Totals> auto& m) {
  const auto& known = m.spreads;
  std::vector<Spread> spreads(known.begin(), m.has_gpus() ? known.end() : known.begin() + kMeasuresWithoutGpus);
  io.has("ended", m.ended, kCount);
  io.has("unstarted", m.unstarted, kCount);
  io.has("spreads", spreads, [](const JsonAt& at, const auto& all) -> Result<void> {
    if (all.size() == kMeasures || all.size() == kMeasuresWithoutGpus) return {};
    return at.expected("an element for each measure");
  });
  if constexpr (wire::kReads<decltype(io)>)
    std::copy_n(spreads.begin(), std::min(spreads.size(), kMeasures), m.spreads.begin());
}

Json Totals::wire() const { return wire::to_json(*this); }

Result<Totals> Totals::parse(const Json& wire) { return wire::from_json<Totals>(wire); }

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

constexpr wire::Scaled kTime{kMicroseconds, kMostOnWire};
constexpr wire::Scaled kShare{kThousandths, static_cast<std::int64_t>(kThousandths)};

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

void elements(auto& io, wire::Of<TaskGpu> auto& m) {
  io.are("[MEMORY, USE]", kOthers);
  io.has(m.memory, kCount);
  io.has(m.device_use, kShare);
}

void elements(auto& io, wire::Of<TaskRow> auto& m) {
  constexpr bool kReads = wire::kReads<decltype(io)>;
  io.are("a task's row", kOthers);
  io.has(m.rank, wire::Between{0, UINT32_MAX - 1});
  io.has(m.started, kTime);
  io.has(m.wall, kTime);
  int status = m.status.raw();
  io.has(status, wire::Between{0, kMostStatus});
  if constexpr (kReads) m.status = value::WaitStatus::of_raw(status);
  io.has(m.user, kTime);
  io.has(m.system, kTime);
  io.has(m.max_rss, kCount);
  io.has(m.is_bound, wire::Bit());
  for (auto member : {&TaskRow::minor_faults, &TaskRow::major_faults, &TaskRow::blocks_in, &TaskRow::blocks_out,
                      &TaskRow::voluntary, &TaskRow::involuntary})
    io.has(m.*member, kCount);
  io.has(m.out, kCount);
  io.has(m.err, kCount);
  TaskIo sums = m.io.value_or(TaskIo());
  bool has_io = kReads || m.io.has_value();
  for (auto member : {&TaskIo::read_chars, &TaskIo::written_chars, &TaskIo::read_bytes, &TaskIo::written_bytes}) {
    std::optional<std::uint64_t> count;
    if (has_io) count = sums.*member;
    io.has(count, kCount);
    has_io = has_io && count.has_value();
    sums.*member = count.value_or(0);
  }
  if constexpr (kReads) {
    if (has_io) m.io = sums;
  }
  io.has(m.has_cgroup, wire::Bit());
  io.has(m.oom_kills, kCount);
  if (io.has_more(!m.command.empty() || m.gpu)) io.has(m.command);
  if (io.has_more(m.gpu.has_value())) io.has(m.gpu);
}

Json TaskRow::wire() const { return wire::to_json(*this); }

Result<TaskRow> TaskRow::parse(const Json& wire) { return wire::from_json<TaskRow>(wire); }

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

void elements(auto& io, wire::Of<NodeGpu> auto& m) {
  io.are("a device", kOthers);
  io.has(m.vendor);
  io.has(m.index);
  io.has(m.id);
  io.has(m.memory_peak, kCount);
  io.has(m.memory, kCount);
  io.has(m.use, kShare);
}

void elements(auto& io, wire::Of<NodeRow> auto& m) {
  io.are("a node's row", kOthers);
  io.has(m.shell);
  io.has(m.tasks, kCount);
  io.has(m.cpu, kTime);
  io.has(m.memory_peak, kCount);
  io.has(m.oom_kills, kCount);
  if (io.has_more(!m.gpus.empty()))
    io.has(m.gpus, [](const JsonAt& at, const auto& gpus) -> Result<void> {
      return gpus.size() > NodeGpu::kMost ? at.error("has too many devices") : Result<void>();
    });
}

Json NodeRow::wire() const { return wire::to_json(*this); }

Result<NodeRow> NodeRow::parse(const Json& wire) { return wire::from_json<NodeRow>(wire); }

void fields(auto& io, wire::Of<UsageBatch> auto& m) {
  io.has("rows", m.rows);
  io.may_have("node", m.node);
  io.may_have("totals", m.totals);
  io.may_have("again", m.is_again);
}

std::string UsageBatch::text() const { return wire::to_text(*this); }

Result<UsageBatch> UsageBatch::parse(std::string_view text) { return wire::from_text<UsageBatch>(text); }

Json NodeRow::json(std::string_view host) const {
  Json out{{"shell", shell}, {"host", host}, {"tasks", tasks}, {"cpu", cpu}};
  if (memory_peak) out["memory_peak"] = *memory_peak;
  if (oom_kills) out["oom_kills"] = *oom_kills;
  for (const NodeGpu& each : gpus) out["gpus"].push_back(each.json());
  return out;
}

// ---- command line -----------------------------------------------------------------------

std::string command_line(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + quoted_for_shell(word);
  return out;
}

// ---- joblog -----------------------------------------------------------------------------

std::string joblog_head() { return "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n"; }

namespace {

constexpr std::size_t kColumns = 9;
constexpr std::uint64_t kMaxSignal = 64;

// A joblog has a line for each task: its writer keeps newlines and tabs out of the commands.
std::string on_one_line(std::string_view text) {
  std::string out(text);
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c == '\n' || c == '\t' || c == '\r'; }, ' ');
  return out;
}

std::optional<JoblogEntry> entry_of(std::string_view line) {
  std::vector<std::string_view> columns;
  for (; columns.size() + 1 < kColumns; line.remove_prefix(std::min(line.find('\t') + 1, line.size()))) {
    if (line.find('\t') == std::string_view::npos) return std::nullopt;
    columns.push_back(line.substr(0, line.find('\t')));
  }
  auto seq = parse_u64(columns[0]);
  auto code = parse_u64(columns[6]);
  auto signum = parse_u64(columns[7]);
  if (!seq || *seq < 1 || *seq > UINT32_MAX || !code || *code > UINT8_MAX || !signum || *signum > kMaxSignal)
    return std::nullopt;
  JoblogEntry out;
  out.rank = static_cast<std::uint32_t>(*seq - 1);
  out.status = *signum > 0 ? value::WaitStatus::killed(static_cast<int>(*signum))
                           : value::WaitStatus::exited(static_cast<int>(*code));
  out.command = line;
  return out;
}

}  // namespace

Result<std::vector<JoblogEntry>> parse_joblog(std::string_view text) {
  std::vector<JoblogEntry> out;
  if (text.empty()) return out;
  std::size_t number = 0;
  for (; !text.empty(); text.remove_prefix(text.find('\n') + 1)) {
    ++number;
    if (text.find('\n') == std::string_view::npos)
      return invalid(fmt::format("line {} is cut off: remove it, and its task runs again", number));
    std::string_view line = text.substr(0, text.find('\n'));
    if (number == 1) {
      if (std::string(line) + '\n' == joblog_head()) continue;
      return invalid("line 1: expected the names of a joblog's columns: Seq, Host, Starttime ...");
    }
    auto entry = entry_of(line);
    if (!entry)
      return invalid(
          fmt::format("line {}: expected the nine columns of a joblog, got {}", number, in_quotes(line)));
    out.push_back(*std::move(entry));
  }
  return out;
}

bool JoblogEntry::is_of(std::string_view line) const {
  return command == on_one_line(line.substr(0, TaskRow::kMaxCommand));
}

// Nothing is sent before a job, as GNU parallel does with --transferfile; the output counts as received.
std::string joblog_line(const TaskRow& row, std::string_view host, std::string_view command) {
  std::uint64_t received = row.out.value_or(0) + row.err.value_or(0);
  return fmt::format("{}\t{}\t{:.3f}\t{:10.3f}\t0\t{}\t{}\t{}\t{}\n", std::uint64_t{row.rank} + 1,
                     host.empty() ? ":" : host, row.started.value_or(0), row.wall, received, row.status.exit_code(),
                     row.status.signal(), on_one_line(command.substr(0, TaskRow::kMaxCommand)));
}

}  // namespace nacre::usage
