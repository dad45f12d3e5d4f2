// SPDX-License-Identifier: Apache-2.0
#include "job/rehearsal.hpp"

#include "base/text.hpp"
#include "value/wait_status.hpp"

namespace nacre::job {
namespace {

using Action = RehearsalEvent::Action;

constexpr std::array<std::string_view, 3> kActions{"kill", "freeze", "cut"};
constexpr std::string_view kActionWords = "kill, freeze or cut";
constexpr std::string_view kEventBlanks = " \t\n";

class RehearsalReader {
 public:
  explicit RehearsalReader(std::string_view text) : text_(text) { pass_blanks(); }

  [[nodiscard]] bool at_end() const { return at_ == text_.size(); }

  // The next word; "": an event ends here.
  [[nodiscard]] std::string_view peek() const {
    return text_.substr(at_, text_.find_first_of(" \t\n;", at_) - at_);
  }
  std::string_view take() {
    std::string_view word = peek();
    begin_ = at_;
    at_ += word.size();
    pass_blanks();
    return word;
  }
  // Past the semicolon between two events; false: there is none.
  bool next_event() {
    if (at_end() || text_[at_] != ';') return false;
    ++at_;
    pass_blanks();
    return true;
  }

  // An error about the word that was taken last.
  [[nodiscard]] Error expected(std::string_view what) const { return fail(begin_, what); }
  // An error about the next word.
  [[nodiscard]] Error expected_here(std::string_view what) const { return fail(at_, what); }

 private:
  void pass_blanks() { at_ = std::min(text_.find_first_not_of(kEventBlanks, at_), text_.size()); }

