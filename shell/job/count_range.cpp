// SPDX-License-Identifier: Apache-2.0
#include "job/count_range.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "job/jobspec.hpp"

namespace nacre::job {
namespace {

constexpr const char* kACount = "a positive integer, or a range as 2-8, 4+, 2-8:2 or 2-16:2:*";

Result<std::uint32_t> positive_number(const JsonAt& at) {
  const Json& json = at.json();
  std::uint64_t value = json.is_number_unsigned() ? json.get<std::uint64_t>() : 0;
  if (value == 0) value = static_cast<std::uint64_t>(TRY(at.integer(1)));
  if (value > Jobspec::kMaxCount) return at.error(fmt::format("at most {}, got {}", Jobspec::kMaxCount, value));
  return static_cast<std::uint32_t>(value);
}

std::optional<std::uint32_t> number_of(std::string_view text) {
  auto number = parse_u64(text);
  if (!number || *number == 0 || *number > Jobspec::kMaxCount) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

bool is_operator(std::string_view text) { return text == "+" || text == "*" || text == "^"; }

// The one after `count`, or more than all.
std::uint64_t next_count(std::uint64_t count, char how, std::uint32_t operand) {
  if (how == '+') return count + operand;
  if (how == '*') return count * operand;
  std::uint64_t power = 1;
  for (std::uint32_t i = 0; i < operand && power <= Jobspec::kMaxCount; ++i) power *= count;
  return power;
}

}  // namespace

bool CountRange::contains(std::uint32_t count) const {
  if (ids_) return ids_->contains(count);
  if (count < min_ || (max_ && count > *max_)) return false;
  if (operator_ == '+') return (count - min_) % operand_ == 0;
  std::uint64_t each = min_;
  while (each < count) each = next_count(each, operator_, operand_);
  return each == count;
}

Result<void> CountRange::check(const JsonAt& count, const CountRange& range) {
  if (range.max_ && *range.max_ < range.min_)
    return count.error(fmt::format("max {} is below min {}", *range.max_, range.min_));
  if (range.operator_ == '+') return {};
  if (range.operand_ < 2)
    return count.error(fmt::format("the operator {} needs an operand of at least 2", range.operator_));
  if (range.operator_ == '^' && range.min_ < 2) return count.error("the operator ^ needs a min of at least 2");
  return {};
}

Result<CountRange> CountRange::of_object(const JsonAt& count) {
  CHECK_OK(count.only_keys({"min", "max", "operator", "operand"}));
  CountRange range(TRY(positive_number(TRY(count.at("min")))), std::nullopt);
  if (auto max = TRY(count.find("max"))) range.max_ = TRY(positive_number(*max));
  auto how = TRY(count.find("operator"));
  auto operand = TRY(count.find("operand"));
  if (how.has_value() != operand.has_value()) return count.error("`operator` and `operand` go together");
  if (how) {
    std::string text = TRY(how->string());
    if (!is_operator(text)) return how->expected("one of +, *, ^");
    range.operator_ = text[0];
    range.operand_ = TRY(positive_number(*operand));
  }
  CHECK_OK(check(count, range));
  return range;
}

Result<CountRange> CountRange::of_text(const JsonAt& count) {
  std::string text = TRY(count.string());
  if (auto ids = value::Idset::parse(text)) {
    if (ids->empty() || ids->contains(0) || *ids->last() > Jobspec::kMaxCount) return count.expected(kACount);
    CountRange range(*ids->first(), *ids->last());
    if (ids->ranges().size() > 1) range.ids_ = *std::move(ids);
    return range;
  }
  std::vector<std::string_view> parts = split(text, ':');
  std::string_view span = parts[0];
  bool is_open = span.ends_with('+');
  std::size_t dash = is_open ? span.size() - 1 : span.find('-');
  auto min = number_of(span.substr(0, dash));
  auto max = is_open || dash == std::string_view::npos ? std::nullopt : number_of(span.substr(dash + 1));
  auto operand = parts.size() > 1 ? number_of(parts[1]) : std::optional<std::uint32_t>(1);
  bool is_good =
      min && (is_open || max) && operand && parts.size() <= 3 && (parts.size() < 3 || is_operator(parts[2]));
  if (!is_good) return count.expected(kACount);
  CountRange range(*min, max);
  range.operand_ = *operand;
  if (parts.size() == 3) range.operator_ = parts[2][0];
  CHECK_OK(check(count, range));
  return range;
}

Result<CountRange> CountRange::read(const JsonAt& count) {
  if (count.json().is_object()) return of_object(count);
  if (count.json().is_string()) return of_text(count);
  return CountRange(TRY(positive_number(count)));
}

}  // namespace nacre::job
