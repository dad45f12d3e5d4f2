// SPDX-License-Identifier: Apache-2.0
//
// stage-in: archives are extracted on the nodes of the job before its tasks start: those that flux-archive(1) has
// put into the instance of Flux whose job shell this is, and those made by nacre-archive(1).
//
//   stage-in              a switch: the archive `main` into FLUX_JOB_TMPDIR
//   stage-in.tags         the same as names, as Flux had it first
//   stage-in.names        the archives, parted by commas or as an array; extracted in this order
//   stage-in.pattern      only what matches this glob(7)
//   stage-in.destination  [local:|global:]PATH: another directory, made where it is missing. local, the default: on
//                         each node; global: all nodes see it, so only the first shell extracts. A relative path is
//                         one from the job's directory.
//   stage-in.overwrite    a switch: replace files that are there
//   stage-in.max-size     what the files of all archives may have in all; 100G by default
//   stage-in.dir          where the archives are; else in the instance, and those that it does not have as for
//                         nacre archive, by the variables of the job's environment, and for those that it
//                         lacks of the shell's
//
// What is wrong with the options, or an archive that is not there, is an error of shell.init. Extraction may take
// minutes, so it runs in a thread, begun in shell.post-init: the loop goes on, signals are served, and the start of
// the tasks waits for it. Whatever ends the job meanwhile (SIGINT by the shell, the others by this plugin) stops it
// at the next block; shell.exit waits for that, and comes to this plugin before it comes to tmpdir.
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "archive/create.hpp"
#include "archive/extract.hpp"
#include "base/signals.hpp"
#include "base/text.hpp"
#include "broker/instance.hpp"
#include "broker/kvs.hpp"
#include "job/options.hpp"
#include "plugins/builtins.hpp"
#include "plugins/files.hpp"

namespace nacre::plugins {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStartHold = "stage-in";
constexpr std::uint64_t kMaxSize = std::uint64_t{100} << 30;  // bytes

struct Request {
  std::vector<std::string> names{archive::kDefaultName};
  bool has_tags = false;
  std::optional<std::string> pattern;
  std::optional<std::string> destination;  // none: the job's directory on the node
  bool global = false;
  bool overwrite = false;
  std::optional<std::string> store;
  std::uint64_t max_size = kMaxSize;
};

Result<void> read_destination(const JsonAt& option, Request& request) {
  std::string text = TRY(option.string());
  std::size_t colon = text.find(':');
  std::string scope = text.substr(0, colon == std::string::npos ? 0 : colon);
  if (scope == "local" || scope == "global") {
    request.global = scope == "global";
    text.erase(0, colon + 1);
  } else if (!scope.empty() && scope.find('/') == std::string::npos) {
    return option.expected("local:PATH, global:PATH or PATH");
  }
  if (text.empty()) return option.expected("a path");
  request.destination = std::move(text);
  return {};
}

// None: nothing is to be staged.
Result<std::optional<Request>> read_request(const job::Options& options) {
  auto option = options.at("stage-in");
  if (!option) return std::optional<Request>();
  Request request;
  if (!option->json().is_object()) {
    return TRY(options.flag("stage-in")) ? std::optional(request) : std::nullopt;
  }
  CHECK_OK(option->only_keys({"names", "tags", "pattern", "destination", "overwrite", "max-size", "dir"}));
  for (std::string_view key : {"tags", "names"}) {
    auto names = TRY(option->find(key));
    if (!names) continue;
    request.names = TRY(job::list_option(*names));
    request.has_tags = key == "tags";
  }
  if (auto pattern = TRY(option->find("pattern"))) request.pattern = TRY(pattern->string());
  if (auto destination = TRY(option->find("destination"))) CHECK_OK(read_destination(*destination, request));
  if (auto store = TRY(option->find("dir"))) request.store = TRY(store->string());
  if (auto size = TRY(option->find("max-size"))) request.max_size = TRY(job::size_option(*size));
  request.overwrite = TRY(options.flag("stage-in.overwrite"));
  return std::optional<Request>(std::move(request));
}

struct Source {
  std::string place;  // the archive's path, or its key in the instance's store
  Json objects;       // its files, if it is there
};

// What the thread works on. The loop's thread reads `outcome` when the pipe shows that it is there.
struct Work {
  std::vector<Source> archives;
  std::optional<broker::ContentStore> content;  // of the instance
  bool lists = false;
  std::vector<std::string> listed;  // the extracted files, in the form of ls -l
  archive::ExtractOptions options;
  std::atomic<bool> stop{false};
  UniqueFd done;  // closed, and so readable at its other end, when the outcome is there
  Result<archive::Progress> outcome;
};

Result<archive::Progress> extract_one(Work& work, const Source& source, const archive::ExtractOptions& options,
                                      const archive::Watch& watch) {
  if (!source.objects.is_null())
    return extract_objects(JsonAt::root(source.objects, source.place), options, watch, &*work.content);
  archive::Library library = TRY(archive::Library::load());
  archive::Reader reader = TRY(archive::Reader::open(library, source.place));
  return archive::extract(reader, options, watch);
}

Result<archive::Progress> extract_all(Work& work) {
  archive::Watch watch{{}, [&work](const archive::Progress&) { return !work.stop; }};
  if (work.lists)
    watch.on_entry = [&work](const archive::ArchiveEntry& each) { work.listed.push_back(long_form(each)); };
  archive::Progress all;
  for (const Source& source : work.archives) {
    archive::ExtractOptions options = work.options;
    options.bytes_before = all.bytes;
    archive::Progress one = TRY(extract_one(work, source, options, watch));
    all.entries += one.entries;
    all.bytes += one.bytes;
  }
  if (work.options.pattern && all.entries == 0) {
    return Error{ENOENT, fmt::format("nothing in the archives matches {}", in_quotes(*work.options.pattern))};
  }
  return all;
}

class StageIn final : public plugin::Plugin {
 public:
  explicit StageIn(plugin::Host& host) : Plugin("stage-in"), host_(host) {
    on("shell.init", [this] { return check(); });
    on("shell.post-init", [this] { return begin(); });
    on("shell.exit", [this] { stop(); });
  }
  ~StageIn() override { stop(); }

