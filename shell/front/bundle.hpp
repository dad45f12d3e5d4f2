// SPDX-License-Identifier: Apache-2.0
//
// A bundle: one archive with all that is known of a job, for a ticket; see nacre-report(1), BUNDLES. Rules say
// which values of environment variables are in it; nothing that looks like a secret is (record/shareable.hpp).
#pragma once

#include "record/entry.hpp"

namespace nacre::front {

class Bundle {
 public:
  static constexpr std::size_t kMostTail = std::size_t{64} << 10;  // bytes of each file of output

  // `folder`: the one that all files of the archive are in.
  explicit Bundle(std::string folder) : folder_(std::move(folder)) {}

  // A file: `path` below the folder. An empty text is no file.
  void add(const std::string& path, std::string text);
  void add_json(const std::string& path, const Json& value);
  // The end of a file of this host, without what looks like a secret.
  void add_tail(const std::string& path, const std::string& file);
  // Notes what is not there, and why.
  void lacks(const std::string& what, const std::string& why) { lacks_.emplace_back(what, why); }

  struct Written {
    std::uint64_t files = 0, bytes = 0;  // without the manifest's
  };
  // The archive, with the manifest, MANIFEST.json; mode 0600. `about`: more members of the manifest. EEXIST: there
  // is a file of this name, and `replaces` is not given. After an error, or a signal that ends this process, there
  // is no file, or the former one.
  Result<Written> write(const std::string& path, bool replaces, Json about) const;

 private:
  struct File {
    std::string path;
    std::string text;
    std::string of;           // the file of which this is the end; "": this is a whole text
    std::uint64_t whole = 0;  // bytes of that file
  };

  std::string folder_;
  std::vector<File> files_;
  std::vector<std::pair<std::string, std::string>> lacks_;
};

// What is known of a job. `details`: as the plugin control makes them, or null. `exits`, `report`, `usage`,
// `timeline`: the answers of the leader of a running job; otherwise null.
struct BundleSources {
  const record::JobEntry& entry;
  std::string text;  // that `nacre report` prints
  Json details, exits, report, usage, timeline;
  std::string why_no_details;  // if they are null
  std::string own_output;      // the file beside the entry, if there is one
};
[[nodiscard]] Bundle bundle_of(const BundleSources& sources);

}  // namespace nacre::front
