// SPDX-License-Identifier: Apache-2.0
//
// The other end of exits::Notice: a client that reads notices, strictly, and keeps what they say.
#pragma once

#include <bit>

#include "base/bytes.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "exits/notice.hpp"

namespace nacre::kit {
namespace notice_reader {

using exits::kNoRecord;
using exits::Notice;
using exits::NoticeCodes;
using exits::NoticeSummary;
using exits::Policy;
using exits::Record;
using value::Idset;

inline constexpr const char* kWhere = "notice";
inline constexpr std::size_t kMaxText = std::size_t{16} << 20;  // bytes of a line
inline constexpr std::int64_t kMaxNumber = INT64_MAX;
inline constexpr int kLargestCode = 255;

inline Result<std::string> class_at(const JsonAt& at) {
  std::string text = TRY(at.string());
  if (text == kNoRecord) return text;
  auto record = Record::parse(text);
  if (record && record->str() == text) return text;
  return at.expected("a record, as x0, s11+ or c/s15, or r");
}

// Reads the bits of one rank after the other.
class Bits {
 public:
  Bits(std::string_view bytes, unsigned width) : bytes_(bytes), width_(width) {}
  [[nodiscard]] std::uint64_t size() const { return bytes_.size() * 8 / width_; }
  [[nodiscard]] std::uint64_t operator[](std::uint64_t index) const {
    std::uint64_t out = 0;
    for (unsigned i = 0; i < width_; ++i) {
      std::uint64_t at = index * width_ + i;
      out |= std::uint64_t{static_cast<unsigned char>(bytes_[at / 8]) >> at % 8 & 1U} << i;
    }
    return out;
  }

