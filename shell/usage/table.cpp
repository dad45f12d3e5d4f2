// SPDX-License-Identifier: Apache-2.0
#include "usage/table.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/json.hpp"

namespace nacre::usage {
namespace {

constexpr std::size_t kLeastForOutliers = 5;  // values
constexpr double kLeastShare = 0.1;           // of the median: a smaller distance makes no outlier
constexpr const char* kOutliersLeftOut = "outliers_left_out";

// `values` is put into another order. Of an even number the mean of both in the middle.
double median_of(std::vector<double>& values) {
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 != 0) return *middle;
  return std::midpoint(*std::max_element(values.begin(), middle), *middle);
}

struct Centre {
  double median = 0;
  double lower = 0;      // of an even number the lower one in the middle, else the median
  double deviation = 0;  // the median absolute deviation
};

Centre centre_of(std::vector<double> values) {
  Centre out;
  out.median = median_of(values);
  auto lower = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), lower, values.end());
  out.lower = *lower;
  for (double& each : values) each = std::abs(each - out.median);
  out.deviation = median_of(values);
  return out;
}

// Where most values are equal the deviation is 0, so a value has to be far off by itself, too.
bool is_outlier(double value, const Centre& centre, const Measure& measure) {
  double gap = std::abs(value - centre.median);
  return measure.least_gap > 0 && gap > kFarDeviations * centre.deviation && gap >= measure.least_gap &&
         gap > kLeastShare * centre.median;
}

Json json_of(const Spread::Extreme& extreme, const Hosts& hosts) {
  Json out{{"value", extreme.value}, {"rank", extreme.rank}, {"host", hosts.of_task(extreme.rank)}};
  if (extreme.is_bound) out["is_bound"] = true;
  return out;
}

Json histogram_of(const Spread& spread, const Measure& measure) {
  Json out = Json::array();
  for (std::size_t i = 0; i < Spread::kBuckets; ++i) {
    if (std::uint64_t count = spread.buckets().at(i); count > 0)
      out.push_back(Json::array({Spread::start_of(i, measure), count}));
  }
  return out;
}

// Of four digits, which is enough for a picture, and short.
Json short_number(double value) {
  constexpr double kDigits = 1000;
  if (value <= 0) return 0;
  double step = std::pow(10, std::floor(std::log10(value))) / kDigits;
  double rounded = std::round(value / step) * step;
  if (step >= 1) return static_cast<std::uint64_t>(rounded);
  return std::round(rounded / step) / std::round(1 / step);
}

// The farthest first.
void sort_outliers(Json& outliers) {
  auto distance = [](const Json& each) {
    double median = each.at("median").get<double>();
    return std::abs(each.at("value").get<double>() - median) / std::max(median, 1e-6);
  };
  std::stable_sort(outliers.begin(), outliers.end(),
                   [&](const Json& one, const Json& other) { return distance(one) > distance(other); });
}

}  // namespace

void UsageTable::add(const UsageBatch& batch) {
  for (const TaskRow& each : batch.rows) rows_.emplace(each.rank, each);
  if (batch.node && !nodes_.emplace(batch.node->shell, *batch.node).second) return;
  if (batch.totals) totals_.merge(*batch.totals);
}

Totals UsageTable::totals() const {
  Totals out = totals_;
  for (const auto& [rank, row] : rows_) out.add(row);
  return out;
}

value::Idset UsageTable::ranks() const {
  value::Idset out;
  for (const auto& [rank, row] : rows_) out.insert(rank);
  return out;
}

