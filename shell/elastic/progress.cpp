// SPDX-License-Identifier: Apache-2.0
#include "elastic/progress.hpp"

#include "base/text.hpp"
#include "wire/json.hpp"

namespace nacre::elastic {

// ---- the text ---------------------------------------------------------------------------

namespace {

using Look = job::RestartOption::NoProgress::Look;

std::string local_time(double at) {
  auto seconds = static_cast<std::time_t>(at);
  std::tm parts{};
  std::array<char, 32> text{};
  ::localtime_r(&seconds, &parts);
  return {text.data(), std::strftime(text.data(), text.size(), "%F %T", &parts)};
}

std::string what_was_seen(const job::RestartOption::NoProgress& option, const std::string& seen) {
  switch (option.look) {
    case Look::output:
      return seen.empty() ? fmt::format("no line of the output has a number behind {}", in_quotes(option.what))
                          : fmt::format("the largest number behind {} in the output is still {}",
                                        in_quotes(option.what), seen);
    case Look::file: return fmt::format("{} is as it was ({})", option.what, seen);
    case Look::command: break;
  }
  return fmt::format("{} prints the same ({})", in_quotes(option.what), seen);
}

std::string names_of(const value::Idset& shells, const job::Job& job) {
  value::Hostlist hosts;
  for (value::Idset::Id shell : shells.ids()) hosts.append(job.resources.nodes[shell].hostname);
  hosts.uniq();
  return fmt::format("{} (shell {})", hosts.str(), shells.short_str());
}

// One host has failed each time, or several hosts have failed in the same way.
std::string suspect(const IdleRestarts& of, const job::RestartOption& option, const job::Job& job, bool whole) {
  if (job.shells() < 2 || of.shells.empty() || *of.shells.last() >= job.shells()) return "";
  const std::string where = names_of(of.shells, job);
  const bool may_go = whole || option.where == job::RestartOption::Where::spare;
  if (of.shells.size() == 1)
    return fmt::format("; all {} failures were on {}, so that host {}", of.restarts + 1, where,
                       may_go ? "is suspect" : "or what it runs is suspect: where=spare shows which");
  if (!of.record || !of.record->status()) return fmt::format("; the failures were on {}", where);
  return fmt::format("; on {} it {} each time, so the program is suspect, and no host", where,
                     of.record->status()->str());
}

}  // namespace

std::string IdleRestarts::text(const job::RestartOption& option, const job::Job& job, bool whole) const {
  return fmt::format("restart: {} restart{} brought no progress since {}: {}{}", restarts,
                     restarts == 1 ? " has" : "s have", local_time(since), what_was_seen(*option.no_progress, seen),
                     suspect(*this, option, job, whole));
}

// ---- what is noted ----------------------------------------------------------------------

namespace {

std::optional<double> number_of(const std::string& text) {
  double out = 0;
  auto read = std::from_chars(text.data(), text.data() + text.size(), out);
  return read.ec == std::errc() ? std::optional(out) : std::nullopt;
}

}  // namespace

std::string RestartProgress::larger(const std::string& a, const std::string& b) {
  return number_of(a) < number_of(b) ? b : a;
}

bool RestartProgress::has_moved(const std::string& before, const std::string& now) const {
  return option_.no_progress->look == Look::output ? number_of(before) < number_of(now) : before != now;
}

std::optional<IdleRestarts> RestartProgress::note(std::optional<IdleRestarts>& so_far,
                                                  const ProgressLook& look) const {
  if (!so_far || has_moved(so_far->seen, look.seen)) {
    so_far = IdleRestarts{look.seen, look.at, 0, value::Idset::range(look.shell, look.shell), look.record};
    return std::nullopt;
  }
  ++so_far->restarts;
  so_far->shells.insert(look.shell);
  if (so_far->record != look.record) so_far->record.reset();
  return so_far->restarts >= option_.no_progress->restarts ? so_far : std::nullopt;
}

std::optional<IdleRestarts> RestartProgress::note_all(const std::map<std::string, value::Idset>& parts,
                                                      std::uint32_t shell, const exits::Record& record) {
  std::optional<ProgressPart> leaders;
  std::string seen;
  for (const auto& [text, shells] : parts) {
    auto part = ProgressPart::parse(text);
    if (!part) continue;
    seen = larger(seen, part->seen);
    if (part->leads) leaders = *std::move(part);
  }
  if (!leaders) return std::nullopt;
  all_ = leaders->before;
  return note(all_, {option_.no_progress->look == Look::output ? seen : leaders->seen, leaders->at, shell, record});
}

// ---- for other shells -------------------------------------------------------------------

void fields(auto& io, wire::Of<IdleRestarts> auto& m) {
  io.has("seen", m.seen);
  io.has("since", m.since);
  io.has("restarts", m.restarts);
  io.has("shells", m.shells);
  std::string record = m.record ? m.record->str() : "";
  io.may_have("record", record);
  if constexpr (wire::kReads<decltype(io)>) {
    auto read = exits::Record::parse(record);
    m.record = read ? std::optional(*read) : std::nullopt;
  }
}

void fields(auto& io, wire::Of<ProgressPart> auto& m) {
  io.has("seen", m.seen);
  io.may_have("at", m.at);
  io.may_have("leads", m.leads);
  io.may_have("before", m.before);
}

std::string ProgressPart::text() const { return wire::to_text(*this); }

Result<ProgressPart> ProgressPart::parse(std::string_view text) { return wire::from_text<ProgressPart>(text); }

auto RestartProgress::description() {
  return wire::Object{[](auto& io, auto& m) {
    io.may_have("all", m.all_);
    io.has("tasks", m.tasks_, wire::Each{wire::Array{[](auto& task, auto& of) {
             task.are("[RANK, WHAT IS NOTED]");
             task.has(of.first);
             task.has(of.second);
           }}});
  }};
}

Json RestartProgress::json() const { return description().write(*this); }

Result<void> RestartProgress::take(const JsonAt& at) { return description().read(at, *this); }

}  // namespace nacre::elastic
