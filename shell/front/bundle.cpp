// SPDX-License-Identifier: Apache-2.0
#include "front/bundle.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "archive/create.hpp"
#include "base/text.hpp"
#include "cli/interrupts.hpp"
#include "front/doctor_verb.hpp"
#include "record/shareable.hpp"
#include "timeline/summary.hpp"
#include "usage/table.hpp"

namespace nacre::front {
namespace {

constexpr mode_t kMode = 0600;
constexpr const char* kManifest = "MANIFEST.json";

struct Tail {
  std::string text;
  std::uint64_t whole = 0;  // bytes of the file
};

Result<Tail> tail_of(const std::string& path, std::size_t most) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file) return system_error(errno, path);
  struct stat info {};
  if (::fstat(file.get(), &info) < 0) return system_error(errno, path);
  if (!S_ISREG(info.st_mode)) return invalid(path + ": is no file, so nothing of it is kept");
  Tail out;
  out.whole = static_cast<std::uint64_t>(info.st_size);
  std::uint64_t from = out.whole > most ? out.whole - most : 0;
  out.text.resize(most);
  std::size_t size = 0;
  while (size < most) {
    ssize_t got = ::pread(file.get(), out.text.data() + size, most - size, static_cast<off_t>(from + size));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(errno, path);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  out.text.resize(size);
  return out;
}

std::string pretty(const Json& value) { return value.dump(2, ' ', false, Json::error_handler_t::replace) + '\n'; }

}  // namespace

void Bundle::add(const std::string& path, std::string text) {
  if (text.empty()) return;
  files_.push_back({path, std::move(text), "", 0});
}

void Bundle::add_json(const std::string& path, const Json& value) { add(path, pretty(value)); }

void Bundle::add_tail(const std::string& path, const std::string& file) {
  auto tail = tail_of(file, kMostTail);
  if (!tail) return lacks(path, tail.error().message);
  if (tail->text.empty()) return lacks(path, file + ": is empty");
  files_.push_back({path, record::text_without_secrets(tail->text), file, tail->whole});
}

