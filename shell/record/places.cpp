// SPDX-License-Identifier: Apache-2.0
#include "record/places.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/owned_directory.hpp"
#include "base/process_stat.hpp"
#include "base/program.hpp"
#include "base/text.hpp"

namespace nacre::record {
namespace {

constexpr std::string_view kSuffix = ".json";
constexpr std::string_view kOutputSuffix = ".out";
constexpr std::string_view kDetailsSuffix = ".details";
constexpr const char* kBadHosts = "bad-hosts";
constexpr std::size_t kMostBadHosts = std::size_t{1} << 20;  // bytes that are read
constexpr mode_t kDirectoryMode = 0700;
constexpr mode_t kFileMode = 0600;
constexpr mode_t kAccessBits = 07777;
constexpr mode_t kOthers = 077;
constexpr mode_t kOthersWrite = 022;

Result<void> check_owner(int fd, const std::string& path, mode_t forbidden) {
  struct stat status {};
  if (::fstat(fd, &status) < 0) return system_error(errno, path);
  if (status.st_uid != ::geteuid())
    return Error{EPERM, fmt::format("{}: belongs to user {}, not to user {}: remove it, or set NACRE_JOBS_DIR",
                                    path, status.st_uid, ::geteuid())};
  if ((status.st_mode & forbidden) == 0) return {};
  return Error{EPERM, fmt::format("{}: has mode {:04o}, which lets others in: chmod 700 it", path,
                                  status.st_mode & kAccessBits)};
}

// Makes the parents. They may belong to anybody, except /tmp/nacre-UID: others could replace it by a directory of
// theirs.
Result<void> make_parents(const std::string& path) {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    std::string parent = path.substr(0, slash);
    if (::mkdir(parent.c_str(), kDirectoryMode) < 0 && errno != EEXIST)
      return system_error(errno, "cannot make " + parent);
  }
  if (::mkdir(path.c_str(), kDirectoryMode) < 0 && errno != EEXIST)
    return system_error(errno, "cannot make " + path);
  return {};
}

UniqueFd open_directory(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

// The parent of `path` if it is below a directory that anybody may write to.
std::optional<std::string> shared_parent(const std::string& path) {
  std::string parent = path.substr(0, path.rfind('/'));
  bool is_shared =
      parent.starts_with("/tmp/") || parent.starts_with("/var/tmp/") || parent.starts_with("/dev/shm/");
  return is_shared ? std::optional(parent) : std::nullopt;
}

std::string absolute_variable(const Variables& variables, const char* name) {
  std::string value = variables(name).value_or("");
  while (value.size() > 1 && value.ends_with('/')) value.pop_back();
  return value.starts_with('/') ? value : "";
}

// A home, or what the system makes for a session: nacre does not make the directory itself.
std::string existing_variable(const Variables& variables, const char* name) {
  std::string value = absolute_variable(variables, name);
  struct stat status {};
  return ::stat(value.c_str(), &status) == 0 && S_ISDIR(status.st_mode) ? value : "";
}

std::string temporary_name(const std::string& name, std::int64_t pid) { return fmt::format(".{}.{}", name, pid); }

bool is_temporary_name(std::string_view name) {
  std::size_t dot = name.rfind('.');
  std::string_view of = name.substr(0, dot);
  return name.starts_with('.') && dot > 0 && (of.ends_with(kSuffix) || of.ends_with(kDetailsSuffix)) &&
         parse_u64(name.substr(dot + 1));
}

std::string output_name(const value::JobId& id) { return id.f58_plain() + std::string(kOutputSuffix); }

std::string details_name(const value::JobId& id) { return id.f58_plain() + std::string(kDetailsSuffix); }

std::string file_name(const value::JobId& id) { return id.f58_plain() + std::string(kSuffix); }

}  // namespace

std::vector<std::string> places(const Variables& variables) {
  std::vector<std::string> out;
  auto add = [&out](const std::string& base, const char* behind) {
    if (!base.empty()) out.push_back(base + behind);
  };
  add(absolute_variable(variables, "NACRE_JOBS_DIR"), "");
  if (!out.empty()) return out;
  std::string state = absolute_variable(variables, "XDG_STATE_HOME");
  if (!state.empty())
    add(state, "/nacre/jobs");
  else
    add(existing_variable(variables, "HOME"), "/.local/state/nacre/jobs");
  add(existing_variable(variables, "XDG_RUNTIME_DIR"), "/nacre/jobs");
  out.push_back(fmt::format("{}/nacre-{}/jobs", shared_directory(), ::geteuid()));
  return out;
}

ProcessPlace own_place() {
  ProcessPlace out;
  out.host = host_name();
  // A digest, because the machine's id must not be published.
  out.machine = digits_of(out.host + std::string(trim(read_file("/etc/machine-id").value_or(""))));
  if (auto boot = read_file("/proc/sys/kernel/random/boot_id")) out.boot = digits_of(trim(*boot));
  struct stat status {};
  if (::stat("/proc/self/ns/pid", &status) == 0) out.pids = status.st_ino;
  return out;
}

std::optional<std::uint64_t> start_of(std::int64_t pid) {
  auto stat = ProcessStat::of(static_cast<pid_t>(pid));
  if (!stat || stat->state == 'Z' || stat->state == 'X') return std::nullopt;
  return stat->start;
}

Result<EntryDirectory> EntryDirectory::open(std::string path) {
  // The owner of the parent can replace this directory by another.
  if (auto parent = shared_parent(path)) {
    UniqueFd fd = open_directory(*parent);
    if (!fd) return system_error(errno, *parent);
    CHECK_OK(check_owner(fd.get(), *parent, kOthersWrite));
  }
  UniqueFd fd = open_directory(path);
  if (!fd) return system_error(errno, path);
  CHECK_OK(check_owner(fd.get(), path, kOthers));
  return EntryDirectory(std::move(path), std::move(fd));
}

Result<EntryDirectory> EntryDirectory::make(std::string path) {
  auto opened = open(path);
  if (opened || opened.error().code != ENOENT) return opened;
  CHECK_OK(make_parents(path));
  return open(std::move(path));
}

Result<EntryDirectory> EntryDirectory::choose(const std::vector<std::string>& candidates,
                                              std::vector<std::string>* skipped) {
  Error why = invalid("there is no place for the list of jobs: set NACRE_JOBS_DIR");
  for (const std::string& each : candidates) {
    auto made = make(each);
    if (made && ::faccessat(made->fd_.get(), ".", W_OK, AT_EACCESS) < 0) made = system_error(errno, each);
    if (made) return made;
    why = made.error();
    if (skipped != nullptr) skipped->push_back(why.message);
  }
  return why;
}

std::string EntryDirectory::path_of(const value::JobId& id) const { return path_ + "/" + file_name(id); }

Result<void> EntryDirectory::write(const JobEntry& entry) const {
  return replace(file_name(entry.id), entry.text());
}

Result<void> EntryDirectory::write_details(const value::JobId& id, std::string_view text) const {
  return replace(details_name(id), text);
}

Result<std::string> EntryDirectory::read_details(const value::JobId& id) const {
  return read_text(details_name(id), kMaxDetails);
}

Result<void> EntryDirectory::replace(const std::string& name, std::string_view text) const {
  std::string temporary = temporary_name(name, ::getpid());
  auto fail = [&](int code) {
    ::unlinkat(fd_.get(), temporary.c_str(), 0);
    return system_error(code, path_ + "/" + name);
  };
  ::unlinkat(fd_.get(), temporary.c_str(), 0);
  UniqueFd file(
      ::openat(fd_.get(), temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kFileMode));
  if (!file) return system_error(errno, path_ + "/" + temporary);
  if (int code = write_all(file.get(), text); code != 0) return fail(code);
  // A file system that is full may report that only here.
  if (::close(file.release()) < 0) return fail(errno);
  if (::renameat(fd_.get(), temporary.c_str(), fd_.get(), name.c_str()) < 0) return fail(errno);
  return {};
}

Result<std::string> EntryDirectory::read_bad_hosts() const { return read_text(kBadHosts, kMostBadHosts); }

Result<void> EntryDirectory::replace_bad_hosts(std::string_view text) const { return replace(kBadHosts, text); }

Result<void> EntryDirectory::add_bad_hosts(std::string_view lines) const {
  UniqueFd file(::openat(fd_.get(), kBadHosts, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                         kFileMode));
  const int error = file ? write_all(file.get(), lines) : errno;
  return error == 0 ? Result<void>() : system_error(error, path_ + "/" + kBadHosts);
}

Result<void> EntryDirectory::remove(const value::JobId& id) const {
  static_cast<void>(remove_output(id));
  ::unlinkat(fd_.get(), details_name(id).c_str(), 0);
  if (::unlinkat(fd_.get(), file_name(id).c_str(), 0) < 0 && errno != ENOENT)
    return system_error(errno, path_of(id));
  return {};
}

Result<UniqueFd> EntryDirectory::open_output(const value::JobId& id) const {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  UniqueFd file(::openat(fd_.get(), output_name(id).c_str(), kFlags, kFileMode));
  if (!file) return system_error(errno, path_ + "/" + output_name(id));
  return file;
}

Result<UniqueFd> EntryDirectory::read_output(const value::JobId& id) const {
  UniqueFd file(::openat(fd_.get(), output_name(id).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file) return system_error(errno, path_ + "/" + output_name(id));
  return file;
}

Result<void> EntryDirectory::remove_output(const value::JobId& id) const {
  if (::unlinkat(fd_.get(), output_name(id).c_str(), 0) < 0 && errno != ENOENT)
    return system_error(errno, path_ + "/" + output_name(id));
  return {};
}

void EntryDirectory::remove_outputs(double age) const {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  auto is_beside = [](std::string_view name) {
    return !name.starts_with('.') && (name.ends_with(kOutputSuffix) || name.ends_with(kDetailsSuffix));
  };
  for (const std::string& name : names_that(is_beside)) {
    std::string entry = name.substr(0, name.rfind('.')) + std::string(kSuffix);
    struct stat status {};
    if (::fstatat(fd_.get(), entry.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) continue;
    if (::fstatat(fd_.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) < 0) continue;
    if (static_cast<double>(now.tv_sec - status.st_mtim.tv_sec) > age) ::unlinkat(fd_.get(), name.c_str(), 0);
  }
}

Result<JobEntry> EntryDirectory::read(const value::JobId& id) const { return read_named(file_name(id)); }

void EntryDirectory::note_lost(const value::JobId& id) const {
  static_cast<void>(::utimensat(fd_.get(), file_name(id).c_str(), nullptr, AT_SYMLINK_NOFOLLOW));
}

double EntryDirectory::noted_at(const std::string& name) const {
  struct stat status {};
  if (::fstatat(fd_.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) < 0) return 0;
  return static_cast<double>(status.st_mtim.tv_sec) + static_cast<double>(status.st_mtim.tv_nsec) * 1e-9;
}

Result<JobEntry> EntryDirectory::read_named(const std::string& name) const {
  std::string path = path_ + "/" + name;
  std::string text = TRY(read_text(name, JobEntry::kMaxText + 1));
  auto entry = nacre::in(path, JobEntry::parse(text));
  if (entry && file_name(entry->id) != name)
    return invalid(fmt::format("{}: is of job {}, which has another file", path, entry->id.f58_plain()));
  return entry;
}

// At most so many bytes.
Result<std::string> EntryDirectory::read_text(const std::string& name, std::size_t most) const {
  std::string path = path_ + "/" + name;
  // Does not wait for the writer of a FIFO.
  UniqueFd file(::openat(fd_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file) return system_error(errno, path);
  struct stat status {};
  if (::fstat(file.get(), &status) < 0) return system_error(errno, path);
  if (!S_ISREG(status.st_mode)) return invalid(path + ": is no file");
  if (status.st_uid != ::geteuid()) return Error{EPERM, fmt::format("{}: belongs to user {}", path, status.st_uid)};
  // A file is replaced, not written to: so it has as many bytes as it says.
  std::string text(std::min(most, static_cast<std::size_t>(status.st_size)), '\0');
  std::size_t size = 0;
  for (ssize_t got = 1; got > 0 && size < text.size();) {
    got = ::read(file.get(), text.data() + size, text.size() - size);
    if (got < 0) return system_error(errno, path);
    size += static_cast<std::size_t>(got);
  }
  text.resize(size);
  return text;
}

void EntryDirectory::remove_temporary(const std::string& name, std::int64_t pid) const {
  ::unlinkat(fd_.get(), temporary_name(name, pid).c_str(), 0);
}

void EntryDirectory::remove_temporaries(double age) const {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  for (const std::string& name : names_that(is_temporary_name)) {
    struct stat status {};
    if (::fstatat(fd_.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) < 0) continue;
    if (static_cast<double>(now.tv_sec - status.st_mtim.tv_sec) > age) ::unlinkat(fd_.get(), name.c_str(), 0);
  }
}

std::vector<std::string> EntryDirectory::names() const {
  return names_that([](std::string_view name) { return !name.starts_with('.') && name.ends_with(kSuffix); });
}

std::vector<std::string> EntryDirectory::names_that(const std::function<bool(std::string_view)>& is) const {
  std::vector<std::string> out;
  int fd = ::openat(fd_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return out;
  DIR* folder = ::fdopendir(fd);
  if (folder == nullptr) {
    ::close(fd);
    return out;
  }
  while (const dirent* each = ::readdir(folder)) {
    if (is(each->d_name) && out.size() < kMaxEntries) out.emplace_back(each->d_name);
  }
  ::closedir(folder);
  return out;
}

// ---- list -------------------------------------------------------------------------------

namespace {

constexpr int kKilledCode = 137;           // 128 + SIGKILL
constexpr std::size_t kMostShown = 8;      // jobs that an error lists
constexpr std::size_t kMostWarnings = 8;   // one more line has the number of the others
constexpr double kTemporaryFor = 60 * 60;  // seconds: nobody takes that long to write an entry
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

// Jobs that have not ended; if all have, the one that has ended last.
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
  // Also a job that has ended: whoever means it gets no other one.
  if (Matches named = of_name(jobs, text); !named.empty()) return named;
  return those_that(jobs, [&](const Listed& job) { return begins_with(job.entry, text); });
}

// Whether an entry tells more than another one of the same job. A vanished entry may have been left behind because
// its place could not be written any more.
bool knows_more(const JobEntry& entry, const JobEntry& than) {
  return entry.ended() && (!than.ended() || (than.end->vanished && !entry.end->vanished));
}

bool has_failed(const EntryEnd& end) { return end.code != 0 || end.vanished; }

// Decides which ended jobs are forgotten, by their end. Failed jobs and successful ones are counted separately.
class Forgotten {
 public:
  explicit Forgotten(double now) : now_(now) {}
  void count(const EntryEnd& end) { ++ended_[has_failed(end) ? 1 : 0]; }
  // Called for the oldest first, of all that are counted.
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
  if (state == JobState::unled) return "L";
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
  const bool is_here =
      place.machine == witness.here.machine && place.boot == witness.here.boot && entry.pid_start != 0;
  const double leader = static_cast<double>(entry.pid_start) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  return is_here && witness.since_boot > leader ? witness.since_boot - leader : now - entry.started;
}

Leader leader_of(const JobEntry& entry, const Witness& witness) {
  const ProcessPlace& place = entry.place;
  const ProcessPlace& here = witness.here;
  if (place.host != here.host || place.machine != here.machine) return Leader::out_of_sight;
  // There is no /proc, on that host or here.
  if (place.boot.empty() || here.boot.empty() || entry.pid_start == 0) return Leader::out_of_sight;
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
        const double lost_at = entry->takes_over ? directory.noted_at(name) : now;
        entry = vanished(*std::move(entry), lost_at);
        if (!entry->may_go_on()) static_cast<void>(directory.write(*entry));
      }
    }
    if (!entry) {
      if (entry.error().code != ENOENT) warnings.push_back(entry.error().message);
      continue;
    }
    Listed job{*std::move(entry), JobState::running, place};
    if (job.entry.may_go_on() && now - job.entry.end->time < kForLeader)
      job.state = JobState::unled;
    else if (job.entry.ended())
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
  Matches running = those_that(all_of(jobs), [](const Listed& job) {
    return job.state == JobState::running || job.state == JobState::unled;
  });
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
