// SPDX-License-Identifier: Apache-2.0
#include "exits/policy.hpp"

#include "base/text.hpp"

namespace nacre::exits {
namespace {

constexpr int kFailure = 1;

constexpr std::array<std::pair<std::string_view, Policy::Kind>, 5> kNames{{
    {"max", Policy::Kind::max},
    {"main", Policy::Kind::main},
    {"all", Policy::Kind::all},
    {"main+all", Policy::Kind::main_and_all},
    {"first", Policy::Kind::first},
}};

constexpr std::array<std::string_view, 3> kClasses{"host", "user", "no-progress"};

}  // namespace

std::string_view ExitClasses::name_of(FailureClass which) { return kClasses.at(static_cast<std::size_t>(which)); }

Result<ExitClasses> ExitClasses::parse(std::string_view text) {
  constexpr std::uint64_t kMostCode = 255;
  ExitClasses out;
  std::array<bool, kClasses.size()> given{};
  for (std::string_view part : split(text, ',')) {
    const std::size_t colon = std::min(part.find(':'), part.size());
    const auto* found = std::find(kClasses.begin(), kClasses.end(), part.substr(0, colon));
    const std::string_view value = part.substr(std::min(colon + 1, part.size()));
    const auto code = parse_u64(value);
    const bool is_code = code && *code >= 1 && *code <= kMostCode;
    if (found == kClasses.end() || (!is_code && value != "cause"))
      return invalid(fmt::format("expected host, user or no-progress, each with :CODE (1 to {}) or :cause, got {}",
                                 kMostCode, in_quotes(part)));
    const auto which = static_cast<std::size_t>(found - kClasses.begin());
    if (std::exchange(given.at(which), true)) return invalid(fmt::format("{} is given twice", *found));
    if (is_code) out.codes_.at(which) = static_cast<int>(*code);
  }
  return out;
}

Result<Policy::Kind> Policy::kind_of(std::string_view name) {
  for (const auto& [each, kind] : kNames) {
    if (each == name) return kind;
  }
  return invalid(fmt::format("expected max, main, all, main+all or first, got {}", in_quotes(name)));
}

std::string_view Policy::name_of(Kind kind) { return kNames.at(static_cast<std::size_t>(kind)).first; }

int Policy::code_of(const Record& record) const {
  const auto& status = record.status();
  bool exited = record.kind() == Record::Kind::ended && status->is_exit();
  if (exited && ok_.contains(static_cast<value::Idset::Id>(status->exit_code()))) return 0;
  return record.code();
}

int Policy::code(const Outcomes& outcomes) const {
  switch (kind_) {
    case Kind::max: return largest(outcomes);
    case Kind::main: return mains(outcomes);
    case Kind::all: return any(outcomes);
    case Kind::main_and_all: {
      if (outcomes.ranks().empty()) return 0;
      int main = mains(outcomes);
      return main != 0 ? main : any(outcomes);
    }
    case Kind::first: return first(outcomes);
  }
  return kFailure;
}

int Policy::largest(const Outcomes& outcomes) const {
  int code = 0;
  for (const auto& [record, ranks] : outcomes.classes()) code = std::max(code, code_of(record));
  return code;
}

int Policy::mains(const Outcomes& outcomes) const {
  auto record = outcomes.of(main_);
  if (!record || record->kind() == Record::Kind::victim) return kFailure;
  return code_of(*record);
}

int Policy::any(const Outcomes& outcomes) const {
  auto classes = outcomes.classes();
  bool succeeded = std::all_of(classes.begin(), classes.end(), [this](const Outcomes::Class& each) {
    return each.first.kind() != Record::Kind::victim && !is_failure(each.first);
  });
  return succeeded ? 0 : kFailure;
}

int Policy::first(const Outcomes& outcomes) const {
  for (const auto& [record, ranks] : outcomes.in_order()) {
    if (is_failure(record)) return code_of(record);
  }
  return 0;
}

}  // namespace nacre::exits
