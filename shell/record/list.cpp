// SPDX-License-Identifier: Apache-2.0
#include "record/list.hpp"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"

namespace nacre::record {
namespace {

constexpr int kKilledCode = 137;           // 128 + SIGKILL
constexpr std::size_t kMostShown = 8;      // jobs that an error lists
constexpr std::size_t kMostWarnings = 8;   // one more has the number of the others
constexpr double kTemporaryFor = 60 * 60;  // seconds: nobody writes one entry so long
constexpr std::string_view kSlurm = "slurm:";
constexpr std::string_view kF58Mark = "\u0192";  // the first letter of an id in F58

using Matches = std::vector<const Listed*>;

std::string shown(const Listed& job) {
  return job.entry.name.empty() ? job.entry.id.f58_plain()
                                : fmt::format("{} ({})", job.entry.id.f58_plain(), job.entry.name);
}

std::string shown(const Matches& jobs) {
  std::string out;
  for (std::size_t i = 0; i < jobs.size() && i < kMostShown; ++i) {
    if (i > 0) out += ", ";
    out += shown(*jobs[i]);
  }
  if (jobs.size() > kMostShown) out += fmt::format(" and {} others", jobs.size() - kMostShown);
  return out;
}

template <typename Is>
Matches those_that(Matches jobs, Is is) {
  std::erase_if(jobs, [&](const Listed* each) { return !is(*each); });
  return jobs;
}

Matches all_of(const std::vector<Listed>& jobs) {
  Matches out;
  for (const Listed& each : jobs) out.push_back(&each);
  return out;
}

// Those that have not ended; if all have, the one that has ended last.
Matches of_name(const Matches& jobs, std::string_view name) {
  Matches out =
      those_that(jobs, [&](const Listed& job) { return job.state != JobState::ended && job.entry.name == name; });
  if (!out.empty()) return out;
  out = those_that(jobs, [&](const Listed& job) { return job.entry.name == name; });
  auto last = std::max_element(out.begin(), out.end(), [](const Listed* one, const Listed* other) {
    return one->entry.end->time < other->entry.end->time;
  });
  return last == out.end() ? Matches() : Matches{*last};
}

bool is_of_step(const JobEntry& entry, std::string_view text) {
  std::size_t dot = text.find('.');
  return entry.manager.kind == "slurm" && entry.manager.job == text.substr(0, dot) &&
         (dot == std::string_view::npos || entry.manager.step == text.substr(dot + 1));
}

bool is_of_host(const JobEntry& entry, std::string_view host) {
  return entry.place.host == host || entry.place.host.substr(0, entry.place.host.find('.')) == host;
}

// Whether an id (RFC 19, F58) begins with `text`. The ƒ or f in front may be missing.
bool begins_with(const JobEntry& entry, std::string_view text) {
  std::string id = entry.id.f58_plain();
  if (text.starts_with(kF58Mark))
    text.remove_prefix(kF58Mark.size());
  else if (text.starts_with('f'))
    text.remove_prefix(1);
  return !text.empty() && std::string_view(id).substr(1).starts_with(text);
}

Matches of_text(const Matches& jobs, std::string_view text) {
  if (text.starts_with(kSlurm)) {
    std::string_view step = text.substr(kSlurm.size());
    Matches all = those_that(jobs, [&](const Listed& job) { return is_of_step(job.entry, step); });
    Matches running = those_that(
        jobs, [&](const Listed& job) { return job.state != JobState::ended && is_of_step(job.entry, step); });
    return running.empty() ? all : running;
  }
  if (auto id = value::JobId::parse(text)) {
    Matches same = those_that(jobs, [&](const Listed& job) { return job.entry.id == *id; });
    if (!same.empty()) return same;
  }
  // Of a job that has ended too: who means it does not get another one.
  if (Matches named = of_name(jobs, text); !named.empty()) return named;
  return those_that(jobs, [&](const Listed& job) { return begins_with(job.entry, text); });
}

// Of two entries of one job. One that has vanished may have been left behind as its place could not be written any
// more.
bool knows_more(const JobEntry& entry, const JobEntry& than) {
  return entry.ended() && (!than.ended() || (than.end->vanished && !entry.end->vanished));
}

bool has_failed(const EntryEnd& end) { return end.code != 0 || end.vanished; }

// Which of the ended jobs are forgotten, by their end. How many have failed says nothing of how many may be kept
// that went well, and the other way round.
class Forgotten {
 public:
  explicit Forgotten(double now) : now_(now) {}
  void count(const EntryEnd& end) { ++ended_[has_failed(end) ? 1 : 0]; }
  // Of all that were counted the oldest comes first.
  bool operator()(const EntryEnd& end) {
    std::size_t& left = ended_[has_failed(end) ? 1 : 0];
    const bool goes = left > JobList::kKept || end.time < now_ - JobList::kKeptFor;
    if (goes) --left;
    return goes;
  }