Json UsageTable::measure(std::size_t number, const Spread& spread, const Hosts& hosts, Json& outliers) const {
  const Measure& measure = measures()[number];
  Json out{{"n", spread.count()},
           {"min", json_of(spread.min(), hosts)},
           {"max", json_of(spread.max(), hosts)},
           {"histogram", histogram_of(spread, measure)}};
  if (measure.has_sum()) out["sum"] = spread.sum();
  std::vector<double> values;
  std::optional<double> bound;  // the largest value of which only a bound is known
  for (const auto& [rank, row] : rows_) {
    if (!row.started) continue;
    auto value = measure.of(row);
    if (!value) continue;
    values.push_back(*value);
    if (measure.is_bound(row)) bound = std::max(bound.value_or(0), *value);
  }
  if (values.size() != spread.count()) {
    out["median_at_most"] = spread.median_at_most(measure);
    return out;
  }
  Centre centre = centre_of(std::move(values));
  out["median"] = centre.median;
  out["mad"] = centre.deviation;
  if (bound && *bound >= centre.lower) out["median_is_bound"] = true;
  if (spread.count() < kLeastForOutliers) return out;
  for (const auto& [rank, row] : rows_) {
    auto value = row.started ? measure.of(row) : std::nullopt;
    if (!value || !is_outlier(*value, centre, measure)) continue;
    outliers.push_back({{"measure", measure.name},
                        {"rank", rank},
                        {"host", hosts.of_task(rank)},
                        {"value", *value},
                        {"median", centre.median}});
  }
  return out;
}

// {"ranks": N, "max": [...]}: the most of N ranks each, null where none is known; with "min" if N is above 1.
Json UsageTable::by_rank(const Measure& measure, std::uint64_t tasks, std::size_t cells) const {
  std::uint64_t width = std::max<std::uint64_t>(1, (tasks + cells - 1) / cells);
  std::vector<std::optional<std::pair<double, double>>> found((tasks + width - 1) / width);
  for (const auto& [rank, row] : rows_) {
    auto value = row.started ? measure.of(row) : std::nullopt;
    std::uint64_t cell = rank / width;
    if (!value || cell >= found.size()) continue;
    auto& of = found[cell];
    of = of ? std::pair(std::min(of->first, *value), std::max(of->second, *value)) : std::pair(*value, *value);
  }
  Json out{{"ranks", width}, {"max", Json::array()}};
  for (const auto& each : found) {
    out["max"].push_back(each ? short_number(each->second) : Json());
    if (width > 1) out["min"].push_back(each ? short_number(each->first) : Json());
  }
  return out;
}

Json UsageTable::summary(std::uint64_t tasks, const value::Idset& missing, const Hosts& hosts,
                         std::size_t cells) const {
  Totals all = totals();
  Json out{{"tasks", tasks}, {"ended", all.ended}, {"unstarted", all.unstarted}};
  if (!missing.empty()) out["missing"] = missing.str();
  Json outliers = Json::array();
  Json by_name = Json::object();
  for (std::size_t i = 0; i < kMeasures; ++i) {
    const Spread& spread = all.spreads.at(i);
    if (spread.count() == 0) continue;
    const Measure& of = measures()[i];
    Json& json = by_name[std::string(of.name)] = measure(i, spread, hosts, outliers);
    bool has_rows = json.contains("median");
    if (has_rows && of.least_gap > 0 && spread.max().value > 0) json["by_rank"] = by_rank(of, tasks, cells);
  }
  sort_outliers(outliers);
  if (outliers.size() > kMostOutliers) {
    out[kOutliersLeftOut] = outliers.size() - kMostOutliers;
    outliers.erase(outliers.begin() + kMostOutliers, outliers.end());
  }
  out["measures"] = std::move(by_name);
  out["outliers"] = std::move(outliers);
  out["nodes"] = Json::array();
  for (const auto& [shell, node] : nodes_) out["nodes"].push_back(node.json(hosts.of_shell(shell)));
  return out;
}

Json fitting_summary(Json summary, std::size_t most) {
  auto fits = [&] { return dump_json(summary).size() <= most; };
  if (fits()) return summary;
  for (Json& each : summary["measures"]) each.erase("by_rank");
  if (fits()) return summary;
  summary["shortened"] = true;
  for (Json& each : summary["measures"]) each.erase("histogram");
  for (Json& each : summary["nodes"]) each.erase("gpus");
  for (const char* part : {"nodes", "outliers", "missing", "measures"}) {
    if (fits()) break;
    summary.erase(part);
  }
  return summary;
}

}  // namespace nacre::usage
