// SPDX-License-Identifier: Apache-2.0
//
// What is measured of each task, as a table; and over many tasks, the spread of one such measure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/json_fwd.hpp"
#include "base/result.hpp"
#include "usage/row.hpp"

namespace nacre::usage {

enum class Unit : std::uint8_t { seconds, bytes, count, share };  // share: from 0 to 1

struct Measure {
  std::string_view name;   // in JSON
  std::string_view title;  // in a table for people; "": it is not shown there
  Unit unit;
  bool is_peak;      // of memory: the sum of peaks is not the peak of the sum, so none is made
  double least_gap;  // a smaller distance from the median makes no outlier; 0: nothing does
  std::optional<double> (*of)(const TaskRow& row);  // none: not known of this task

  // Whether its value in `row` is one that the exact one is at most.
  [[nodiscard]] bool is_bound(const TaskRow& row) const { return name == "maxrss" && row.is_bound; }
  [[nodiscard]] bool has_sum() const { return !is_peak && unit != Unit::share; }
};

inline constexpr std::size_t kMeasures = 18;
inline constexpr std::size_t kMeasuresWithoutGpus = 16;  // the first ones
[[nodiscard]] std::span<const Measure, kMeasures> measures();

// The values of one measure, without the values: any two can be merged, in any order.
class Spread {
 public:
  struct Extreme {
    double value = 0;
    std::uint32_t rank = 0;  // the lowest that has it
    bool is_bound = false;   // the exact value is at most this one: TaskRow::is_bound; of a minimum, of any row
    bool operator==(const Extreme&) const = default;
  };
  // Bucket 0 has zeros, bucket k values from 2^(k-1) to 2^k of the unit: microseconds, bytes, 1, thousandths.
  static constexpr std::size_t kBuckets = 62;

  void add(double value, const TaskRow& row, const Measure& measure);
  void merge(const Spread& other);

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] double sum() const { return sum_; }
  [[nodiscard]] const Extreme& min() const { return min_; }  // if count() is not 0; likewise max()
  [[nodiscard]] const Extreme& max() const { return max_; }
  [[nodiscard]] const std::array<std::uint64_t, kBuckets>& buckets() const { return buckets_; }
  // What at least half of the values do not exceed: the end of the bucket that has the median.
  [[nodiscard]] double median_at_most(const Measure& measure) const;
  // The least value of a bucket.
  [[nodiscard]] static double start_of(std::size_t bucket, const Measure& measure);

  [[nodiscard]] Json wire() const;
  static Result<Spread> parse(const Json& wire);

  bool operator==(const Spread&) const = default;

 private:
  std::uint64_t count_ = 0;
  double sum_ = 0;
  Extreme min_, max_;
  std::array<std::uint64_t, kBuckets> buckets_{};
};

// Of all measures, in the order of measures().
struct Totals {
  std::array<Spread, kMeasures> spreads;
  std::uint64_t ended = 0;      // tasks that ran
  std::uint64_t unstarted = 0;  // tasks that could not be started

  void add(const TaskRow& row);
  void merge(const Totals& other);
  [[nodiscard]] bool has_gpus() const;  // something of them is known

  [[nodiscard]] Json wire() const;
  static Result<Totals> parse(const Json& wire);

  bool operator==(const Totals&) const = default;
};

// What is read of a summary, which may be another version's: members that are missing, or of another type, are as
// none. And numbers for people.

inline constexpr std::size_t kMostText = 200;  // bytes of a host's name, and of a set of ranks

[[nodiscard]] std::optional<double> number_in(const Json& object, std::string_view name);
// "" for none; at most kMostText bytes, without those that a terminal would take for commands.
[[nodiscard]] std::string text_in(const Json& object, std::string_view name);
// null for none
[[nodiscard]] const Json& member_in(const Json& object, std::string_view name);

// "1.234s", "12.3s", "4.5m", "1.2h"; "512", "12.3K"; "9999", "12.3k"; "12.3%".
[[nodiscard]] std::string value_text(double value, Unit unit);
// "3 on n1"; "3" without a host, "" without a rank.
[[nodiscard]] std::string who_in(const Json& extreme);

}  // namespace nacre::usage
