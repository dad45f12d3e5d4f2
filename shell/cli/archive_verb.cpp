// SPDX-License-Identifier: Apache-2.0
//
// nacre archive create|list|extract|remove; see nacre-archive(1).

#include "cli/archive_verb.hpp"

#include <unistd.h>

#include "archive/create.hpp"
#include "archive/extract.hpp"
#include "base/print.hpp"
#include "base/program.hpp"
#include "cli/command_line.hpp"
#include "cli/interrupts.hpp"
#include "cli/verbs.hpp"
#include "event/clock.hpp"
#include "job/options.hpp"

namespace nacre::cli {
namespace {

using archive::ArchiveEntry;
using archive::ArchiveStore;
using archive::Compression;
using archive::CreateOptions;
using archive::Progress;

// Prints to standard error what a copy does, and stops the copy when a signal comes.
class Copying : Noncopyable {
 public:
  explicit Copying(bool verbose)
      : verbose_(verbose), on_terminal_(::isatty(STDERR_FILENO) == 1), line_(event::clock_now().count()) {
    watch_.on_entry = [this](const ArchiveEntry& entry) {
      if (verbose_) print_err("{}\n", archive::shown(entry.path));
    };
    watch_.go_on = [this](const Progress& progress) {
      if (on_terminal_ && !verbose_) print_err(line_.update(progress, event::clock_now().count()));
      return !interrupts_.pending();
    };
  }
  ~Copying() { print_err(line_.clear()); }

  [[nodiscard]] const archive::Watch& watch() const { return watch_; }

 private:
  Interrupts interrupts_;
  bool verbose_;
  bool on_terminal_;
  ProgressLine line_;
  archive::Watch watch_;
};

class Archive final : public Verb {
 public:
  void add_to(CommandLine& verb) override {
    verb_ = &verb;
    add_create();
    add_list();
    add_extract();
    add_remove();
  }

  Result<int> run() override {
    std::signal(SIGXFSZ, SIG_IGN);  // a file beyond RLIMIT_FSIZE is an error then, and the file is removed
    ArchiveStore store = directory_ ? ArchiveStore(*directory_) : TRY(ArchiveStore::of_environment(own_variable));
    for (auto [action, run] : {std::pair{create_, &Archive::create}, std::pair{list_, &Archive::list},
                               std::pair{extract_, &Archive::extract}, std::pair{remove_, &Archive::remove}}) {
      if (action->parsed()) CHECK_OK((this->*run)(store));
    }
    return 0;
  }

 private:
  CommandLine* add(const char* name, const char* description) {
    CommandLine* action = verb_->add_subcommand(name, description);
    action->add_option("-n,--name", name_, "The archive's name (default: main)")->option_text("NAME");
    action
        ->add_option("--dir", directory_,
                     "Where archives are kept (default: $NACRE_ARCHIVE_DIR, else below the "
                     "user's data directory)")
        ->option_text("DIR");
    return action;
  }

  void add_create() {
    create_ = add("create", "Make an archive of files and directories");
    create_->add_option("-C,--directory", copy_.directory, "Take the paths from DIR")->option_text("DIR");
    create_->add_option("-c,--compression", compression_, "none, gzip, zstd or xz (default: zstd)")
        ->option_text("METHOD")
        ->check(one_of({"none", "gzip", "zstd", "xz"}));
    create_->add_flag("--overwrite", overwrite_, "Replace the archive, if there is one");
    create_->add_flag("--append", append_, "Add to the archive, if there is one")->excludes({"--overwrite"});
    create_->add_flag("-v,--verbose", verbose_, "Print each path on standard error");
    create_->add_option("PATH", paths_, "What to put in; directories with all that is in them")
        ->option_text("...")
        ->required();
  }

  void add_list() {
    list_ = add("list", "Print what is in an archive");
    list_->add_flag("-l,--long", long_, "With type, permissions, size and time");
    list_->add_flag("--archives", archives_, "Print the names of all archives instead");
    list_
        ->add_option("PATTERN", copy_.pattern, "Only paths that match this glob(7)")

        ->excludes({"--archives"});
  }

  void add_extract() {
    extract_ = add("extract", "Extract an archive, safely");
    extract_->add_option("-C,--directory", copy_.directory, "Extract to DIR (default: here)")->option_text("DIR");
    extract_->add_flag("--overwrite", overwrite_, "Replace files that are there already");
    auto take_size = [this](const std::string& text) -> Result<void> {
      auto size = job::size_option(JsonAt::root(Json(text), ""));
      if (!size)
        return invalid(fmt::format("expected a number of bytes, such as 4096 or 10M, got {}", in_quotes(text)));
      copy_.max_bytes = *size;
      return {};
    };
    extract_->add_option("--max-size", take_size, "Fail when the files have more content, as in 10G")
        ->option_text("SIZE");
    extract_->add_flag("-v,--verbose", verbose_, "Print each path on standard error");
    extract_->add_flag("-t,--list-only", list_only_, "Print the paths, and extract nothing");
    extract_->add_option("PATTERN", copy_.pattern, "Only paths that match this glob(7)");
  }

