// SPDX-License-Identifier: Apache-2.0
#include "usage/measure.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "base/json.hpp"

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

}  // namespace nacre::usage