  [[nodiscard]] Error fail(std::size_t at, std::string_view what) const {
    std::string_view there = text_.substr(at, text_.find_first_of(" \t\n;", at) - at);
    std::string got = at == text_.size() ? "the end" : there.empty() ? "';'" : in_quotes(there.substr(0, 40));
    return invalid(fmt::format("at character {}: expected {}, got {}", at + 1, what, got));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t begin_ = 0;  // of the word that was taken last
};

Result<value::Duration> read_time(RehearsalReader& reader) {
  auto time = value::Duration::parse(reader.take());
  if (time && time->seconds() <= Rehearsal::kMostTime) return *time;
  return reader.expected("a time of at most 30 days, as 10s or 1.5m");
}

Result<void> read_target(RehearsalReader& reader, RehearsalEvent& event) {
  bool is_cut = event.action == Action::cut;
  std::string_view wanted = is_cut ? "a node, or NODE-NODE" : "a node, or rank and ranks";
  if (reader.peek().empty()) return reader.expected_here(wanted);
  std::string_view word = reader.take();
  if (is_cut && (word == "rank" || word == "ranks")) return reader.expected(wanted);
  if (word != "rank" && word != "ranks") {
    event.node = word;
    return {};
  }
  auto ranks = value::Idset::parse(reader.take());
  if (!ranks || ranks->empty()) return reader.expected("ranks, as 5 or 0-3,7");
  event.ranks = *std::move(ranks);
  return {};
}

Result<void> read_signal(RehearsalReader& reader, RehearsalEvent& event) {
  event.signal = value::signal_number(reader.take());
  if (event.signal == 0) return reader.expected("the name or the number of a signal, as SIGSEGV or 11");
  return {};
}

// The clauses that an event of this kind may have, for errors.
std::string clauses_of(const RehearsalEvent& event) {
  if (event.action != Action::kill) return "at TIME, for TIME, ';' or the end";
  return event.node.empty() ? "with SIGNAL, at TIME, ';' or the end" : "at TIME, ';' or the end";
}

Result<RehearsalEvent> read_event(RehearsalReader& reader) {
  RehearsalEvent out;
  std::string_view action = reader.peek().empty() ? std::string_view() : reader.take();
  if (action.empty()) return reader.expected_here(kActionWords);
  auto known = std::find(kActions.begin(), kActions.end(), action);
  if (known == kActions.end()) return reader.expected(kActionWords);
  out.action = static_cast<Action>(known - kActions.begin());
  CHECK_OK(read_target(reader, out));
  bool has_time = false, has_signal = false;
  while (!reader.peek().empty()) {
    std::string_view clause = reader.take();
    if (clause == "at" && !std::exchange(has_time, true)) {
      out.at = TRY(read_time(reader));
    } else if (clause == "for" && out.action != Action::kill && !out.lasts) {
      out.lasts = TRY(read_time(reader));
    } else if (clause == "with" && out.action == Action::kill && out.node.empty() &&
               !std::exchange(has_signal, true)) {
      CHECK_OK(read_signal(reader, out));
    } else {
      return reader.expected(clauses_of(out));
    }
  }
  if (out.action == Action::freeze && !out.node.empty() && !out.lasts)
    return reader.expected_here("for TIME, as nobody else lets a node go on");
  return out;
}

std::optional<value::Idset> shells_of_name(const std::string& name, const Job& job) {
  value::Idset out;
  for (std::uint32_t shell = 0; shell < job.resources.nodes.size(); ++shell) {
    if (job.resources.nodes[shell].hostname == name) out.insert(shell);
  }
  if (!out.empty()) return out;
  auto number = name.starts_with('n') ? parse_u64(std::string_view(name).substr(1)) : std::nullopt;
  if (!number || *number >= job.shells()) return std::nullopt;
  auto shell = static_cast<value::Idset::Id>(*number);
  return value::Idset::range(shell, shell);
}

}  // namespace

std::string RehearsalEvent::str() const {
  std::string out = fmt::format("{} {}", kActions.at(static_cast<std::size_t>(action)),
                                node.empty() ? "rank " + ranks.short_str() : node);
  if (action == Action::kill && node.empty() && signal != SIGKILL) out += " with " + signal_text();
  if (at.seconds() > 0) out += " at " + at.str();
  if (lasts) out += " for " + lasts->str();
  return out;
}

std::string RehearsalEvent::signal_text() const {
  std::string name = value::signal_name(signal);
  return value::signal_number(name) == signal ? name : std::to_string(signal);
}

Result<Rehearsal> Rehearsal::parse(std::string_view text) {
  if (text.size() > kMostText) return invalid(fmt::format("is longer than {} bytes", kMostText));
  Rehearsal out;
  RehearsalReader reader(text);
  do {
    if (out.events_.size() == kMostEvents)
      return reader.expected_here(fmt::format("at most {} events", kMostEvents));
    out.events_.push_back(TRY(read_event(reader)));
  } while (reader.next_event());
  return out;
}

Result<value::Idset> Rehearsal::shells_of(const RehearsalEvent& event, const Job& job) {
  if (event.node.empty()) return value::Idset();
  if (auto shells = shells_of_name(event.node, job)) return *std::move(shells);
  return invalid(fmt::format("{}: {} is no node of the job: expected a host of it, or n0{}", event.str(),
                             in_quotes(event.node),
                             job.shells() > 1 ? fmt::format(" to n{}", job.shells() - 1) : ""));
}

Result<Rehearsal::Sides> Rehearsal::sides_of(const RehearsalEvent& event, const Job& job) {
  value::Idset all = value::Idset::range(0, job.shells() - 1);
  if (auto shells = shells_of_name(event.node, job)) return Sides{*shells, all - *shells};
  // A host's name may have a '-' in it.
  for (std::size_t at = event.node.find('-'); at != std::string::npos; at = event.node.find('-', at + 1)) {
    auto one = shells_of_name(event.node.substr(0, at), job);
    auto other = shells_of_name(event.node.substr(at + 1), job);
    if (one && other) return Sides{*one, *other};
  }
  return invalid(fmt::format(
      "{}: {} is no node of the job, and no two with '-' between them: expected hosts of it, or n0{}", event.str(),
      in_quotes(event.node), job.shells() > 1 ? fmt::format(" to n{}", job.shells() - 1) : ""));
}

Result<void> Rehearsal::check(const Job& job) const {
  for (const RehearsalEvent& each : events_) {
    if (each.action == Action::cut) {
      TRY(sides_of(each, job));
      continue;
    }
    TRY(shells_of(each, job));
    if (auto last = each.ranks.last(); last && *last >= job.tasks())
      return invalid(
          fmt::format("{}: there is no rank {}: the job has ranks 0-{}", each.str(), *last, job.tasks() - 1));
  }
  return {};
}

}  // namespace nacre::job