  void add_remove() {
    remove_ = add("remove", "Remove an archive");
    remove_->add_flag("-f,--force", force_, "Do not fail if there is none");
  }

  Result<void> create(const ArchiveStore& store) {
    CreateOptions options;
    options.directory = copy_.directory;
    options.paths = paths_;
    options.compression = archive::compression_named(compression_);
    using IfExists = CreateOptions::IfExists;
    options.if_exists = overwrite_ ? IfExists::replace : append_ ? IfExists::append : IfExists::refuse;
    auto library = TRY(archive::Library::load());
    Copying copying(verbose_);
    auto created = archive::create(library, store, name_, options, copying.watch());
    if (!created && created.error().code == EEXIST && !overwrite_ && !append_) {
      return Error{EEXIST, created.error().message + "; use --overwrite or --append"};
    }
    CHECK_OK(created);
    return {};
  }

  Result<void> list(const ArchiveStore& store) {
    if (!archives_) return print_entries(store);
    for (const std::string& name : TRY(store.names())) print_out("{}\n", name);
    return {};
  }

  Result<void> print_entries(const ArchiveStore& store) {
    auto library = TRY(archive::Library::load());
    auto reader = TRY(archive::Reader::open(library, TRY(store.find(name_)).path));
    bool any = false;
    while (std::optional<ArchiveEntry> entry = TRY(reader.next())) {
      if (copy_.pattern && !glob_match(*copy_.pattern, entry->path)) continue;
      any = true;
      print_out("{}\n", long_ ? archive::long_form(*entry) : archive::shown(entry->path));
    }
    return check_matched(reader.name(), any);
  }

  Result<void> extract(const ArchiveStore& store) {
    if (list_only_) return print_entries(store);
    copy_.existing = overwrite_ ? archive::Existing::replace : archive::Existing::refuse;
    auto library = TRY(archive::Library::load());
    auto reader = TRY(archive::Reader::open(library, TRY(store.find(name_)).path));
    Copying copying(verbose_);
    Progress done = TRY(archive::extract(reader, copy_, copying.watch()));
    return check_matched(reader.name(), done.entries > 0);
  }

  Result<void> check_matched(const std::string& path, bool any) const {
    if (any || !copy_.pattern) return {};
    return Error{ENOENT, fmt::format("{}: nothing in it matches {}", path, in_quotes(*copy_.pattern))};
  }

  Result<void> remove(const ArchiveStore& store) {
    std::optional<ArchiveStore::Found> found = TRY(store.look_up(name_));
    if (!found && force_) return {};
    return store.remove(found ? *found : TRY(store.find(name_)));
  }

  CommandLine* verb_ = nullptr;
  CommandLine* create_ = nullptr;
  CommandLine* list_ = nullptr;
  CommandLine* extract_ = nullptr;
  CommandLine* remove_ = nullptr;

  std::string name_ = archive::kDefaultName;
  std::optional<std::string> directory_;
  archive::ExtractOptions copy_;
  std::vector<std::string> paths_;
  std::string compression_;
  bool overwrite_ = false;
  bool append_ = false;
  bool verbose_ = false;
  bool long_ = false;
  bool archives_ = false;
  bool list_only_ = false;
  bool force_ = false;
};

}  // namespace

VerbPtr make_archive() { return std::make_unique<Archive>(); }

// ---- progress line ----------------------------------------------------------------------

namespace {

constexpr std::string_view kEraseLine = "\r\x1b[K";

}  // namespace

std::string ProgressLine::update(const archive::Progress& progress, double now) {
  if (now < due_) return {};
  due_ = now + kEvery;
  visible_ = true;
  return fmt::format("{}{} entries, {}", kEraseLine, progress.entries, human_size(progress.bytes));
}

std::string ProgressLine::clear() {
  if (!visible_) return {};
  visible_ = false;
  return std::string(kEraseLine);
}

std::string human_size(std::uint64_t bytes) {
  constexpr std::array kUnits{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  double size = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; size >= 1024 && unit + 1 < kUnits.size(); ++unit) size /= 1024;
  return fmt::format("{:.1f} {}", size, kUnits[unit]);
}

}  // namespace nacre::cli
