// SPDX-License-Identifier: Apache-2.0
#include "exits/record.hpp"

#include <sys/wait.h>

#include "base/invariant.hpp"
#include "base/text.hpp"

namespace nacre::exits {
namespace {

constexpr int kMaxCode = 255;
constexpr int kMaxSignal = 127;  // the largest that waitpid(2) can report
constexpr int kOverTime = 124;   // as timeout(1)
constexpr int kLost = 1;

std::string text_of(const value::WaitStatus& status) {
  if (status.is_exit()) return fmt::format("x{}", status.exit_code());
  return fmt::format("s{}{}", status.signal(), status.dumped_core() ? "+" : "");
}

std::optional<int> number_in(std::string_view text, int least, int most) {
  auto number = parse_u64(text);
  if (!number || *number < static_cast<unsigned>(least) || *number > static_cast<unsigned>(most)) return {};
  return static_cast<int>(*number);
}

// "x3", "s11", "s6+".
std::optional<value::WaitStatus> status_in(std::string_view text) {
  if (text.empty()) return {};
  char kind = text[0];
  text.remove_prefix(1);
  if (kind == 'x') {
    auto code = number_in(text, 0, kMaxCode);
    return code ? std::optional(value::WaitStatus::exited(*code)) : std::nullopt;
  }
  if (kind != 's') return {};
  bool core = text.ends_with('+');
  if (core) text.remove_suffix(1);
  auto signum = number_in(text, 1, kMaxSignal);
  if (!signum) return {};
  return value::WaitStatus::of_raw(*signum | (core ? WCOREFLAG : 0));
}

// The kind in a text such as "c/s15".
std::optional<Record::Kind> kind_with_status(char letter) {
  switch (letter) {
    case 't': return Record::Kind::over_time;
    case 'c': return Record::Kind::victim;
    case 'g': return Record::Kind::gone;
    default: return {};
  }
}

}  // namespace

int failure_code(std::int64_t code) {
  if (code == 0) return 1;
  auto low = static_cast<int>(code & kMaxCode);
  return low == 0 ? kMaxCode : low;
}

Result<Record> Record::parse(std::string_view text) {
  Error wrong = invalid(
      fmt::format("expected how a task ended, as x0, s11+, f127, t, l, c/s15 or g, got {}", in_quotes(text)));
  if (text.empty()) return wrong;
  if (text == "l") return lost();
  if (text[0] == 'f') {
    auto code = number_in(text.substr(1), 1, kMaxCode);
    if (!code) return wrong;
    return not_started(*code);
  }
  auto kind = kind_with_status(text[0]);
  if (!kind) {
    auto status = status_in(text);
    if (!status) return wrong;
    return of(*status);
  }
  if (text.size() == 1) return Record{*kind, std::nullopt};
  auto status = text[1] == '/' ? status_in(text.substr(2)) : std::nullopt;
  if (!status) return wrong;
  return Record{*kind, status};
}

int Record::code() const {
  switch (kind_) {
    case Kind::over_time: return kOverTime;
    case Kind::lost: return kLost;
    case Kind::victim: return 0;
    case Kind::gone: return 0;
    case Kind::ended:
    case Kind::not_started: break;
  }
  return status_->job_code();
}

std::string Record::str() const {
  switch (kind_) {
    case Kind::ended: return text_of(*status_);
    case Kind::not_started: return fmt::format("f{}", status_->exit_code());
    case Kind::lost: return "l";
    case Kind::over_time:
    case Kind::victim:
    case Kind::gone: break;
  }
  std::string kind = kind_ == Kind::victim ? "c" : kind_ == Kind::gone ? "g" : "t";
  return status_ ? fmt::format("{}/{}", kind, text_of(*status_)) : kind;
}

value::Idset Outcomes::add(const value::Idset& ranks, const Record& record) {
  value::Idset fresh = ranks - ranks_;
  if (fresh.empty()) return fresh;
  ranks_.insert(fresh);
  auto [it, is_new] = classes_.try_emplace(record.str(), record, fresh);
  if (is_new)
    arrivals_.push_back(it->first);
  else
    it->second.second.insert(fresh);
  INVARIANT(arrivals_.size() == classes_.size());
  return fresh;
}

void Outcomes::forget(const value::Idset& ranks) {
  ranks_ = ranks_ - ranks;
  for (auto& [text, each] : classes_) each.second = each.second - ranks;
  std::erase_if(arrivals_, [this](const std::string& text) { return classes_.at(text).second.empty(); });
  std::erase_if(classes_, [](const auto& each) { return each.second.second.empty(); });
  INVARIANT(arrivals_.size() == classes_.size());
}

std::vector<Outcomes::Class> Outcomes::classes() const {
  std::vector<Class> out;
  out.reserve(classes_.size());
  for (const auto& [text, each] : classes_) out.push_back(each);
  return out;
}

std::vector<Outcomes::Class> Outcomes::in_order() const {
  std::vector<Class> out;
  out.reserve(arrivals_.size());
  for (const std::string& text : arrivals_) out.push_back(classes_.at(text));
  return out;
}

std::optional<Record> Outcomes::of(value::Idset::Id rank) const {
  for (const auto& [text, each] : classes_) {
    if (each.second.contains(rank)) return each.first;
  }
  return {};
}

}  // namespace nacre::exits