 private:
  double now_;
  std::array<std::size_t, 2> ended_{};
};

}  // namespace

std::string_view Listed::status() const {
  if (state == JobState::unknown) return "U";
  if (!entry.ended()) return "R";
  if (entry.end->vanished) return "V";
  return entry.end->code == 0 ? "CD" : "F";
}

Witness own_witness() {
  timespec since_boot{};
  ::clock_gettime(CLOCK_BOOTTIME, &since_boot);
  return {own_place(), start_of,
          static_cast<double>(since_boot.tv_sec) + static_cast<double>(since_boot.tv_nsec) * 1e-9};
}

double time_of(const JobEntry& entry, const Witness& witness, double now) {
  if (entry.ended()) return entry.end->ran > 0 ? entry.end->ran : entry.end->time - entry.started;
  const ProcessPlace& place = entry.place;
  const bool is_here = place.machine == witness.here.machine && place.boot == witness.here.boot;
  const double leader = static_cast<double>(entry.pid_start) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  return is_here && witness.since_boot > leader ? witness.since_boot - leader : now - entry.started;
}

Leader leader_of(const JobEntry& entry, const Witness& witness) {
  const ProcessPlace& place = entry.place;
  const ProcessPlace& here = witness.here;
  if (place.host != here.host || place.machine != here.machine) return Leader::out_of_sight;
  if (place.boot != here.boot) return Leader::gone;
  if (place.pids != here.pids) return Leader::out_of_sight;
  auto start = witness.start_of(entry.pid);
  return start && *start == entry.pid_start ? Leader::there : Leader::gone;
}

JobEntry vanished(JobEntry entry, double now) {
  EntryEnd end;
  end.time = now;
  end.code = kKilledCode;
  end.vanished = true;
  end.cause = "its leader has gone without a report: it was killed, or its host was";
  entry.end = std::move(end);
  return entry;
}

JobList JobList::read(const std::vector<std::string>& places, const Witness& witness, double now) {
  JobList out;
  for (const std::string& each : places) {
    auto directory = EntryDirectory::open(each);
    if (!directory) {
      int code = directory.error().code;
      if (code != ENOENT && code != EACCES && code != ENOTDIR) out.warnings.push_back(directory.error().message);
      continue;
    }
    bool again = std::any_of(out.directories.begin(), out.directories.end(),
                             [&](const EntryDirectory& other) { return other.path() == each; });
    if (again) continue;
    out.directories.push_back(*std::move(directory));
    out.read_place(out.directories.size() - 1, witness, now);
  }
  if (out.warnings.size() > kMostWarnings) {
    std::size_t more = out.warnings.size() - kMostWarnings;
    out.warnings.resize(kMostWarnings);
    out.warnings.push_back(fmt::format("and {} others that cannot be read", more));
  }
  out.by_id_.clear();
  std::stable_sort(out.jobs.begin(), out.jobs.end(),
                   [](const Listed& a, const Listed& b) { return a.entry.started < b.entry.started; });
  out.prune(now);
  return out;
}

void JobList::read_place(std::size_t place, const Witness& witness, double now) {
  const EntryDirectory& directory = directories[place];
  for (const std::string& name : directory.names()) {
    auto entry = directory.read_named(name);
    if (entry && !entry->ended() && leader_of(*entry, witness) == Leader::gone) {
      // The leader may have written the job's end since, just before it exited.
      entry = directory.read_named(name);
      if (entry && !entry->ended()) {
        entry = vanished(*std::move(entry), now);
        static_cast<void>(directory.write(*entry));
      }
    }
    if (!entry) {
      if (entry.error().code != ENOENT) warnings.push_back(entry.error().message);
      continue;
    }
    Listed job{*std::move(entry), JobState::running, place};
    if (job.entry.ended())
      job.state = JobState::ended;
    else if (leader_of(job.entry, witness) == Leader::out_of_sight)
      job.state = JobState::unknown;
    auto [same, is_new] = by_id_.try_emplace(job.entry.id, jobs.size());
    if (is_new)
      jobs.push_back(std::move(job));
    else if (knows_more(job.entry, jobs[same->second].entry))
      jobs[same->second] = std::move(job);
  }
}

void JobList::prune(double now) {
  Forgotten is_forgotten(now);
  for (const Listed& job : jobs) {
    if (job.state == JobState::ended) is_forgotten.count(*job.entry.end);
  }
  for (const EntryDirectory& each : directories) {
    each.remove_temporaries(kTemporaryFor);
    each.remove_outputs(kKeptFor);
  }
  std::erase_if(jobs, [&](const Listed& job) {
    const bool goes = job.state == JobState::ended && is_forgotten(*job.entry.end);
    if (goes) static_cast<void>(directories[job.place].remove(job.entry.id));
    return goes;
  });
}

Result<const Listed*> JobList::find(std::string_view job) const {
  if (job.empty()) return invalid("JOB is empty: expected an id, the beginning of one, a name, or last");
  if (job == "last") {
    if (jobs.empty()) return Error{ENOENT, "last: there is no job in the list"};
    return &jobs.back();
  }
  const Matches all = all_of(jobs);
  Matches found = of_text(all, job);
  std::size_t slash = job.find('/');
  if (found.empty() && slash != std::string_view::npos)
    found =
        of_text(those_that(all, [&](const Listed& each) { return is_of_host(each.entry, job.substr(0, slash)); }),
                job.substr(slash + 1));
  if (found.empty())
    return Error{ENOENT, fmt::format("{}: no such job; `nacre jobs -a` lists all that are known", in_quotes(job))};
  if (found.size() > 1)
    return invalid(fmt::format("{} may be any of {} jobs: {}", in_quotes(job), found.size(), shown(found)));
  return found[0];
}

Result<const Listed*> JobList::only_one() const {
  Matches running = those_that(all_of(jobs), [](const Listed& job) { return job.state == JobState::running; });
  if (running.empty())
    running = those_that(all_of(jobs), [](const Listed& job) { return job.state == JobState::unknown; });
  if (running.empty()) return Error{ENOENT, "no job runs; `nacre jobs -a` lists those that have ended"};
  if (running.size() > 1)
    return invalid(fmt::format("{} jobs run: name one of {}", running.size(), shown(running)));
  return running[0];
}

void prune(const EntryDirectory& directory, double now) {
  directory.remove_temporaries(kTemporaryFor);
  directory.remove_outputs(JobList::kKeptFor);
  std::vector<std::pair<EntryEnd, value::JobId>> ended;
  Forgotten is_forgotten(now);
  for (const std::string& name : directory.names()) {
    auto entry = directory.read_named(name);
    if (!entry || !entry->ended()) continue;
    is_forgotten.count(*entry->end);
    ended.emplace_back(std::move(*entry->end), entry->id);
  }
  std::sort(ended.begin(), ended.end(), [](const auto& a, const auto& b) { return a.first.time < b.first.time; });
  for (const auto& [end, id] : ended) {
    if (is_forgotten(end)) static_cast<void>(directory.remove(id));
  }
}

}  // namespace nacre::record
