// SPDX-License-Identifier: Apache-2.0
#include "front/multi_prog.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "base/text.hpp"

namespace nacre::front {
namespace {

using value::Idset;

// Splits one line into words.
class Words {
 public:
  explicit Words(std::string_view text) : text_(text) {}

  Result<std::vector<std::string>> split_all() {
    while (!text_.empty() && !ended_) CHECK_OK(take(next()));
    end_word();
    return std::move(words_);
  }

 private:
  char next() {
    char c = text_.front();
    text_.remove_prefix(1);
    return c;
  }

  Result<void> take(char c) {
    if (c == ' ' || c == '\t' || c == '\r') {
      end_word();
    } else if (c == '#' && !in_word_) {
      ended_ = true;
    } else if (c == '\'' || c == '"') {
      return quoted(c);
    } else {
      add(c == '\\' && !text_.empty() ? next() : c);
    }
    return {};
  }

  // Within "" a backslash stands for itself, except before another backslash, a quote, a dollar sign or a
  // backquote.
  Result<void> quoted(char quote) {
    in_word_ = true;
    while (!text_.empty()) {
      char c = next();
      if (c == quote) return {};
      bool escapes = quote == '"' && c == '\\' && !text_.empty() &&
                     std::string_view("\\\"$`").find(text_.front()) != std::string_view::npos;
      add(escapes ? next() : c);
    }
    return invalid(fmt::format("the quote {} is not closed", quote));
  }

  void add(char c) {
    in_word_ = true;
    word_ += c;
  }

  void end_word() {
    if (std::exchange(in_word_, false)) words_.push_back(std::exchange(word_, {}));
  }

  std::string_view text_;
  std::string word_;
  std::vector<std::string> words_;
  bool in_word_ = false;
  bool ended_ = false;
};

// The lines with their numbers; a line that ends in a backslash includes the next one.
std::vector<std::pair<std::size_t, std::string>> logical_lines(std::string_view text) {
  std::vector<std::pair<std::size_t, std::string>> out;
  bool goes_on = false;
  std::size_t number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    bool more = line.ends_with('\\') && !line.ends_with("\\\\");
    if (more) line.remove_suffix(1);
    if (goes_on)
      out.back().second += line;
    else
      out.emplace_back(number, line);
    goes_on = more;
  }
  return out;
}

Result<std::optional<Idset>> program_ranks(const std::string& word) {
  if (word == "*") return std::optional<Idset>();
  auto set = Idset::parse(word);
  if (!set || set->empty()) return invalid(fmt::format("expected ranks, as 0-3,7, or *, got {}", in_quotes(word)));
  return std::optional(*std::move(set));
}

}  // namespace

Result<std::vector<std::string>> words_of(std::string_view line) { return Words(line).split_all(); }

Result<MultiProg> MultiProg::parse(std::string_view text) {
  MultiProg out;
  Idset named;
  bool has_rest = false;
  for (const auto& [number, line] : logical_lines(text)) {
    std::string where = fmt::format("line {}", number);
    if (line.find('\0') != std::string::npos) return invalid(where + ": an argument cannot have a NUL");
    auto words = TRY(in(where, words_of(line)));
    if (words.empty()) continue;
    Program program;
    program.ranks = TRY(in(where, program_ranks(words[0])));
    if (words.size() < 2 || words[1].empty()) return invalid(where + ": expected a program behind the ranks");
    program.command.assign(words.begin() + 1, words.end());
    if (!program.ranks && std::exchange(has_rest, true)) return invalid(where + ": a second *");
    if (program.ranks) {
      if (Idset twice = named & *program.ranks; !twice.empty())
        return invalid(fmt::format("{}: a line before has rank {} too", where, twice.str()));
      named = named | *program.ranks;
    }
    if (out.programs.size() == kMaxPrograms)
      return Error{E2BIG, fmt::format("{}: more than {} programs", where, kMaxPrograms)};
    out.programs.push_back(std::move(program));
  }
  if (out.programs.empty()) return invalid("no program: expected lines of RANKS PROGRAM [ARG...]");
  return out;
}

std::optional<std::uint64_t> MultiProg::least_tasks() const {
  std::optional<std::uint64_t> out;
  for (const Program& each : programs) {
    if (each.ranks) out = std::max(out.value_or(0), std::uint64_t{*each.ranks->last()} + 1);
  }
  return out;
}

Result<void> MultiProg::check(std::uint64_t tasks) const {
  Idset all = Idset::range(0, static_cast<Idset::Id>(tasks - 1));
  Idset named;
  bool has_rest = false;
  for (const Program& each : programs) {
    if (each.ranks)
      named = named | *each.ranks;
    else
      has_rest = true;
  }
  if (Idset beyond = named - all; !beyond.empty())
    return invalid(fmt::format("rank {}, but the job has {} task{}: -n {}", beyond.str(), tasks,
                               tasks == 1 ? "" : "s", std::uint64_t{*named.last()} + 1));
  if (Idset left = all - named; !has_rest && !left.empty())
    return invalid(fmt::format("no program for rank {}: add a line for it, or *", left.short_str()));
  return {};
}

Json MultiProg::option() const {
  Json out = Json::array();
  for (const Program& each : programs) {
    Json entry{{"command", each.command}};
    if (each.ranks) entry["ranks"] = each.ranks->str();
    out.push_back(std::move(entry));
  }
  return out;
}

}  // namespace nacre::front
