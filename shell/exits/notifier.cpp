// SPDX-License-Identifier: Apache-2.0
#include "exits/notifier.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/invariant.hpp"
#include "base/text.hpp"

namespace nacre::exits {
namespace {

using value::Idset;

constexpr std::uint64_t kPercent = 100;

// Whether output of the task may not have come out yet: the task ran, and failed by itself.
bool waits_for_output(const Record& record) {
  bool ran = record.kind() == Record::Kind::ended || record.kind() == Record::Kind::over_time;
  return ran && record.status() && record.status()->job_code() != 0;
}

void unite(Idset& into, const Idset& more) { into.insert(more); }

}  // namespace

NoticeCodes codes_of(const Notice::Classes& records, const Policy& policy) {
  NoticeCodes out;
  std::uint64_t sum = 0;
  std::uint64_t tasks = 0;
  for (const auto& [name, ranks] : records) {
    int each = policy.code_of(*Record::parse(name));
    out.min = tasks == 0 ? each : std::min(out.min, each);
    out.max = std::max(out.max, each);
    sum += static_cast<std::uint64_t>(each) * ranks.size();
    tasks += ranks.size();
    if (each != 0) out.failed += ranks.size();
  }
  if (tasks > 0) out.mean = static_cast<double>(sum) / static_cast<double>(tasks);
  return out;
}

std::size_t Notifier::Message::bytes() const {
  std::size_t out = 0;
  for (const std::string& each : lines) out += each.size();
  return out;
}

Result<std::uint64_t> Notifier::threshold_of(std::string_view text, std::uint64_t tasks) {
  bool is_share = text.ends_with('%');
  auto number = parse_u64(is_share ? text.substr(0, text.size() - 1) : text);
  if (!number || (is_share && *number > kPercent))
    return invalid(fmt::format("expected a number of tasks, or 0% to 100%, got {}", in_quotes(text)));
  std::uint64_t count = is_share ? (tasks * *number + kPercent - 1) / kPercent : *number;
  return std::max<std::uint64_t>(count, 1);
}

// ---- what happens ----------------------------------------------------------------------------

void Notifier::record(double now, const Idset& ranks, const Record& record) {
  Idset fresh = (ranks & all()) - recorded_;
  if (ended_ || fresh.empty()) return;
  unite(recorded_, fresh);
  bool is_failure = options_.policy.is_failure(record);
  if (is_failure && !first_) first_ = fresh.first();
  if (is_failure && waits_for_output(record))
    add_waiting(now, fresh, record);
  else
    release(now, fresh, record);
}

void Notifier::add_waiting(double now, const Idset& ranks, const Record& record) {
  for (Waiting& each : waiting_) {
    if (now - each.since > kTogether || each.record != record) continue;
    unite(each.ranks, ranks);
    each.until = now + kDrainLimit;
    return;
  }
  waiting_.push_back({now, now + kDrainLimit, ranks, record});
}

// Releases those of `ranks` that wait; returns them.
Idset Notifier::take_waiting(double now, const Idset& ranks) {
  Idset taken;
  for (Waiting& each : waiting_) {
    Idset some = each.ranks & ranks;
    if (some.empty()) continue;
    each.ranks = each.ranks - some;
    unite(taken, some);
    release(now, some, each.record);
  }
  std::erase_if(waiting_, [](const Waiting& each) { return each.ranks.empty(); });
  return taken;
}

void Notifier::drained(double now, const Idset& ranks) { take_waiting(now, ranks); }

void Notifier::lost(double now, const Idset& ranks) { unite(fresh_cut_, take_waiting(now, ranks)); }

// Has these records sent with the next message.
void Notifier::release(double now, const Idset& ranks, const Record& record) {
  unite(fresh_[record.str()], ranks);
  if (options_.policy.is_failure(record)) failed_ += ranks.size();
  if (due_ || failed_ < options_.threshold) return;
  due_ = std::max(now + kGather, last_ ? *last_ + kInterval : now);
}

void Notifier::end(double now, int code) {
  if (ended_) return;
  unite(fresh_open_, take_waiting(now, waiting()));
  if (Idset rest = all() - recorded_; !rest.empty()) record(now, rest, Record::victim({}));
  make_message(now, code);
  due_.reset();
}

// ---- messages --------------------------------------------------------------------------------

Idset Notifier::all() const {
  return options_.tasks == 0 ? Idset() : Idset::range(0, static_cast<Idset::Id>(options_.tasks - 1));
}

Idset Notifier::waiting() const {
  Idset out;
  for (const Waiting& each : waiting_) unite(out, each.ranks);
  return out;
}

std::optional<double> Notifier::due() const {
  std::optional<double> out = due_;
  for (const Waiting& each : waiting_) out = std::min(out.value_or(each.until), each.until);
  return out;
}

void Notifier::tick(double now) {
  Idset overdue;
  for (const Waiting& each : waiting_) {
    if (each.until <= now) unite(overdue, each.ranks);
  }
  unite(fresh_open_, take_waiting(now, overdue));
  if (due_ && *due_ <= now) make_message(now, std::nullopt);
}

void Notifier::make_message(double now, std::optional<int> code) {
  Notice notice;
  notice.seq = ++seq_;
  notice.tasks = options_.tasks;
  notice.classes = std::exchange(fresh_, {});
  notice.open = std::exchange(fresh_open_, {});
  notice.cut = std::exchange(fresh_cut_, {});
  bool has_first = false;
  for (const auto& [name, ranks] : notice.classes) {
    unite(sent_ranks_, ranks);
    unite(sent_[name], ranks);
    has_first = has_first || (first_ && ranks.contains(*first_));
  }
  unite(open_, notice.open);
  unite(cut_, notice.cut);
  notice.done = sent_ranks_.size();
  if (Idset rest = all() - sent_ranks_; !rest.empty()) notice.classes.emplace(kNoRecord, std::move(rest));
  if (code) {
    ended_ = notice.end = true;
    summary_ = notice.summary = summary(*code);
  }
  if (code ? summary_->codes.has_value() : has_first) notice.first = first_;
  notice.leave_out_largest();
  last_ = now;
  due_.reset();
  keep({notice.seq, notice.encode()});
}

void Notifier::keep(Message message) {
  kept_bytes_ += message.bytes();
  kept_.push_back(std::move(message));
  while (kept_.size() > 1 && (kept_.size() > kKept || kept_bytes_ > kKeptBytes)) {
    INVARIANT(kept_bytes_ >= kept_.front().bytes());
    kept_bytes_ -= kept_.front().bytes();
    kept_.pop_front();
  }
}

NoticeSummary Notifier::summary(int code) const {
  NoticeSummary out;
  out.code = code;
  Policy::Kind kind = options_.policy.kind();
  if (kind != Policy::Kind::max) out.policy = Policy::name_of(kind);
  if (kind == Policy::Kind::main || kind == Policy::Kind::main_and_all) out.main = options_.policy.main();
  // The codes are left out only if they follow from the records alone: a client does not know which codes count as
  // success.
  NoticeCodes codes = codes_of(sent_, options_.policy);
  if (codes.failed > 1 || codes != codes_of(sent_, Policy())) out.codes = codes;
  return out;
}

// ---- clients ---------------------------------------------------------------------------------

std::optional<Notifier::Message> Notifier::next(std::uint64_t after) const {
  if (seq_ == 0 || after == seq_) return {};
  bool is_kept = after < seq_ && after + 1 >= kept_.front().seq;
  bool is_late = ended_ && after + 1 < seq_;  // one snapshot has it all
  if (!is_kept || is_late) return snapshot();
  return kept_[static_cast<std::size_t>(after + 1 - kept_.front().seq)];
}

// All that the messages up to seq_ have had.
Notifier::Message Notifier::snapshot() const {
  Notice notice;
  notice.seq = seq_;
  notice.tasks = options_.tasks;
  notice.done = sent_ranks_.size();
  notice.classes = sent_;
  notice.open = open_;
  notice.cut = cut_;
  notice.base = true;
  notice.end = ended_;
  if (first_ && (ended_ ? summary_->codes.has_value() : sent_ranks_.contains(*first_))) notice.first = first_;
  notice.summary = summary_;
  if (Idset rest = all() - sent_ranks_; !rest.empty()) notice.classes.emplace(kNoRecord, std::move(rest));
  notice.leave_out_largest();
  return {seq_, notice.encode()};
}

}  // namespace nacre::exits