 private:
  std::string_view bytes_;
  unsigned width_;
};

inline Error outside(const JsonAt& at, std::uint64_t tasks) {
  return at.error(fmt::format("expected ranks below {}", tasks));
}

inline Result<Idset> bitmap_at(const JsonAt& at, std::string_view text, std::uint64_t tasks) {
  std::size_t colon = text.find(':');
  auto first = colon == text.npos ? std::nullopt : parse_u64(text.substr(1, colon - 1));
  auto bytes = first ? from_base64(text.substr(colon + 1)) : std::nullopt;
  if (!bytes) return at.error("expected an idset, or @FIRST:BASE64");
  Bits bits(*bytes, 1);
  Idset out;
  for (std::uint64_t i = 0; i < bits.size(); ++i) {
    if (bits[i] == 0) continue;
    if (*first >= tasks || i >= tasks - *first) return outside(at, tasks);
    out.insert(static_cast<Idset::Id>(*first + i));
  }
  return out;
}

inline Result<Idset> ranks_at(const JsonAt& at, std::uint64_t tasks) {
  std::string text = TRY(at.string());
  if (text.starts_with('@')) return bitmap_at(at, text, tasks);
  Idset out = TRY(in(at.path(), Idset::parse(text)));
  if (!out.empty() && *out.last() >= tasks) return outside(at, tasks);
  return out;
}

inline Result<void> read_array(const JsonAt& at, std::uint64_t tasks, Notice::Classes& into) {
  auto elements = TRY(at.elements());
  if (elements.size() != 3) return at.expected("[FIRST, [CLASS, ...], BASE64]");
  auto first = static_cast<std::uint64_t>(TRY(elements[0].integer(0, kMaxNumber)));
  auto names = TRY(elements[1].elements());
  auto bytes = from_base64(TRY(elements[2].string()));
  if (!bytes) return elements[2].error("expected base64");
  if (names.empty()) return elements[1].error("expected a class");
  std::vector<Idset*> classes;
  for (const JsonAt& each : names) {
    auto [place, is_new] = into.try_emplace(TRY(class_at(each)));
    if (!is_new) return each.error("is there twice");
    classes.push_back(&place->second);
  }
  Bits numbers(*bytes, static_cast<unsigned>(std::bit_width(names.size())));
  for (std::uint64_t i = 0; i < numbers.size(); ++i) {
    std::uint64_t number = numbers[i];
    if (number == 0) continue;
    if (number > classes.size())
      return elements[2].error(fmt::format("has a class {} of {}", number, classes.size()));
    if (first >= tasks || i >= tasks - first) return outside(elements[2], tasks);
    classes[number - 1]->insert(static_cast<Idset::Id>(first + i));
  }
  return {};
}

inline Result<void> read_members(const JsonAt& at, std::uint64_t tasks, Notice::Classes& into) {
  Idset seen;
  for (const auto& [name, each] : TRY(at.members())) {
    Json key = name;
    std::string text = TRY(class_at(JsonAt::root(key, at.path())));
    Idset ranks = TRY(ranks_at(each, tasks));
    if (!(seen & ranks).empty()) return each.error("has ranks that another class has");
    seen = seen | ranks;
    into.emplace(std::move(text), std::move(ranks));
  }
  return {};
}

inline Result<bool> flag_at(const JsonAt& root, std::string_view key) {
  auto found = TRY(root.find(key));
  return found && TRY(found->integer(0, 1)) == 1;
}

inline Result<std::optional<Idset::Id>> rank_at(const JsonAt& root, std::string_view key, std::uint64_t tasks) {
  auto found = TRY(root.find(key));
  if (!found) return std::optional<Idset::Id>();
  auto rank = TRY(found->integer(0, Idset::kMaxId));
  if (static_cast<std::uint64_t>(rank) >= tasks) return outside(*found, tasks);
  return std::optional(static_cast<Idset::Id>(rank));
}

inline Result<int> code_at(const JsonAt& root, std::string_view key) {
  return static_cast<int>(TRY(TRY(root.at(key)).integer(0, kLargestCode)));
}

inline Result<std::optional<NoticeSummary>> summary_at(const JsonAt& root, std::uint64_t tasks) {
  if (!TRY(root.find("code"))) return std::optional<NoticeSummary>();
  NoticeSummary out;
  out.code = TRY(code_at(root, "code"));
  if (auto policy = TRY(root.find("policy"))) {
    out.policy = TRY(policy->string());
    CHECK_OK(in(policy->path(), Policy::kind_of(out.policy)));
  }
  out.main = TRY(rank_at(root, "main", UINT64_MAX));
  auto failed = TRY(root.find("failed"));
  if (!failed) return std::optional(out);
  NoticeCodes codes;
  codes.failed = static_cast<std::uint64_t>(TRY(failed->integer(0, static_cast<std::int64_t>(tasks))));
  codes.min = TRY(code_at(root, "min"));
  codes.max = TRY(code_at(root, "max"));
  codes.mean = TRY(TRY(root.at("mean")).number());
  out.codes = codes;
  return std::optional(out);
}

inline Result<Notice> read(const JsonAt& root) {
  Notice out;
  out.seq = static_cast<std::uint64_t>(TRY(TRY(root.at("seq")).integer(1, kMaxNumber)));
  std::int64_t tasks = TRY(TRY(root.at("n")).integer(0, std::int64_t{Idset::kMaxId} + 1));
  out.tasks = static_cast<std::uint64_t>(tasks);
  out.end = TRY(TRY(root.at("end")).integer(0, 1)) == 1;
  auto done = out.end ? TRY(root.find("done")) : std::optional(TRY(root.at("done")));
  out.done = done ? static_cast<std::uint64_t>(TRY(done->integer(0, tasks))) : out.tasks;
  out.rest = TRY(class_at(TRY(root.at("d"))));
  JsonAt x = TRY(root.at("x"));
  CHECK_OK(x.json().is_array() ? read_array(x, out.tasks, out.classes) : read_members(x, out.tasks, out.classes));
  if (out.classes.contains(out.rest)) return x.error(fmt::format("has {} too, which d names", out.rest));
  std::erase_if(out.classes, [](const auto& each) { return each.second.empty(); });
  out.more = TRY(flag_at(root, "more"));
  out.base = TRY(flag_at(root, "base"));
  if (auto open = TRY(root.find("open"))) out.open = TRY(ranks_at(*open, out.tasks));
  if (auto cut = TRY(root.find("cut"))) out.cut = TRY(ranks_at(*cut, out.tasks));
  out.first = TRY(rank_at(root, "first", out.tasks));
  if (auto attempt = TRY(root.find("try")))
    out.attempt = static_cast<std::uint32_t>(TRY(attempt->integer(0, UINT32_MAX)));
  out.summary = TRY(summary_at(root, out.tasks));
  return out;
}

// Unites all sets at once: the cost of each union is the size of both sets.
inline Idset ranks_of(const Notice& notice) {
  std::vector<Idset::Range> all;
  for (const auto& [name, ranks] : notice.classes)
    all.insert(all.end(), ranks.ranges().begin(), ranks.ranges().end());
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Idset out;
  for (const Idset::Range& each : all) out.insert(each.first, each.last);
  return out;
}

}  // namespace notice_reader

// Reads one line, with or without its newline. EINVAL: the message is `notice: ` and what is wrong.
inline Result<exits::Notice> decode_notice(std::string_view line) {
  if (line.size() > notice_reader::kMaxText)
    return in(notice_reader::kWhere, invalid(fmt::format("more than {} bytes", notice_reader::kMaxText)));
  Json json = TRY(in(notice_reader::kWhere, parse_json(line)));
  return in(notice_reader::kWhere, notice_reader::read(JsonAt::root(json)));
}

// What a client has learned from notices: the records of all tasks, once the last message has come.
class NoticeMap {
 public:
  // Takes the next line. EINVAL: it does not follow the lines before; nothing of it is taken.
  Result<void> take(const exits::Notice& part);
  // To be called when the link has broken: drops the parts of a message that is not complete.
  void drop_parts() { parts_.reset(); }