 private:
  Result<void> check() {
    request_ = TRY(read_request(host_.options()));
    if (!request_) return {};
    if (request_->has_tags && host_.job().leads())
      log(host_, *this, Level::warn, "stage-in.tags is deprecated; use stage-in.names");
    work_ = std::make_unique<Work>();
    work_->lists = host_.log().wants(Level::trace);
    if (host_.instance() != nullptr && !request_->store)
      work_->content = TRY(in("stage-in", broker::ContentStore::connect(host_.instance()->broker->uri())));
    for (const std::string& name : request_->names) work_->archives.push_back(TRY(in("stage-in", find(name))));
    work_->options.pattern = request_->pattern;
    work_->options.max_bytes = request_->max_size;
    work_->options.limited_by = "stage-in.max-size";
    work_->options.all_or_nothing = true;
    host_.start_after_all();
    if (request_->overwrite) work_->options.existing = archive::Existing::replace;
    return {};
  }

  Result<Source> find(const std::string& name) {
    if (!work_->content) return find_file(name);
    auto objects = TRY(work_->content->archive(name));
    if (objects) return Source{"archive." + name, *std::move(objects)};
    return in(fmt::format("the Flux instance has no archive {}", in_quotes(name)), find_file(name));
  }

  Result<Source> find_file(const std::string& name) const {
    const archive::ArchiveStore store = TRY(store_of(*request_));
    return Source{TRY(store.find(name)).path, {}};
  }

  Result<archive::ArchiveStore> store_of(const Request& request) const {
    if (request.store) return archive::ArchiveStore(from_job_directory(*request.store));
    return archive::ArchiveStore::of_environment([this](const char* name) -> std::optional<std::string> {
      if (auto value = host_.environment().get(name)) return std::string(*value);
      const char* own = std::getenv(name);
      return own != nullptr ? std::optional<std::string>(own) : std::nullopt;
    });
  }

  [[nodiscard]] std::string from_job_directory(const std::string& path) const {
    const job::Job& job = host_.job();
    return path.starts_with('/') || !job.spec.cwd ? path : *job.spec.cwd + '/' + path;
  }

  Result<void> begin() {
    if (!request_ || (request_->global && !host_.job().leads())) return {};
    work_->options.directory = TRY(in("stage-in", make_destination()));
    Pipe pipe = TRY(make_pipe(O_CLOEXEC | O_NONBLOCK));
    done_ = std::move(pipe.read);
    work_->done = std::move(pipe.write);
    auto done = TRY(event::Poll::create(host_.loop(), done_.get(), [this](int) { finish(); }));
    CHECK_OK(done.start(event::Poll::kReadable));
    poll_ = std::move(done);
    CHECK_OK(start_thread());
    host_.hold_start(kStartHold);
    return {};
  }

  Result<std::string> make_destination() {
    if (!request_->destination) {
      auto directory = host_.environment().get("FLUX_JOB_TMPDIR");
      if (!directory) return invalid("no FLUX_JOB_TMPDIR to extract to; use stage-in.destination");
      return std::string(*directory);
    }
    std::string path = from_job_directory(*request_->destination);
    std::error_code error;
    fs::create_directories(path, error);
    if (error) return system_error(error.value(), "cannot make " + path);
    return path;
  }

  // Not std::thread, which throws where the system has no more threads.
  Result<void> start_thread() {
    SignalsBlocked blocked;  // signals are the loop's
    pthread_t thread{};
    auto run = [](void* work) -> void* {
      auto& mine = *static_cast<Work*>(work);
      mine.outcome = extract_all(mine);
      mine.done.reset();
      return nullptr;
    };
    int code = ::pthread_create(&thread, nullptr, run, work_.get());
    if (code != 0) return system_error(code, "stage-in: cannot start a thread");
    thread_ = thread;
    return {};
  }

  void finish() {
    stop();
    const Result<archive::Progress>& outcome = work_->outcome;
    for (const std::string& each : work_->listed) log(host_, *this, Level::trace, "{}", each);
    if (outcome) {
      log(host_, *this, Level::debug, "{} entries with {} bytes extracted to {}", outcome->entries, outcome->bytes,
          work_->options.directory);
    } else if (!host_.ending()) {
      host_.die(1, name(), outcome.error().message);
    }
    // The start has been held since the thread was started.
    static_cast<void>(host_.release_start(kStartHold));
  }

  // Waits until the thread has ended, and frees what served it.
  void stop() {
    if (!thread_) return;
    work_->stop = true;
    ::pthread_join(*thread_, nullptr);
    thread_.reset();
    poll_.reset();
    done_.reset();
  }

  plugin::Host& host_;
  std::optional<Request> request_;
  std::unique_ptr<Work> work_;
  std::optional<pthread_t> thread_;
  UniqueFd done_;
  std::optional<event::Poll> poll_;
};

}  // namespace

PluginPtr make_stage_in(plugin::Host& host) { return std::make_unique<StageIn>(host); }

}  // namespace nacre::plugins
