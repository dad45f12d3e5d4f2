// SPDX-License-Identifier: Apache-2.0
//
// Notices as text. A large notice is cut into parts by rank, so that each part has few classes and short bitmaps.
#include "exits/notice.hpp"

#include <bit>

#include "base/bytes.hpp"
#include "base/invariant.hpp"
#include "base/text.hpp"

namespace nacre::exits {
namespace {

using value::Idset;
using Id = Idset::Id;

// Up to this length the ranks of a class, and x, are written as idsets, which people can read.
constexpr std::size_t kReadableRanks = 64;
constexpr std::size_t kReadableX = 256;
constexpr std::size_t kHead = 512;  // the most bytes of all members other than x, open and cut

// Neighbouring ranks of one class, by its number; the two numbers after the last class stand for open and cut.
struct Run {
  Id first;
  Id last;
  std::size_t of;
};

std::size_t digits(Id number) {
  std::size_t out = 1;
  for (; number > 9; number /= 10) ++out;
  return out;
}

std::size_t bytes_of_bits(std::uint64_t bits) { return static_cast<std::size_t>((bits + 7) / 8); }

// The length of the text of ranks, which are added in ascending order.
struct RanksSize {
  std::size_t idset = 0;
  Id first = 0, last = 0;

  void add(const Run& run) {
    if (idset == 0) first = run.first;
    if (idset > 0) ++idset;
    last = run.last;
    idset += digits(run.first) + (run.last > run.first ? 1 + digits(run.last) : 0);
  }
  [[nodiscard]] std::size_t bitmap() const {
    return 2 + digits(first) + base64_size(bytes_of_bits(std::uint64_t{last} - first + 1));
  }
  [[nodiscard]] bool is_bitmap() const { return idset > kReadableRanks && bitmap() < idset; }
  [[nodiscard]] std::size_t best() const { return is_bitmap() ? bitmap() : idset; }
};

// The lengths of x, open and cut of a part, while ranks are added to it.
class PartSize {
 public:
  explicit PartSize(const std::vector<std::string_view>& names) : names_(names), ranks_(names.size() + 2) {}

  // Returns false, and changes nothing, if the part would be longer than `most` with this run.
  bool add(const Run& run, std::size_t most) {
    Sums before = sums_;
    RanksSize& ranks = ranks_[run.of];
    RanksSize old = ranks;
    ranks.add(run);
    bool is_class = run.of < names_.size();
    std::size_t& sum = is_class ? sums_.each : sums_.marks;
    sum += ranks.best() - old.best();
    if (old.idset == 0 && is_class) {
      sum += names_[run.of].size() + 6;  // "x0":"",
      sums_.names += names_[run.of].size() + 3;
      if (sums_.classes++ == 0) sums_.first = run.first;
    }
    if (is_class) sums_.last = std::max(sums_.last, run.last);
    if (size() <= most) return true;
    ranks = old;
    sums_ = before;
    return false;
  }

  [[nodiscard]] bool is_dense() const { return sums_.each > kReadableX && dense() < sums_.each; }

 private:
  struct Sums {
    std::size_t each = 0;   // the length of x, if each class has a text of its own
    std::size_t names = 0;  // the length of the classes in the array
    std::size_t classes = 0;
    std::size_t marks = 0;  // the length of open and cut
    Id first = 0, last = 0;
  };

  [[nodiscard]] std::size_t dense() const {
    std::uint64_t bits = (std::uint64_t{sums_.last} - sums_.first + 1) * std::bit_width(sums_.classes);
    return sums_.names + digits(sums_.first) + 6 + base64_size(bytes_of_bits(bits));
  }
  [[nodiscard]] std::size_t size() const { return (is_dense() ? dense() : sums_.each) + sums_.marks; }

  const std::vector<std::string_view>& names_;
  std::vector<RanksSize> ranks_;
  Sums sums_;
};

void set_bits(std::string& bytes, std::uint64_t at, std::uint64_t value) {
  for (; value != 0; value >>= 1, ++at) {
    if ((value & 1) != 0)
      bytes[at / 8] = static_cast<char>(static_cast<unsigned char>(bytes[at / 8]) | 1U << at % 8);
  }
}

std::string text_of(const std::vector<Run>& runs) {
  RanksSize size;
  for (const Run& each : runs) size.add(each);
  std::string out;
  if (!size.is_bitmap()) {
    for (const Run& each : runs) {
      if (!out.empty()) out += ',';
      fmt::format_to(std::back_inserter(out), "{}", each.first);
      if (each.last > each.first) fmt::format_to(std::back_inserter(out), "-{}", each.last);
    }
    return out;
  }
  std::string bits(bytes_of_bits(std::uint64_t{size.last} - size.first + 1), '\0');
  for (const Run& each : runs) {
    for (std::uint64_t id = each.first; id <= each.last; ++id) set_bits(bits, id - size.first, 1);
  }
  out = fmt::format("@{}:", size.first);
  append_base64(out, bits);
  return out;
}

std::vector<Run> runs_of(const Notice& notice) {
  std::vector<Run> out;
  std::size_t of = 0;
  auto add = [&](const Idset& ranks) {
    for (const Idset::Range& each : ranks.ranges()) out.push_back({each.first, each.last, of});
    ++of;
  };
  for (const auto& [name, ranks] : notice.classes) add(ranks);
  add(notice.open);
  add(notice.cut);
  std::sort(out.begin(), out.end(), [](const Run& a, const Run& b) { return a.first < b.first; });
  return out;
}

// Makes a part of some of the runs.
class Part {
 public:
  Part(const std::vector<std::string_view>& names, std::span<const Run> runs)
      : names_(names), runs_(runs), of_(names.size() + 2) {
    for (const Run& each : runs) of_[each.of].push_back(each);
  }