  [[nodiscard]] std::uint64_t seq() const {
    return seq_;
  }  // the number of the last complete message: a client asks for those after it
  [[nodiscard]] const exits::Notice::Classes& records() const { return records_; }  // disjoint
  [[nodiscard]] const value::Idset& ranks() const { return ranks_; }                // that have a record
  [[nodiscard]] bool ended() const { return ended_; }

 private:
  Result<void> check(const exits::Notice& part, const value::Idset& named) const;
  Result<void> complete();

  std::uint64_t seq_ = 0;
  exits::Notice::Classes records_;
  value::Idset ranks_;
  bool ended_ = false;
  std::optional<exits::Notice> parts_;  // the message that is not complete, as far as it has come
  value::Idset named_;                  // the ranks in its classes
};

inline Result<void> NoticeMap::take(const exits::Notice& part) {
  value::Idset named = notice_reader::ranks_of(part);
  CHECK_OK(in(notice_reader::kWhere, check(part, named)));
  if (!parts_) {
    parts_ = part;
    named_ = std::move(named);
  } else {
    named_ = named_ | named;
    for (const auto& [name, ranks] : part.classes) {
      value::Idset& all = parts_->classes[name];
      all = all | ranks;
    }
  }
  if (part.more) return {};
  Result<void> whole = in(notice_reader::kWhere, complete());
  parts_.reset();
  return whole;
}

inline Result<void> NoticeMap::check(const exits::Notice& part, const value::Idset& named) const {
  if (ended_ && !part.base) return invalid("it comes after the last one");
  if (!parts_) {
    if (part.base || part.seq == seq_ + 1) return {};
    return invalid(fmt::format("seq: expected {}, got {}", seq_ + 1, part.seq));
  }
  const exits::Notice& before = *parts_;
  bool follows = part.seq == before.seq && part.base == before.base && part.rest == before.rest &&
                 part.done == before.done && part.tasks == before.tasks;
  if (!follows) return invalid(fmt::format("expected another part of message {}", before.seq));
  if (!(named & named_).empty()) return invalid("x: has ranks of another part");
  return {};
}

inline Result<void> NoticeMap::complete() {
  const exits::Notice& whole = *parts_;
  value::Idset known = whole.base ? value::Idset() : ranks_;
  if (!(named_ & known).empty()) return invalid("x: has ranks whose record has come before");
  exits::Notice::Classes records = whole.base ? exits::Notice::Classes() : records_;
  exits::Notice::Classes fresh = whole.classes;
  if (whole.tasks > 0)
    fresh[whole.rest] = value::Idset::range(0, static_cast<value::Idset::Id>(whole.tasks - 1)) - known - named_;
  known = known | named_ | fresh[whole.rest];
  if (auto none = fresh.extract(std::string(exits::kNoRecord))) known = known - none.mapped();
  for (const auto& [name, ranks] : fresh) {
    if (!ranks.empty()) records[name] = records[name] | ranks;
  }
  if (known.size() != whole.done)
    return invalid(fmt::format("done: expected {}, got {}", known.size(), whole.done));
  records_ = std::move(records);
  ranks_ = std::move(known);
  seq_ = whole.seq;
  ended_ = whole.end;
  return {};
}

}  // namespace nacre::kit
