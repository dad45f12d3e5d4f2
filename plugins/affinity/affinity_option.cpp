// SPDX-License-Identifier: Apache-2.0
#include "plugins/affinity/affinity_option.hpp"

#include "base/text.hpp"
#include "plugins/builtins.hpp"

namespace nacre::plugins {
namespace {

using value::Idset;

using Mode = AffinityOption::Mode;
using Resource = AffinityOption::Resource;

// What the option may be.
std::string modes(Resource of) {
  return fmt::format("on, off, {} or map:LIST, after 'verbose,' or 'dry-run,'",
                     of == Resource::cpus
                         ? fmt::format("per-task, per-task:LEVEL ({})", fmt::join(kCpuLevels, ", "))
                         : "per-task, closest, prefer-closest");
}

constexpr Idset::Id kMaskWordBits = 32;  // in a mask with commas

Error above_limit() { return Error{ERANGE, fmt::format("an id is above the limit of {}", kMaxAffinityId)}; }

// Inserts the ids of one word of a mask; its lowest bit stands for `base`.
Result<void> add_word(std::string_view digits, Idset::Id base, Idset& set) {
  for (std::size_t i = 0; i < digits.size(); ++i) {
    char digit = digits[digits.size() - 1 - i];
    std::size_t bits = std::string_view("0123456789abcdef").find(static_cast<char>(digit | 0x20));
    if (bits == std::string_view::npos) return invalid("expected hexadecimal digits");
    for (std::size_t k = 0; k < 4; ++k) {
      if ((bits >> k & 1U) == 0) continue;
      std::size_t id = base + 4 * i + k;
      if (id > kMaxAffinityId) return above_limit();
      set.insert(static_cast<Idset::Id>(id));
    }
  }
  return {};
}

Result<Idset> parse_mask(std::string_view text) {
  std::vector<std::string_view> words = split(text, ',');
  if (words.size() > kMaxAffinityId / kMaskWordBits + 1) return above_limit();
  Idset set;
  Idset::Id base = 0;
  for (auto word = words.rbegin(); word != words.rend(); ++word, base += kMaskWordBits) {
    std::string_view digits = *word;
    if (digits.empty() && words.size() > 1) continue;
    if (digits.starts_with("0x")) digits.remove_prefix(2);
    if (digits.empty()) return invalid("expected hexadecimal digits");
    if (words.size() > 1 && digits.size() > kMaskWordBits / 4) return invalid("expected words of at most 8 digits");
    CHECK_OK(add_word(digits, base, set));
  }
  return set;
}

Result<Idset> parse_list(std::string_view text) {
  Idset set;
  for (std::string_view item : split(text, ',')) {
    bool open = item.ends_with('-');
    if (open) item.remove_suffix(1);
    Idset range = TRY(Idset::parse(item));
    if (range.empty()) return invalid("a part of the list is empty");
    if (*range.last() > kMaxAffinityId) return above_limit();
    if (open) range.insert(*range.last(), kMaxAffinityId);
    // Unlike in an idset, the items of a list may have any order.
    set = set | range;
  }
  return set;
}

// "per-task:l3"
bool read_level(std::string_view mode, AffinityOption& out) {
  constexpr std::string_view kPrefix = "per-task:";
  if (!mode.starts_with(kPrefix)) return false;
  const auto* level = std::find(std::begin(kCpuLevels), std::end(kCpuLevels), mode.substr(kPrefix.size()));
  if (level == std::end(kCpuLevels)) return false;
  out.mode = AffinityOption::Mode::per_task;
  out.level = static_cast<CpuLevel>(level - std::begin(kCpuLevels));
  return true;
}

Result<void> read_mode(const JsonAt& option, std::string_view mode, Resource of, AffinityOption& out) {
  static constexpr std::pair<std::string_view, Mode> kWords[] = {{"on", Mode::on},
                                                                 {"off", Mode::off},
                                                                 {"per-task", Mode::per_task},
                                                                 {"closest", Mode::closest},
                                                                 {"prefer-closest", Mode::prefer_closest}};
  for (const auto& [word, value] : kWords) {
    if (mode != word || (of == Resource::cpus && word.ends_with("closest"))) continue;
    out.mode = value;
    return {};
  }
  if (of == Resource::cpus && read_level(mode, out)) return {};
  if (!mode.starts_with("map:")) return option.expected(modes(of));
  out.mode = Mode::map;
  for (std::string_view entry : split(mode.substr(4), ';')) {
    out.map.push_back(TRY(in(option.path() + ": map", parse_affinity_set(entry))));
  }
  return {};
}

Result<void> read_text(const JsonAt& option, std::string_view text, Resource of, AffinityOption& out) {
  for (;;) {
    std::string_view word = text.substr(0, text.find(','));
    if (word == "verbose") {
      out.verbose = true;
    } else if (word == "dry-run") {
      out.dry_run = true;
    } else {
      return read_mode(option, text, of, out);
    }
    if (word.size() == text.size()) return {};
    text.remove_prefix(word.size() + 1);
  }
}

// A switch in the form of command lines and initrcs: true, 1, false, 0.
Result<bool> read_switch(const JsonAt& value, std::string_view wanted) {
  const Json& json = value.json();
  if (json.is_boolean()) return json.get<bool>();
  if (json == 0 || json == 1) return json == 1;
  return value.expected(wanted);
}

Result<void> read_value(const JsonAt& option, Resource of, AffinityOption& out) {
  if (option.json().is_string()) return read_text(option, TRY(option.string()), of, out);
  bool on = TRY(read_switch(option, modes(of)));
  out.mode = on ? AffinityOption::Mode::on : AffinityOption::Mode::off;
  return {};
}

Result<void> read_object(const JsonAt& option, Resource of, AffinityOption& out) {
  CHECK_OK(option.only_keys({"mode", "verbose", "dry-run"}));
  if (auto mode = TRY(option.find("mode"))) CHECK_OK(read_value(*mode, of, out));
  if (auto verbose = TRY(option.find("verbose"))) out.verbose = TRY(read_switch(*verbose, "true or false"));
  if (auto dry_run = TRY(option.find("dry-run"))) out.dry_run = TRY(read_switch(*dry_run, "true or false"));
  return {};
}

// Reads a word that has to be one of these; false and 0 mean `off`.
Result<std::string> read_word(const std::optional<JsonAt>& option, std::initializer_list<std::string_view> words) {
  if (!option || option->json() == false || option->json() == 0) return std::string("off");
  if (option->json().is_string()) {
    std::string word = TRY(option->string());
    if (word == "off" || std::find(words.begin(), words.end(), word) != words.end()) return word;
  }
  return option->expected(fmt::format("{} or off", fmt::join(words, ", ")));
}

}  // namespace

Result<std::string> read_mem_affinity(const std::optional<JsonAt>& option) {
  return read_word(option, {"bind", "prefer", "interleave"});
}

Result<std::string> read_nic_affinity(const std::optional<JsonAt>& option) {
  return read_word(option, {"closest"});
}

Result<AffinityOption> AffinityOption::read(const std::optional<JsonAt>& option, Resource of) {
  AffinityOption out;
  if (!option) return out;
  out.given = true;
  CHECK_OK(option->json().is_object() ? read_object(*option, of, out) : read_value(*option, of, out));
  out.verbose = out.verbose || out.dry_run;
  return out;
}

bool binds_to_own_cores(const job::Options& options) {
  auto option = AffinityOption::read(options.at("cpu-affinity"), AffinityOption::Resource::cpus);
  return option && option->mode == AffinityOption::Mode::per_task && option->level == CpuLevel::core;
}

Result<Idset> parse_affinity_set(std::string_view text) {
  Result<Idset> set = text.starts_with("0x") ? parse_mask(text) : parse_list(text);
  if (set && set->empty()) set = invalid("the set is empty");
  if (set) return set;
  Error error = std::move(set).error();
  return in(in_quotes(text), Error{error.code, error.message + "; a set is written 0-3,7 or 0x8f"});
}

std::pair<std::size_t, std::size_t> share_of(std::size_t task, std::size_t tasks, std::size_t count) {
  if (count == 0 || tasks == 0) return {0, 0};
  std::size_t first = task * count / tasks;
  return {first, std::max(first + 1, (task + 1) * count / tasks)};
}

std::pair<std::size_t, std::size_t> part_of(std::size_t task, std::size_t tasks, std::size_t count,
                                            std::size_t each) {
  auto [first, last] = share_of(task, tasks, count);
  return {first, each > 0 && each * tasks <= count ? first + each : last};
}

}  // namespace nacre::plugins
