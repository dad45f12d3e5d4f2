// SPDX-License-Identifier: Apache-2.0
//
// files: what the jobspec has in attributes.system.files (Flux RFC 14) is in the job's directory, FLUX_JOB_TMPDIR,
// of each node before any task starts.
#include <algorithm>
#include <optional>

#include "broker/instance.hpp"
#include "plugins/builtins.hpp"
#include "plugins/file_objects.hpp"

namespace nacre::plugins {
namespace {

bool is_in_store(const Json& object) { return member_of(object, "encoding") == "blobvec"; }

class Files final : public plugin::Plugin {
 public:
  explicit Files(plugin::Host& host) : Plugin("files"), host_(host) {
    on("shell.init", [this] { return extract(); });
  }

 private:
  Result<void> extract() {
    static const Json::json_pointer kPlace("/attributes/system/files");
    const Json& given = find_at(host_.job().spec.document, kPlace);
    if (given.is_null()) return {};
    JsonAt files = JsonAt::root(given, "attributes.system.files");
    auto directory = host_.environment().get("FLUX_JOB_TMPDIR");
    if (!directory) return files.error("there is no FLUX_JOB_TMPDIR to put them into");
    std::optional<broker::ContentStore> content;
    if (host_.instance() != nullptr && std::any_of(given.begin(), given.end(), is_in_store))
      content = TRY(in(files.path(), broker::ContentStore::connect(host_.instance()->broker->uri())));
    archive::ExtractOptions options;
    options.directory = *directory;
    auto extracted = extract_objects(files, options, {}, content ? &*content : nullptr);
    return extracted ? Result<void>() : std::move(extracted).error();
  }

  plugin::Host& host_;
};

}  // namespace

PluginPtr make_files(plugin::Host& host) { return std::make_unique<Files>(host); }

}  // namespace nacre::plugins