  [[nodiscard]] std::string x(bool is_dense) const { return is_dense ? dense() : each(); }
  [[nodiscard]] std::string open() const { return text_of(of_[names_.size()]); }
  [[nodiscard]] std::string cut() const { return text_of(of_[names_.size() + 1]); }

 private:
  [[nodiscard]] std::string each() const {
    std::string out = "{";
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (of_[i].empty()) continue;
      fmt::format_to(std::back_inserter(out), "{}\"{}\":\"{}\"", out.size() > 1 ? "," : "", names_[i],
                     text_of(of_[i]));
    }
    return out + "}";
  }

  [[nodiscard]] std::string dense() const {
    std::vector<std::size_t> numbers(names_.size());
    std::size_t count = 0;
    std::string names;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (of_[i].empty()) continue;
      numbers[i] = ++count;
      fmt::format_to(std::back_inserter(names), "{}\"{}\"", count > 1 ? "," : "", names_[i]);
    }
    auto is_class = [this](const Run& run) { return run.of < names_.size(); };
    Id first = std::find_if(runs_.begin(), runs_.end(), is_class)->first;
    Id last = first;
    for (const Run& run : runs_) last = is_class(run) ? std::max(last, run.last) : last;
    auto width = static_cast<unsigned>(std::bit_width(count));
    std::string bits(bytes_of_bits((std::uint64_t{last} - first + 1) * width), '\0');
    for (const Run& run : runs_) {
      if (!is_class(run)) continue;
      for (std::uint64_t id = run.first; id <= run.last; ++id)
        set_bits(bits, (id - first) * width, numbers[run.of]);
    }
    std::string out = fmt::format("[{},[{}],\"", first, names);
    append_base64(out, bits);
    return out + "\"]";
  }

  const std::vector<std::string_view>& names_;
  std::span<const Run> runs_;
  std::vector<std::vector<Run>> of_;
};

std::string line_of(const Notice& notice, const Part& part, bool is_dense, bool more) {
  std::string out = fmt::format(R"({{"seq":{},"n":{})", notice.seq, notice.tasks);
  auto to = std::back_inserter(out);
  if (!notice.end || notice.done != notice.tasks) fmt::format_to(to, R"(,"done":{})", notice.done);
  fmt::format_to(to, R"(,"d":"{}","x":{},"end":{:d})", notice.rest, part.x(is_dense), notice.end);
  if (more) out += R"(,"more":1)";
  if (notice.base) out += R"(,"base":1)";
  if (std::string ranks = part.open(); !ranks.empty()) fmt::format_to(to, R"(,"open":"{}")", ranks);
  if (std::string ranks = part.cut(); !ranks.empty()) fmt::format_to(to, R"(,"cut":"{}")", ranks);
  if (notice.first && !more) fmt::format_to(to, R"(,"first":{})", *notice.first);
  if (notice.attempt > 0) fmt::format_to(to, R"(,"try":{})", notice.attempt);
  if (notice.summary && !more) {
    const NoticeSummary& sum = *notice.summary;
    if (sum.main) fmt::format_to(to, R"(,"main":{})", *sum.main);
    fmt::format_to(to, R"(,"code":{})", sum.code);
    if (!sum.policy.empty()) fmt::format_to(to, R"(,"policy":"{}")", sum.policy);
    if (const auto& codes = sum.codes)
      fmt::format_to(to, R"(,"failed":{},"min":{},"max":{},"mean":{:.6g})", codes->failed, codes->min, codes->max,
                     codes->mean);
  }
  return out + "}\n";
}

}  // namespace

void Notice::leave_out_largest() {
  auto largest = std::max_element(classes.begin(), classes.end(),
                                  [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  rest = std::string(kNoRecord);
  if (largest == classes.end() || largest->second.empty()) return;
  rest = largest->first;
  classes.erase(largest);
}

std::vector<std::string> Notice::encode(std::size_t most) const {
  std::vector<std::string_view> names;
  names.reserve(classes.size());
  for (const auto& [name, ranks] : classes) names.push_back(name);
  std::vector<Run> runs = runs_of(*this);
  std::vector<std::string> out;
  std::size_t from = 0;
  do {
    PartSize size(names);
    std::size_t to = from;
    while (to < runs.size() && size.add(runs[to], most - kHead)) ++to;
    Part part(names, std::span(runs).subspan(from, to - from));
    out.push_back(line_of(*this, part, size.is_dense(), more || to < runs.size()));
    from = to;
  } while (from < runs.size());
  return out;
}

namespace {

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

// Puts these records into the next message.
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
  bool is_late = ended_ && after + 1 < seq_;  // one snapshot has all messages
  if (!is_kept || is_late) return snapshot();
  return kept_[static_cast<std::size_t>(after + 1 - kept_.front().seq)];
}

// All that the messages up to seq_ contained.
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
