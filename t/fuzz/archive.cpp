// SPDX-License-Identifier: Apache-2.0
//
// Whatever an archive says, its entries lie below one directory, and nothing is written outside of that.
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "archive/entry.hpp"
#include "archive/extract.hpp"
#include "require.hpp"

using namespace nacre;
using namespace nacre::archive;
using nacre::fuzz::require;
namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 20;
constexpr const char* kSecret = "secret";

const Library& library() {
  static const Result<Library> loaded = Library::load();
  require(loaded.has_value(), "libarchive can be loaded");
  return *loaded;
}

void require_safe(const ArchiveEntry& entry) {
  auto clean = clean_path(entry.path);
  require(!entry.path.empty() && clean && *clean == entry.path, "a clean path: " + entry.path);
  require(entry.mode <= 0777, "no bits but permissions: " + entry.path);
  if (entry.type == Type::symlink) require(check_symlink(entry.path, entry.target).has_value(), "a link inside");
  if (entry.type == Type::hard_link) require(clean_path(entry.target).has_value(), "a hard link inside");
}

// Whether there is anything to extract.
bool require_readable(Result<Reader> reader) {
  if (!reader) return false;
  for (bool any = false;; any = true) {
    auto entry = reader->next();
    if (!entry) require(entry.error().message.starts_with("x: "), "an error names its archive");
    if (!entry || !*entry) return any;
    require_safe(**entry);
    std::uint64_t bytes = 0;
    for (auto block = reader->next_block(); block && *block; block = reader->next_block()) {
      require((*block)->offset + (*block)->bytes.size() <= (*entry)->size, "content within its file");
      bytes += (*block)->bytes.size();
      if (bytes > kMaxBytes) return true;
    }
  }
}

// "base/to" to extract to, in which a link to "base/outside" stands already; and "base/outside/secret".
class Sandbox {
 public:
  Sandbox() {
    require(::mkdtemp(base_.data()) != nullptr, "a folder in /tmp");
    fs::create_directory(base_ + "/outside");
    std::ofstream(base_ + "/outside/secret") << kSecret;
    fs::create_directory(base_ + "/to");
    fs::create_directory_symlink("../outside", base_ + "/to/out");
  }
  ~Sandbox() {
    std::error_code error;
    // What is extracted may forbid its owner to remove it.
    for (fs::recursive_directory_iterator each(base_, error), end; !error && each != end; each.increment(error)) {
      std::error_code ignored;
      if (each->symlink_status().type() == fs::file_type::directory) {
        fs::permissions(each->path(), fs::perms::owner_all, ignored);
      }
    }
    fs::remove_all(base_, error);
  }
  Sandbox(const Sandbox&) = delete;
  Sandbox& operator=(const Sandbox&) = delete;

  [[nodiscard]] std::string directory() const { return base_ + "/to"; }

  void require_untouched() const {
    require(names(base_) == std::vector<std::string>{"outside", "to"}, "nothing beside the directory");
    require(names(base_ + "/outside") == std::vector<std::string>{"secret"}, "nothing through the link");
    std::ifstream secret(base_ + "/outside/secret");
    require(std::string(std::istreambuf_iterator<char>(secret), {}) == kSecret, "what is outside stays as it is");
    struct stat info {};
    require(::stat((base_ + "/outside/secret").c_str(), &info) == 0 && info.st_nlink == 1, "no other name for it");
  }

 private:
  static std::vector<std::string> names(const std::string& directory) {
    std::vector<std::string> out;
    for (const auto& each : fs::directory_iterator(directory)) out.push_back(each.path().filename());
    std::sort(out.begin(), out.end());
    return out;
  }

  std::string base_ = "/tmp/fuzz-archive-XXXXXX";
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (!require_readable(Reader::of_memory(library(), bytes, "x"))) return 0;
  auto reader = Reader::of_memory(library(), bytes, "x");
  if (!reader) return 0;
  Sandbox sandbox;
  ExtractOptions options;
  options.directory = sandbox.directory();
  options.existing = size % 2 == 0 ? Existing::refuse : Existing::replace;
  options.max_bytes = kMaxBytes;
  if (auto done = extract(*reader, options, {}); done) require(done->bytes <= kMaxBytes, "within the limit");
  sandbox.require_untouched();
  return 0;
}
