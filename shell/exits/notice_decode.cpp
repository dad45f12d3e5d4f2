// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include <fmt/format.h>

#include "base/base64.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "exits/notice.hpp"
#include "exits/policy.hpp"
#include "exits/record.hpp"

namespace nacre::exits {
namespace {

using value::Idset;

constexpr std::int64_t kMaxNumber = INT64_MAX;
constexpr int kLargestCode = 255;

Result<std::string> class_at(const JsonAt& at) {
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

Error outside(const JsonAt& at, std::uint64_t tasks) {
  return at.error(fmt::format("expected ranks below {}", tasks));
}

Result<Idset> bitmap_at(const JsonAt& at, std::string_view text, std::uint64_t tasks) {
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

Result<Idset> ranks_at(const JsonAt& at, std::uint64_t tasks) {
  std::string text = TRY(at.string());
  if (text.starts_with('@')) return bitmap_at(at, text, tasks);
  Idset out = TRY(in(at.path(), Idset::parse(text)));
  if (!out.empty() && *out.last() >= tasks) return outside(at, tasks);
  return out;
}

Result<void> read_array(const JsonAt& at, std::uint64_t tasks, Notice::Classes& into) {
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

Result<void> read_members(const JsonAt& at, std::uint64_t tasks, Notice::Classes& into) {
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

Result<bool> flag_at(const JsonAt& root, std::string_view key) {
  auto found = TRY(root.find(key));
  return found && TRY(found->integer(0, 1)) == 1;
}

Result<std::optional<Idset::Id>> rank_at(const JsonAt& root, std::string_view key, std::uint64_t tasks) {
  auto found = TRY(root.find(key));
  if (!found) return std::optional<Idset::Id>();
  auto rank = TRY(found->integer(0, Idset::kMaxId));
  if (static_cast<std::uint64_t>(rank) >= tasks) return outside(*found, tasks);
  return std::optional(static_cast<Idset::Id>(rank));
}

Result<int> code_at(const JsonAt& root, std::string_view key) {
  return static_cast<int>(TRY(TRY(root.at(key)).integer(0, kLargestCode)));
}

Result<std::optional<NoticeSummary>> summary_at(const JsonAt& root, std::uint64_t tasks) {
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

Result<Notice> read(const JsonAt& root) {
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

}  // namespace

Result<Notice> Notice::decode(std::string_view line) {
  constexpr const char* kWhere = "notice";
  if (line.size() > kMaxText) return in(kWhere, invalid(fmt::format("more than {} bytes", kMaxText)));
  Json json = TRY(in(kWhere, parse_json(line)));
  return in(kWhere, read(JsonAt::root(json)));
}

}  // namespace nacre::exits