Result<Bundle::Written> Bundle::write(const std::string& path, bool replaces, Json about) const {
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond RLIMIT_FSIZE is an error then
  cli::Interrupts interrupts;
  std::error_code failed;
  std::filesystem::path target = std::filesystem::absolute(path, failed);
  if (failed) return system_error(failed.value(), path);
  struct stat info {};
  if (!replaces && ::lstat(target.c_str(), &info) == 0)
    return Error{EEXIST, fmt::format("{}: exists already; --force replaces it", path)};
  if (::stat(target.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    return invalid(fmt::format("{}: is no file: expected the name of one that can be made or replaced", path));
  if (::stat(target.parent_path().c_str(), &info) < 0)
    return system_error(errno, "cannot write to " + target.parent_path().native());

  Written out;
  Json files = Json::array();
  for (const File& each : files_) {
    Json file{{"path", each.path}, {"bytes", each.text.size()}};
    if (!each.of.empty()) file["of"] = {{"path", each.of}, {"bytes", each.whole}};
    files.push_back(std::move(file));
    ++out.files;
    out.bytes += each.text.size();
  }
  Json missing = Json::array();
  for (const auto& [what, why] : lacks_) missing.push_back({{"what", what}, {"why", why}});
  about["files"] = std::move(files);
  about["missing"] = std::move(missing);
  std::string manifest = pretty(about);

  auto library = TRY(archive::Library::load());
  archive::NewFile file = TRY(archive::NewFile::create(target));
  if (::fchmod(file.fd(), kMode) < 0) return system_error(errno, path);
  auto writer = TRY(in(path, archive::Writer::create(library, file.fd(), archive::Compression::zstd)));
  auto put = [&](const std::string& name, std::string_view text) -> Result<void> {
    if (auto signum = interrupts.pending()) return Error{ECANCELED, "interrupted"};
    archive::ArchiveEntry entry;
    entry.path = folder_ + "/" + name;
    entry.mode = kMode;
    entry.size = text.size();
    ::clock_gettime(CLOCK_REALTIME, &entry.mtime);
    CHECK_OK(in(path, writer.begin(entry)));
    CHECK_OK(in(path, writer.write(0, text)));
    return in(path, writer.end());
  };
  CHECK_OK(put(kManifest, manifest));
  for (const File& each : files_) CHECK_OK(put(each.path, each.text));
  CHECK_OK(in(path, writer.finish()));
  if (interrupts.pending()) return Error{ECANCELED, "interrupted"};
  auto committed = file.commit(replaces);
  if (!committed && committed.error().code == EEXIST)
    return Error{EEXIST, fmt::format("{}: exists already; --force replaces it", path)};
  CHECK_OK(std::move(committed));
  return out;
}

// ---- bundle of --------------------------------------------------------------------------

namespace {

std::string text_member(const Json& of, const char* name) {
  const Json& value = member_of(of, name);
  return value.is_string() ? value.get<std::string>() : "";
}

class Content {
 public:
  explicit Content(const BundleSources& from)
      : from_(from), details_(from.details), bundle_("nacre-" + from.entry.id.f58_plain()) {}

  Bundle made() {
    add_report();
    add_usage();
    for (const char* each : {"versions", "options", "environment", "shell_environment", "plan", "events"}) {
      if (details_.is_object() && member_of(details_, each).is_null())
        bundle_.lacks(each, "was left out, as the details of the job were too long");
    }
    if (details_.is_null()) {
      bundle_.lacks("versions, options, environment, plan, events, doctor, output", from_.why_no_details);
    } else {
      add_details();
      add_doctor();
    }
    add_output();
    add_timeline();
    return std::move(bundle_);
  }

 private:
  void add_report() {
    bundle_.add("report.txt", from_.text);
    Json report = Json::parse(from_.entry.text(), nullptr, false);
    if (!from_.exits.is_null()) {
      report["running"] = member_of(from_.exits, "running");
      report["exits"] = member_of(from_.exits, "exits");
      report["report"] = record::json_without_secrets(member_of(from_.report, "report"));
    }
    bundle_.add_json("report.json", report);
    bundle_.add_json("exits.json", from_.entry.ended() ? from_.entry.end->exits : member_of(from_.exits, "exits"));
  }

  void add_usage() {
    const Json& usage = from_.entry.ended() ? from_.entry.end->usage : from_.usage;
    if (!usage.is_object()) return bundle_.lacks("usage", "was not measured: start the job with --usage");
    bundle_.add_json("usage.json", usage);
    bundle_.add("usage.txt", usage::summary_text(usage, ""));
  }

  void add_timeline() {
    const Json& timeline = from_.entry.ended() ? from_.entry.end->timeline : from_.timeline;
    if (!timeline.is_object()) return bundle_.lacks("timeline", "was not kept: start the job with --timeline");
    bundle_.add_json("timeline.json", timeline);
    if (auto summary = timeline::Summary::parse(timeline))
      bundle_.add("timeline.txt", timeline::text_of(*summary, ""));
    else
      bundle_.lacks("timeline.txt", summary.error().message);
  }

  void add_details() {
    for (const char* each : {"versions", "options", "environment"}) {
      if (!member_of(details_, each).is_null())
        bundle_.add_json(fmt::format("{}.json", each), member_of(details_, each));
    }
    if (!member_of(details_, "shell_environment").is_null())
      bundle_.add_json("environment-shell.json", member_of(details_, "shell_environment"));
    add_plan();
    std::string events;
    if (member_of(details_, "events").is_array()) {
      for (const Json& each : member_of(details_, "events")) events += dump_json(each) + '\n';
    }
    bundle_.add("eventlog.jsonl", events);
    if (std::string messages = text_member(details_, "messages"); !messages.empty())
      bundle_.add("messages.txt", messages);
    else
      bundle_.lacks("messages", "the shells have logged none that the leader has kept");
  }

  void add_plan() {
    const Json& plan = member_of(details_, "plan");
    if (!plan.is_object()) return;
    bundle_.add("plan.txt", text_member(plan, "text"));
    bundle_.add_json("plan.json", member_of(plan, "part"));
    std::string host = text_member(plan, "host");
    if (member_of(plan, "tasks_left_out").is_number())
      bundle_.lacks("plan",
                    fmt::format("{} more tasks of {}", plan.at("tasks_left_out").get<std::uint64_t>(), host));
    if (from_.entry.shells > 1)
      bundle_.lacks("plan",
                    fmt::format("that of the shells on other hosts than {}: nacre run --explain has it", host));
  }

  void add_doctor() {
    const Json& look = member_of(details_, "doctor");
    if (look.is_null())
      return bundle_.lacks("doctor", "nobody has run nacre doctor, and hang-watch has found nothing");
    bundle_.add_json("doctor.json", record::json_without_secrets(look));
    if (auto found = DoctorAnswer::parse(look))
      bundle_.add("doctor.txt", record::text_without_secrets(found->text({})));
    else
      bundle_.lacks("doctor.txt", found.error().message);
  }

  void add_output() {
    if (std::string text = text_member(details_, "output"); !text.empty())
      bundle_.add("output/last.txt", text);
    else if (!details_.is_null() && from_.own_output.empty())
      bundle_.lacks("output/last.txt", from_.entry.ended() && from_.entry.end->code == 0
                                           ? "of a job that has ended well nothing is kept"
                                           : "nothing came out at the job's standard output and error");
    if (!from_.own_output.empty()) bundle_.add_tail("output/detached.txt", from_.own_output);
    if (!member_of(details_, "files").is_array()) return;
    int number = 0;
    for (const Json& each : member_of(details_, "files")) {
      std::string path = text_member(each, "path"), stream = text_member(each, "stream");
      if (path.empty()) {
        bundle_.lacks("output/" + stream,
                      fmt::format("files of tasks on other hosts, {}", text_member(each, "template")));
        continue;
      }
      std::string name = std::filesystem::path(path).filename().native();
      bundle_.add_tail(fmt::format("output/{:02}-{}-{}", ++number, stream, name), path);
    }
  }

  const BundleSources& from_;
  const Json& details_;
  Bundle bundle_;
};

}  // namespace

Bundle bundle_of(const BundleSources& sources) { return Content(sources).made(); }

}  // namespace nacre::front
